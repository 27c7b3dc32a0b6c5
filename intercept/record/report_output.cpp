#include "intercept/record/report_output.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "base/standard_error.h"
#include "intercept/process/notice.h"
#include "intercept/record/device_timing.h"
#include "intercept/record/launch_uses.h"
#include "intercept/record/recorder.h"

namespace cupola::intercept {
namespace {

enum class Output { kNone, kText, kJson, kFile };
Output output = Output::kNone;
std::string* report_file = nullptr;  // the path, for kFile; never destroyed

/// Holds a lock on standard error, so that processes write one after the other. It is not waited for longer than
/// some seconds. Where the file takes no locks, lines of reports may mix.
class ErrorLock {
 public:
  ErrorLock() noexcept {
    constexpr timespec kPause = {0, 1'000'000};
    for (int tries = 0; tries < 3000 && !Set(F_WRLCK) && (errno == EAGAIN || errno == EACCES); ++tries) {
      nanosleep(&kPause, nullptr);
    }
  }
  ~ErrorLock() { Set(F_UNLCK); }
  ErrorLock(const ErrorLock&) = delete;
  ErrorLock& operator=(const ErrorLock&) = delete;

 private:
  static bool Set(short type) noexcept {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return fcntl(STDERR_FILENO, F_SETLK, &lock) == 0;
  }
};

// In pieces, because a write to a pipe waits for room for all that it is given.
void WriteToError(std::string_view text) {
  constexpr size_t kMost = 4096;
  if (IdentityOf(STDERR_FILENO) != StandardErrorAtStart()) return;
  const ErrorLock lock;
  while (!text.empty()) {
    const size_t bytes = std::min(text.size(), kMost);
    if (!WriteToStandardError(text.data(), bytes)) return;
    text.remove_prefix(bytes);
  }
}

void AppendToFile(const std::string& line) {
  const WithoutWriteSignals quiet;
  const int descriptor = open(report_file->c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
  const bool is_written =
      descriptor >= 0 && write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!is_written) Say(Level::kWarn, {"the report cannot be written to ", *report_file, ": ", strerror(error)});
}

Output AskedOutput() {
  const char* const asked = settings::WordOrPath("CUPOLA_REPORT");
  const std::string_view word = asked;
  if (word == "off") return Output::kNone;
  if (word == "1" || word == "text") return Output::kText;
  if (word == "json") return Output::kJson;
  if (report_file == nullptr) report_file = new std::string(word);
  return Output::kFile;
}

}  // namespace

bool StartReport() noexcept {
  output = AskedOutput();
  if (output == Output::kNone) return false;
  (void)StartTimingFor(&AddTime, /*waits_at_end=*/true);  // else GPU times are unknown, which the report says
  return true;
}

void SayNoReport() noexcept {
  if (AskedOutput() == Output::kNone) return;
  Say(Level::kWarn, {"no report: launches are recorded, and recorded launches become neither tasks nor batches"});
}

void WriteReportAtExit() noexcept {
  const Output to = output;
  output = Output::kNone;
  if (to == Output::kNone || !IsReported()) return;
  const LaunchReport report = MakeReport();
  if (to == Output::kText) return WriteToError(ReportText(report));
  const std::string line = ReportJson(report) + "\n";
  to == Output::kFile ? AppendToFile(line) : WriteToError(line);
}

void ForgetReportAfterFork() noexcept {
  output = Output::kNone;
  ForgetUsesAfterFork();
}

}  // namespace cupola::intercept
