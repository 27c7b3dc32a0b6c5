#include "intercept/process/own_thread.h"

#include <pthread.h>
#include <signal.h>

namespace cupola::intercept {

bool StartOwnThread(void* (*run)(void*), void* argument, size_t stack_bytes) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  const bool is_started = pthread_create(&thread, &attributes, run, argument) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_started;
}

}  // namespace cupola::intercept
