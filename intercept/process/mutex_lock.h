// MutexLock: holds a pthread mutex while it lives. Cupola uses pthread mutexes because they have
// constant initialisation and no destructor: they work before its constructors and after its
// destructors have run.
#pragma once

#include <pthread.h>

namespace cupola::intercept {

class MutexLock {
 public:
  explicit MutexLock(pthread_mutex_t& mutex) noexcept : mutex_(mutex) {
    pthread_mutex_lock(&mutex_);
  }
  ~MutexLock() { pthread_mutex_unlock(&mutex_); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace cupola::intercept
