// Where the variant store of this user lies, and whom its folders may belong to. In a header, with libc alone, since the
// door reads it too, which links nothing else of Cupola. Reading takes no lock and allocates nothing; any thread.
#pragma once

#include <cstdlib>

#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/variables.h"

namespace cupola::store {

/// The path of a folder, in two parts that follow one another.
struct StorePlace {
  const char* base = nullptr;  ///< an absolute path from the environment; null: there is no home folder
  const char* rest = "";
};

/// $CUPOLA_STORE, else $XDG_CACHE_HOME/cupola/variants, else ~/.cache/cupola/variants. Scans the environment.
inline StorePlace DefaultPlace() noexcept {
  const auto is_folder = [](const char* value) { return value != nullptr && value[0] == '/'; };
  if (const char* const store = settings::TrustedText("CUPOLA_STORE"); is_folder(store)) return {store, ""};
  if (const char* const cache = secure_getenv("XDG_CACHE_HOME"); is_folder(cache)) return {cache, "/cupola/variants"};
  if (const char* const home = secure_getenv("HOME"); is_folder(home)) return {home, "/.cache/cupola/variants"};
  return {};
}

/// Why a file or folder is not to be trusted; null where only this user may write to it.
inline const char* Distrust(const struct stat& facts) noexcept {
  if (facts.st_uid != geteuid()) return "belongs to another user";
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write to it";
  return nullptr;
}

}  // namespace cupola::store
