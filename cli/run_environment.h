// The environment of a program that runs under Cupola. WithCupola is a pure function;
// CurrentEnvironment reads this process's environment, which no other thread may change meanwhile.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cupola {

/// What Cupola adds to the environment of the program. Paths are absolute. Where a value is "", the
/// variable stays as it is, unless the comment says that it is removed.
struct RunEnvironment {
  std::string preload;         ///< becomes the first word of LD_PRELOAD
  std::string driver;          ///< CUPOLA_DRIVER
  std::string library_folder;  ///< becomes the first word of LD_LIBRARY_PATH
  std::string records;         ///< CUPOLA_RECORDS; removed when ""
  std::string timing;          ///< CUPOLA_TIMING; removed when ""
  /// Further variables, name and value, for one kind of run; removed when "".
  std::vector<std::pair<std::string, std::string>> variables = {};
  /// With `preload`, becomes the first word of LD_LIBRARY_PATH.
  std::string front_folder = "";
};

/// `existing` ("NAME=value" each) with the additions. The words that a list already has stay behind
/// ours, and no word is added twice, so that `cupola run` may run `cupola run`.
std::vector<std::string> WithCupola(const std::vector<std::string>& existing,
                                    const RunEnvironment& additions);

/// The environment of this process.
std::vector<std::string> CurrentEnvironment();

}  // namespace cupola
