// The door is the small object that LD_PRELOAD names: libcupola.so. It stands in front of dlopen and
// dlsym and exports nothing of CUDA. The library behind it, libcupola/libcuda.so.1, takes the driver's
// place and comes into a process only when the program, or something that it loads, asks for the driver.
// This is what the one tells the other. Any thread; no lock.
#pragma once

#include <atomic>

#include "base/standard_error.h"
#include "intercept/process/driver_search.h"

namespace cupola::intercept {

/// Made by the door, in every process that it is preloaded into.
struct DoorFacts {
  /// dlopen and dlsym as they come behind the door. By these the library opens the driver: by dlopen it would
  /// be given itself where a preloaded library in front of the door passes its call on.
  void* (*open)(const char* file, int mode);
  void* (*find)(void* handle, const char* name);
  /// A path by which the program asked for the driver; valid once `asked_state` is 2 (0 = none, 1 = being
  /// written).
  char asked_path[kPathBytes];
  std::atomic<int> asked_state;
  /// What was standard error when the door was loaded (base/standard_error.h); valid once `is_noted`.
  FileIdentity standard_error;
  std::atomic<bool> is_noted;
};

}  // namespace cupola::intercept

extern "C" {

/// Defined in the door. For the library behind it a weak reference: without the door (LD_PRELOAD was taken
/// away, or this is a namespace of its own) the library passes every call on and does nothing else.
extern cupola::intercept::DoorFacts cupola_door;

/// The library's answer to dlsym(handle of the library, name): the handle to search, `own` or the
/// driver's. Opens the driver. Exported by the library under this name.
void* cupola_handle_for(void* own, const char* name) noexcept;
}
