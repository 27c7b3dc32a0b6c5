// Finds the function that the program would have called without the door: the definition that comes next
// after the door's in the order of the loaded objects. It may be another preloaded library's. door.cpp calls
// it for `dlopen`, `dlsym` and the like, on the program's threads.
#pragma once

namespace cupola::intercept {

/// The definition of `name` in the first object behind the door that has one; null when there is none. Any
/// thread. Reads only the dynamic linker's list: it takes no lock and calls no function of any library, since
/// a sanitizer that is not ready yet may stand in front of each. All objects that it reads were loaded with
/// the program, and so are never unloaded, because the search ends at the C library at the latest.
void* NextInOrder(const char* name) noexcept;

/// The path by which the door itself was loaded; null when it does not find itself.
const char* OwnPath() noexcept;

}  // namespace cupola::intercept
