// The environment of a program that runs under Cupola. Pure: strings in, strings out.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cupola {

/// What Cupola adds to the environment of the program. Paths are absolute; "" = leave it alone.
struct RunEnvironment {
  std::string preload;         ///< LD_PRELOAD begins with it
  std::string driver;          ///< CUPOLA_DRIVER
  std::string library_folder;  ///< LD_LIBRARY_PATH begins with it
  std::string records;         ///< CUPOLA_RECORDS; removed when ""
  std::string timing;          ///< CUPOLA_TIMING; removed when ""
  /// Further variables, name and value, for one kind of run; removed when "".
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::string front_folder = "";  ///< where something is preloaded, LD_LIBRARY_PATH begins with it
};

/// `existing` ("NAME=value" each) with the additions. A value that is there already stays behind
/// ours and is not added twice, so that `cupola run` may run `cupola run`.
std::vector<std::string> WithCupola(const std::vector<std::string>& existing,
                                    const RunEnvironment& additions);

/// The environment of this process.
std::vector<std::string> CurrentEnvironment();

}  // namespace cupola
