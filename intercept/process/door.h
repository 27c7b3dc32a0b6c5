// The door is the small object that LD_PRELOAD names, libcupola.so. It stands in front of dlopen and
// dlsym and exports nothing of CUDA. The library behind it, libcupola/libcuda.so.1, takes the driver's
// place; it comes into a process only when the program, or something that the program loads, asks for the
// driver. This header is what the door and the library tell each other. Any thread; no lock.
#pragma once

#include <atomic>

#include "base/standard_error.h"
#include "intercept/process/driver_search.h"

namespace cupola::intercept {

/// What the door tells the library. The door has one in every process into which it is preloaded.
struct DoorFacts {
  /// The dlopen and dlsym that come behind the door. The library opens the driver by these. If it called dlopen,
  /// a preloaded library in front of the door could pass the call on to the door, which would return the library
  /// itself.
  void* (*open)(const char* file, int mode);
  void* (*find)(void* handle, const char* name);
  /// A path by which the program asked for the driver. Valid once `asked_state` is 2; 0 = none, 1 = being
  /// written.
  char asked_path[kPathBytes];
  std::atomic<int> asked_state;
  /// The file that was standard error when the door was loaded (base/standard_error.h); valid once `is_noted`.
  FileIdentity standard_error;
  std::atomic<bool> is_noted;
};

}  // namespace cupola::intercept

extern "C" {

/// Defined in the door; the library refers to it weakly. Without the door (LD_PRELOAD was removed, or the
/// library is in a linker namespace of its own) the library passes every call on and does nothing else.
extern cupola::intercept::DoorFacts cupola_door;

/// The library's answer to dlsym(handle of the library, name): the handle in which to search, `own` or the
/// driver's. Opens the driver. The library exports it under this name.
void* cupola_handle_for(void* own, const char* name) noexcept;
}
