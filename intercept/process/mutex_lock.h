// MutexLock: holds a pthread mutex while it lives. Cupola uses pthread mutexes because they have
// constant initialisation and no destructor: they work before its constructors and after its
// destructors have run.
#pragma once

#include <cstdint>
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

/// The time on CLOCK_MONOTONIC `ns` from now (less than a second), for WaitForSignal.
inline timespec MonotonicIn(uint64_t ns) noexcept {
  timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += static_cast<long>(ns);
  if (until.tv_nsec >= 1'000'000'000) until = {until.tv_sec + 1, until.tv_nsec - 1'000'000'000};
  return until;
}

/// Waits for a signal of `condition` until that time, which a change of the wall clock does not move. The caller holds `mutex`.
/// True: perhaps there was a signal; false: the time is over.
inline bool WaitForSignal(pthread_cond_t& condition, pthread_mutex_t& mutex, const timespec& until) noexcept {
  return pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) == 0;
}

}  // namespace cupola::intercept
