// MutexLock: holds a pthread mutex while it lives. Cupola uses pthread mutexes because they have
// constant initialisation and no destructor: they work before its constructors and after its
// destructors have run.
#pragma once

#include <ctime>

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

/// From exit(): waits until a thread of ours has let go of the mutex, which it holds while it makes driver calls; for 2
/// seconds at most, since it may be in the driver for long, behind a gate that another process has closed.
inline void AwaitMutexAtExit(pthread_mutex_t& mutex) noexcept {
  constexpr time_t kLongestWait = 2;
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kLongestWait;
  if (pthread_mutex_timedlock(&mutex, &until) == 0) pthread_mutex_unlock(&mutex);
}

}  // namespace cupola::intercept
