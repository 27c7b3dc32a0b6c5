// What the program would have called, had the door not been there: the definition of a function that
// comes next after the door's in the order of the loaded objects. That may be another preloaded library's.
#pragma once

namespace cupola::intercept {

/// The definition of `name` in the first object behind the door that has one; null when there is none.
/// Reads the dynamic linker's list and nothing else: it calls no function of any library, since a sanitizer
/// that is not ready yet may stand in front of each, and takes no lock. What it looks at was loaded with the
/// program, and so is never unloaded: the search ends at the C library at the latest.
void* NextInOrder(const char* name) noexcept;

/// The path by which the door itself was loaded; null when it does not find itself.
const char* OwnPath() noexcept;

}  // namespace cupola::intercept
