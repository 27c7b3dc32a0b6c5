// Shared by the tests that stop programs: a board, which the test owns as the arbiter would, and
// programs that run with the preloaded library on the simulated device. One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched/board/yield_protocol.h"
#include "tests/paths.h"

namespace cupola::preempt_test {

using Clock = std::chrono::steady_clock;
inline constexpr auto kLimit = std::chrono::seconds(60);

/// A board in a file, with one live slot.
class BoardFile {
 public:
  BoardFile() {
    path_ = testing::TempDir() + "cupola-board-XXXXXX";
    const int fd = mkstemp(path_.data());
    EXPECT_EQ(ftruncate(fd, sched::kBoardBytes), 0);
    view_ = sched::BoardView(
        mmap(nullptr, sched::kBoardBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    view_.header().version.store(sched::kBoardVersion);
    view_.header().slots.store(sched::kBoardSlots);
    view_.header().magic.store(sched::kBoardMagic);
    slot().gate.store(1);
    slot().weight.store(1);
    slot().state.store(static_cast<uint32_t>(sched::SlotState::kLive));
  }
  ~BoardFile() {
    munmap(view_.memory(), sched::kBoardBytes);
    unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  sched::BoardSlot& slot() const { return view_.slot(0); }
  sched::BoardView view() const { return view_; }
  void Ask() const { sched::SetRequest(view_, 0, sched::kDaemonBit, runtime::kAllSms); }
  void Release() const { sched::ClearRequest(view_, 0, sched::kDaemonBit); }

 private:
  std::string path_;
  sched::BoardView view_;
};

/// A program under libcupola.so; its output is read as it comes.
class Program {
 public:
  Program(std::vector<std::string> arguments, const BoardFile& board,
          std::map<std::string, std::string> more = {}) {
    std::array<int, 2> out, in;
    EXPECT_EQ(pipe(out.data()), 0);
    EXPECT_EQ(pipe(in.data()), 0);
    token_ = board.path() + ".token";
    std::map<std::string, std::string> environment = {
        {"LD_PRELOAD", CUPOLA_PRELOAD}, {"CUPOLA_DRIVER", CUPOLA_STRICT_DRIVER},
        {"STRICT_DRIVER", CUPOLA_SIM_DRIVER}, {"LD_LIBRARY_PATH", CUPOLA_SIM_FOLDER},
        {"CUPOLA_SIM_TOKEN", token_}, {"CUPOLA_BOARD", board.path()}, {"CUPOLA_BOARD_SLOT", "0"},
        {"CUPOLA_BUNDLE", CUPOLA_TEST_BUNDLE}, {"CUPOLA_PREEMPT", "always"},
        {"CUPOLA_GATE_EVERY", "0"}, {"CUPOLA_LOG", "info"}, {"PATH", "/usr/bin:/bin"},
        {"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
        {"CUPOLA_WAIT_LIMIT_MS", "0"}};  // a wait of Cupola's never gives up
    for (const auto& [name, value] : more) environment[name] = value;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      dup2(out[1], 2);
      for (const int fd : {out[0], out[1], in[0], in[1]}) close(fd);
      clearenv();
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      if (environment["CUDA_DEVICE_MAX_CONNECTIONS"].empty()) unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
      std::vector<char*> words;
      for (std::string& word : arguments) words.push_back(word.data());
      words.push_back(nullptr);
      execv(words[0], words.data());
      _exit(97);
    }
    close(out[1]);
    close(in[0]);
    out_ = out[0];
    in_ = in[1];
    fcntl(out_, F_SETFL, O_NONBLOCK);
  }
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(in_);
    unlink(token_.c_str());
  }

  /// Whether `text` has been printed, waiting until it is or `until` holds.
  template <typename Until>
  bool Await(const std::string& text, Until until) {
    for (const auto start = Clock::now(); Clock::now() - start < kLimit;) {
      Read();
      if (output_.find(text) != std::string::npos) return true;
      if (until() || HasEnded()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return false;
  }
  bool Await(const std::string& text) {
    return Await(text, [] { return false; });
  }

  /// Lets a program that has said "ready" go on.
  void GoOn() { Tell("\n"); }
  void Tell(const std::string& text) {
    EXPECT_EQ(write(in_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  /// The exit code, 128 + signal, or -1 when it did not end in time.
  int Wait() {
    for (const auto start = Clock::now(); Clock::now() - start < kLimit && !HasEnded();) {
      Read();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    Read();
    if (!ended_) return -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }
  bool HasEnded() {
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) {
      ended_ = true;
      pid_ = 0;
    }
    return ended_;
  }
  const std::string& output() const { return output_; }
  pid_t pid() const { return pid_; }

 private:
  void Read() {
    char buffer[4096];
    for (ssize_t got; (got = read(out_, buffer, sizeof(buffer))) > 0;) {
      output_.append(buffer, static_cast<size_t>(got));
    }
  }

  pid_t pid_ = 0;
  int out_ = -1, in_ = -1, status_ = 0;
  bool ended_ = false;
  std::string output_, token_;
};

template <typename Condition>
bool AwaitTrue(Condition condition) {
  for (const auto start = Clock::now(); Clock::now() - start < kLimit;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return false;
}

// Gives a wrong call time to reach the driver. No test relies on the time being long enough.
inline void GiveTimeToGoWrong() { std::this_thread::sleep_for(std::chrono::milliseconds(15)); }

inline std::vector<std::string> App(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), CUPOLA_PREEMPT_APP);
  return arguments;
}

}  // namespace cupola::preempt_test
