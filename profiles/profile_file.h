// Profiles as files: versioned JSON, "cupola_profile": 2, one launch a line. Written whole and put
// in place by rename, so that a reader never sees half of one. Any thread; two processes that add
// to one file take turns by a lock on <file>.lock.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "profiles/profile.h"

namespace cupola::profiles {

/// What is written. All versions from 1 on are read; the preemptions of version 1 are left out.
inline constexpr uint32_t kProfileVersion = 2;

/// The text of a profile, normalized. Ends in a newline.
std::string ToJson(const Profile& profile);

/// The profile in `text`. `file` is for messages. kDamaged names what is wrong and where
/// ("kernels[2].launches[0].ns: expected a whole number"); kUnsupported: of a newer version.
Result<Profile> FromJson(std::string_view text, const std::string& file);

/// kNotFound, kIo, kExhausted (over 1 GB), or as FromJson.
Result<Profile> ReadProfile(const std::string& path);

/// Writes `text` to a new file beside `path`, syncs it, renames it to `path`; makes missing
/// folders. kIo: nothing has changed.
Status WriteFileWhole(const std::string& path, std::string_view text);

/// Whether MergeIntoFile can write to `path`, and what is there can be added to; leaves nothing behind but the
/// folders and the lock that MergeIntoFile makes. Errors: as that.
Status CheckMerge(const std::string& path);
/// Whether files can be made in the folder, which is made where it is missing. kIo.
Status CheckFolder(const std::string& folder);

/// Merges `profile` into the file at `path`, which need not exist; returns what is there now. A
/// file that is damaged stays as it is, and is the error.
Result<Profile> MergeIntoFile(const Profile& profile, const std::string& path);

}  // namespace cupola::profiles
