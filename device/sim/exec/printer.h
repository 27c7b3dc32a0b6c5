// The device's printf buffer. It holds what kernels print, in that order, until it is flushed to
// the process's standard output. The Device owns it; any thread may use it.
#pragma once

#include <mutex>
#include <string>

namespace cupola::sim {

class PrintBuffer {
 public:
  static constexpr size_t kBytes = 1 << 20;  ///< the default of cudaLimitPrintfFifoSize

  /// Appends text. Drops what does not fit into kBytes; a Flush makes room again.
  void Append(const std::string& text);
  void Flush();

 private:
  std::mutex mutex_;
  std::string text_;
};

}  // namespace cupola::sim
