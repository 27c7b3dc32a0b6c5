// Messages for people, written by a library that is loaded into somebody else's program. They go to the file that was
// standard error when the process image started, and to no other. A program may close descriptor 2, and the next file
// that it opens gets that number. So before each message descriptor 2 is compared with what it was at the start, by
// device, inode and time of birth; where it is another file by now, nothing is written. No copy of the descriptor is
// kept: a process that waits for the end of a pipe that the program has closed would wait for that copy too.
//
// Every shared object that contains this file looks at descriptor 2 when it is loaded. An object that may be loaded
// late, such as a driver, is told the identity by an earlier one (TakeStandardError). The functions neither allocate
// nor lock, and any thread may call them at any time. They ask the system by syscall(2), because they are part of the
// door, which has to load under any C library (intercept/door/door.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola {

/// Which file a descriptor leads to. Two identities are equal if and only if they are of the same file.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t born_ns = 0;  ///< time of birth; 0 where the file system does not know it
  uint32_t type = 0;    ///< S_IFMT of its mode; 0 = the descriptor is closed

  bool operator==(const FileIdentity&) const = default;
};

/// The identity behind a descriptor; `type` is 0 where the descriptor is closed. One system call; keeps errno.
FileIdentity IdentityOf(int descriptor) noexcept;

/// Writes `bytes` of text in one write(2), if descriptor 2 still is the standard error of the start. Returns whether it
/// wrote. A pipe without a reader raises no signal in the program, and a full one is waited for no longer than 100 ms.
/// Keeps errno.
bool WriteToStandardError(const char* text, size_t bytes) noexcept;

/// While it exists, a failing write of the calling thread raises no SIGPIPE and no SIGXFSZ. So the program does not end
/// because Cupola cannot write, be it for want of a reader or because of a limit on the size of files.
class WithoutWriteSignals {
 public:
  WithoutWriteSignals() noexcept;
  ~WithoutWriteSignals();
  WithoutWriteSignals(const WithoutWriteSignals&) = delete;
  WithoutWriteSignals& operator=(const WithoutWriteSignals&) = delete;

 private:
  // Sets of signals: bit s - 1 stands for signal s.
  uint64_t signals_;
  uint64_t before_;
};

/// What was standard error when this object was loaded, or what TakeStandardError said.
const FileIdentity& StandardErrorAtStart() noexcept;

/// Replaces what this object saw when it was loaded by what an object that was loaded before it saw.
void TakeStandardError(const FileIdentity& at_start) noexcept;

/// The name of a function `void(const FileIdentity*)` that a library of Cupola exports if it may be loaded late.
/// Whoever loads that library calls the function, where it exists, with StandardErrorAtStart().
inline constexpr char kTakeStandardErrorName[] = "cupola_take_standard_error";
using TakeStandardErrorFunction = void (*)(const FileIdentity*);

}  // namespace cupola
