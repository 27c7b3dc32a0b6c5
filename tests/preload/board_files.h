// A board without a daemon and a bundle, as files (CUPOLA_BOARD, CUPOLA_BUNDLE): what a program needs
// to take part in preemption over the null driver `null_board`. Removed with the object; one thread.
#pragma once

#include <map>
#include <string>

namespace cupola::preload_test {

class BoardFiles {
 public:
  /// The bundle says that a kernel named `kernel`, without parameters, has a variant.
  explicit BoardFiles(const std::string& kernel);
  ~BoardFiles();
  BoardFiles(const BoardFiles&) = delete;
  BoardFiles& operator=(const BoardFiles&) = delete;

  /// What makes a program use them, and `more`.
  std::map<std::string, std::string> Environment(
      std::map<std::string, std::string> more = {}) const;
  /// Whether a program has said on the board that it wants the GPU.
  bool SawDemand() const;

 private:
  std::string folder_;
};

}  // namespace cupola::preload_test
