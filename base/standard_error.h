// Messages for people, from a library that is loaded into somebody else's program. They go to the file that was
// standard error when the process image started, and to no other: a program may close descriptor 2, and the next file
// that it opens gets that number. So before each message descriptor 2 is compared with what it was at the start, by
// device, inode and time of birth; where it is something else by now, nothing is written. No copy of the descriptor is
// kept: whoever waits for the end of a pipe that the program has closed would wait for that copy too.
//
// Every shared object that contains this file looks at descriptor 2 when it is loaded. One that may be loaded late,
// as a driver, is told by the earlier one (TakeStandardError). No allocation, no lock; any thread, any time. Asks the
// system by syscall(2): it is part of the door, which has to load under any C library (intercept/door/door.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola {

/// Which file a descriptor leads to. Two of them are equal if and only if it is the same file.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t born_ns = 0;  ///< 0 where the file system does not know
  uint32_t type = 0;    ///< S_IFMT of its mode; 0 = the descriptor is closed

  bool operator==(const FileIdentity&) const = default;
};

/// The identity of an open descriptor; `type` is 0 where it is closed. One system call; keeps errno.
FileIdentity IdentityOf(int descriptor) noexcept;

/// Writes `bytes` of text in one write(2), where descriptor 2 is still the standard error of the start; says whether it
/// did. A pipe that nobody reads from is no signal for the program, and one that is full is waited for no longer than
/// 100 ms. Keeps errno.
bool WriteToStandardError(const char* text, size_t bytes) noexcept;

/// While it exists, a write of the calling thread that fails raises no SIGPIPE and no SIGXFSZ: what Cupola cannot
/// write, for want of a reader or by a limit on the size of files, does not end the program.
class WithoutWriteSignals {
 public:
  WithoutWriteSignals() noexcept;
  ~WithoutWriteSignals();
  WithoutWriteSignals(const WithoutWriteSignals&) = delete;
  WithoutWriteSignals& operator=(const WithoutWriteSignals&) = delete;

 private:
  uint64_t signals_, before_;  // bit s - 1: signal s
};

/// What was standard error when this object was loaded, or what TakeStandardError said.
const FileIdentity& StandardErrorAtStart() noexcept;

/// Replaces what this object saw when it was loaded: by what an object saw that was loaded before it.
void TakeStandardError(const FileIdentity& at_start) noexcept;

/// The name of a function `void(const FileIdentity*)` that a library of Cupola's exports if it may be loaded late. Who
/// loads it calls this function, where it is there, with StandardErrorAtStart().
inline constexpr char kTakeStandardErrorName[] = "cupola_take_standard_error";
using TakeStandardErrorFunction = void (*)(const FileIdentity*);

}  // namespace cupola
