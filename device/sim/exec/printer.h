// The printf buffer of the device: what kernels print, in the order in which they printed it, until
// it is flushed to the process's standard output. Thread-safe.
#pragma once

#include <mutex>
#include <string>

namespace cupola::sim {

class PrintBuffer {
 public:
  static constexpr size_t kBytes = 1 << 20;  ///< the default of cudaLimitPrintfFifoSize

  /// Text beyond kBytes is dropped until the next Flush.
  void Append(const std::string& text);
  void Flush();

 private:
  std::mutex mutex_;
  std::string text_;
};

}  // namespace cupola::sim
