// Profiles as files: versioned JSON, "cupola_profile": 2, one launch on each line. A file is written whole and put in
// place by rename, so that a reader never sees a part of one. Any thread. Processes that add to one file take turns by
// a lock on <file>.lock.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "profiles/profile.h"

namespace cupola::profiles {

/// The version that is written. All versions from 1 on are read, but the preemptions of version 1 are left out.
inline constexpr uint32_t kProfileVersion = 2;

/// The text of a profile, normalized. Ends in a newline.
std::string ToJson(const Profile& profile);

/// The profile in `text`. `file` is the name used in messages. kDamaged: the message says what is wrong and where
/// ("kernels[2].launches[0].ns: expected a whole number"). kUnsupported: the profile is of a newer version.
Result<Profile> FromJson(std::string_view text, const std::string& file);

/// Reads the profile at `path`. Errors: kNotFound, kIo, kExhausted (over 1 GB), or those of FromJson.
Result<Profile> ReadProfile(const std::string& path);

/// Makes missing folders, writes `text` to a new file beside `path`, syncs it and renames it to `path`. kIo: the file
/// at `path` has not changed.
Status WriteFileWhole(const std::string& path, std::string_view text);

/// Checks whether MergeIntoFile can write to `path` and add to what is there. Leaves nothing behind but the folders and
/// the lock that MergeIntoFile makes. Errors are those of MergeIntoFile.
Status CheckMerge(const std::string& path);
/// Checks whether files can be made in the folder, and makes the folder where it is missing. kIo: they cannot.
Status CheckFolder(const std::string& folder);

/// Merges `profile` into the file at `path`, which need not exist. Returns what the file holds now. A damaged file
/// stays as it is and is an error.
Result<Profile> MergeIntoFile(const Profile& profile, const std::string& path);

}  // namespace cupola::profiles
