// PerThread: gives each thread an object that stays usable to the very end of the thread. A thread_local object does
// not: it is destroyed while other thread_local objects of the thread, and its pthread keys, may still make calls, and
// exit() destroys the main thread's before static objects and exit handlers make their calls. An object of PerThread is
// made at its first use and freed when the thread's last round of pthread key destructors runs (pthread_key_create(3));
// exit() does not free it at all.
#pragma once

#include <climits>

#include <pthread.h>

namespace cupola {

/// Make one PerThread for each purpose and never destroy it: `static auto* const own = new PerThread<T>;`. It takes one
/// of the process's 1,024 keys. Thread-safe. The shared object that contains this code must never be unloaded.
template <typename T>
class PerThread {
 public:
  PerThread() { pthread_key_create(&key_, &End); }
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  /// The calling thread's object, value-initialised at the first use.
  T& Get() {
    void* slot = pthread_getspecific(key_);
    if (slot == nullptr) {
      slot = new Slot{this};
      pthread_setspecific(key_, slot);
    }
    return static_cast<Slot*>(slot)->value;
  }

 private:
  struct Slot {
    PerThread* owner;
    int rounds_left = PTHREAD_DESTRUCTOR_ITERATIONS - 1;
    T value{};
  };

  static void End(void* pointer) {
    auto* const slot = static_cast<Slot*>(pointer);
    if (slot->rounds_left-- > 0) {
      pthread_setspecific(slot->owner->key_, slot);  // called again in the next round
    } else {
      delete slot;
    }
  }

  pthread_key_t key_{};
};

}  // namespace cupola
