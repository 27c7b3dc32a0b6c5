// A forked child of a test, and the lines that it writes to the test. The test's own process makes no
// threads before it forks. Every wait has a limit; a child that is still there at the end is killed.
// One thread.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

namespace cupola::sim {

// Limit of every wait. Generous, since what the tests look for are waits that never end.
constexpr int kLimitMs = 60'000;

class Child {
 public:
  /// Forks. The child runs `body(say)`, where `say` writes a line to the test, and ends with the result
  /// as exit code.
  template <typename Body>
  explicit Child(Body body) {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ != 0) {
      close(ends[1]);
      from_ = ends[0];
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    _exit(body([to = ends[1]](const std::string& line) {
      const std::string text = line + "\n";
      if (write(to, text.data(), text.size()) < 0) _exit(99);
    }));
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (from_ >= 0) close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) { kill(pid_, number); }

  /// The next line that the child says; "" when it has ended or the limit has passed.
  std::string Line(int limit_ms = kLimitMs) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
    while (true) {
      const size_t end = text_.find('\n');
      if (end != std::string::npos) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      pollfd waited{from_, POLLIN, 0};
      if (left.count() <= 0 || poll(&waited, 1, static_cast<int>(left.count())) <= 0) return "";
      char buffer[512];
      const ssize_t bytes = read(from_, buffer, sizeof(buffer));
      if (bytes <= 0) return "";
      text_.append(buffer, static_cast<size_t>(bytes));
    }
  }
  /// Waits for the child's end. Returns the exit code, minus the number of the signal that killed it,
  /// or -1000 if it did not end in time.
  int End() {
    while (!Line().empty()) {
    }  // until it closes its end
    for (int tries = 0; tries < kLimitMs; ++tries) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      }
      poll(nullptr, 0, 1);
    }
    return -1000;
  }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
  std::string text_;
};

using Say = std::function<void(const std::string&)>;

/// Gives each test the path of a token file of its own, which is removed at the test's end.
class TokenTest : public ::testing::Test {
 protected:
  TokenTest() {
    const auto* about = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = ::testing::TempDir() + "cupola-token-" + about->test_suite_name() + "-" +
            about->name() + "-" + std::to_string(getpid());
    unlink(path_.c_str());
  }
  ~TokenTest() override { unlink(path_.c_str()); }
  std::string path_;
};

}  // namespace cupola::sim
