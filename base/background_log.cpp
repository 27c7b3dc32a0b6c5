#include "base/background_log.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <new>
#include <string>

#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include "base/log.h"
#include "base/standard_error.h"

namespace cupola {
namespace {

constexpr size_t kQueuedLines = 1024;  // lines that wait for the log's thread
// Bytes of a line; a longer one is cut. A pipe that poll(2) calls writable takes this much at once (PIPE_BUF), so that
// the write does not block.
constexpr size_t kLongestLine = 4096;
constexpr std::chrono::milliseconds kLastLinesTime(300);  // for the lines in the queue at the end

std::atomic<uint64_t> unwritten{0};  // lines that the sink could not write
// The pool of the one BackgroundLog, for its count of dropped lines; null while there is none.
std::atomic<spdlog::details::thread_pool*> queue{nullptr};

/// Writes lines to standard error. Only the log's thread writes. The destructor of BackgroundLog asks for flushed().
class StandardErrorSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  /// Is ready once flush_ has run for the first time. May be called once.
  std::future<void> flushed() { return flushed_.get_future(); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (line.size() > kLongestLine) {
      line.resize(kLongestLine);
      line[kLongestLine - 1] = '\n';
    }
    if (!WriteToStandardError(line.data(), line.size())) {
      unwritten.fetch_add(1);
      return;
    }
    // This line got through. The lines lost before it are told of behind it.
    const uint64_t lost = BackgroundLog::LostLines();
    if (lost == told_) return;
    const std::string text =
        fmt::format("cupola: warning: {} lines of the log before this are lost\n", lost - told_);
    if (WriteToStandardError(text.data(), text.size())) told_ = lost;
  }

  void flush_() override {
    if (!has_flushed_) flushed_.set_value();
    has_flushed_ = true;
  }

 private:
  uint64_t told_ = 0;  // LostLines() that the reader of the log has been told of
  bool has_flushed_ = false;  // flushed_ is set, which is possible only once
  std::promise<void> flushed_;
};

}  // namespace

uint64_t BackgroundLog::LostLines() {
  spdlog::details::thread_pool* const pool = queue.load();
  return unwritten.load() + (pool != nullptr ? pool->overrun_counter() : 0);
}

BackgroundLog::BackgroundLog() {
  const auto before = spdlog::default_logger();
  try {
    pool_ = std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1);
  } catch (const std::exception&) {
    return;  // there is no thread: the log stays as it was, and the destructor does nothing
  }
  queue.store(pool_.get());
  auto logger = std::make_shared<spdlog::async_logger>("cupola", std::make_shared<StandardErrorSink>(), pool_,
                                                       spdlog::async_overflow_policy::overrun_oldest);
  logger->set_pattern(kLogPattern);
  logger->set_level(before->level());
  logger->set_error_handler([](const std::string&) {});  // spdlog's own one would write to standard error itself
  spdlog::set_default_logger(std::move(logger));
}

BackgroundLog::~BackgroundLog() {
  if (pool_ == nullptr) return;
  const auto logger = spdlog::default_logger();
  std::future<void> flushed = static_cast<StandardErrorSink&>(*logger->sinks().front()).flushed();
  // This only puts an order behind the lines in the queue. The log's thread carries it out in flush_, once it has
  // written them.
  logger->flush();
  if (flushed.wait_for(kLastLinesTime) == std::future_status::ready) {
    queue.store(nullptr);
  } else {
    // The log's thread is still in a write. The destructor of the pool would wait for that thread, so one owner of the
    // pool is leaked on purpose and the pool ends with the process. `queue` stays valid.
    (void)new std::shared_ptr<spdlog::details::thread_pool>(pool_);
  }
  InitLog();
}

}  // namespace cupola
