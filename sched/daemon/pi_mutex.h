// PiMutex: a mutex that lends the priority of the thread that waits for it to the thread that holds it (priority
// inheritance, pthread_mutexattr_setprotocol(3)). The daemon's deciding threads may run at a real-time priority. The
// locks that they share with its ordinary threads are of this kind, so that no deciding thread waits for an ordinary
// thread that itself waits for a processor. Where the system has no such mutexes it is an ordinary mutex. It meets the
// standard's Lockable.
#pragma once

#include <pthread.h>

namespace cupola::sched {

class PiMutex {
 public:
  PiMutex() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    if (pthread_mutex_init(&mutex_, &attributes) != 0) pthread_mutex_init(&mutex_, nullptr);
    pthread_mutexattr_destroy(&attributes);
  }
  ~PiMutex() { pthread_mutex_destroy(&mutex_); }
  PiMutex(const PiMutex&) = delete;
  PiMutex& operator=(const PiMutex&) = delete;

  void lock() { pthread_mutex_lock(&mutex_); }
  bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace cupola::sched
