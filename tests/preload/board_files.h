// A bundle, and a board without a daemon, as files (CUPOLA_BUNDLE, CUPOLA_BOARD): what a program needs
// to take part in preemption over the null driver `null_board`. The files are removed with the object.
// One thread.
#pragma once

#include <map>
#include <string>

namespace cupola::preload_test {

class BoardFiles {
 public:
  /// Makes the files. The bundle says that a kernel named `kernel`, without parameters, has a variant.
  explicit BoardFiles(const std::string& kernel);
  ~BoardFiles();
  BoardFiles(const BoardFiles&) = delete;
  BoardFiles& operator=(const BoardFiles&) = delete;

  /// The environment that makes a program use the files, with `more` added.
  std::map<std::string, std::string> Environment(
      std::map<std::string, std::string> more = {}) const;
  /// Whether a program has said on the board that it wants the GPU.
  bool SawDemand() const;

 private:
  std::string folder_;
};

}  // namespace cupola::preload_test
