// The daemon of a soak in virtual time: the product's Server with its GPUs, boards, configuration and control requests,
// on simulated processes and a simulated clock. It has a socket in a folder of its own, but nobody connects to it:
// requests that would come over it come as function calls. What it allocates is counted (heap_count.h). Owned by Soak.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "sched/daemon/server.h"

namespace cupola::sched {

/// Simulated time, and simulated processes by their numbers, which no real process has.
class SimSurroundings : public Surroundings {
 public:
  static constexpr uint32_t kFirstPid = 100'000'000;

  explicit SimSurroundings(const uint64_t* now_ns) : now_ns_(now_ns) {}
  uint64_t NowNs() const override { return *now_ns_; }
  std::optional<uint64_t> StartOf(uint32_t pid) const override;
  bool HasEnded(uint32_t pid, uint64_t) const override { return !living_.contains(pid); }
  std::optional<uint32_t> UserOf(uint32_t pid) const override;
  int OpenExit(uint32_t) const override { return -1; }
  bool HasThreads() const override { return false; }

  void Begin(uint32_t pid) { living_.insert(pid); }
  void End(uint32_t pid) { living_.erase(pid); }

 private:
  const uint64_t* now_ns_;
  std::unordered_set<uint32_t> living_;
};

class SoakDaemon {
 public:
  static constexpr const char* kGpu = "SIM-0";

  /// `now_ns` outlives it.
  explicit SoakDaemon(const uint64_t* now_ns);
  ~SoakDaemon();

  SimSurroundings& surroundings() { return surroundings_; }
  bool IsThere() const { return server_ != nullptr; }

  /// Writes the configuration file, which a daemon reads when it starts, and when it is told to.
  void WriteConfig(const std::string& text) const;
  /// Starts a daemon. Ends the program if that fails, because the configuration is wrong or /tmp is full.
  void Start();
  /// Ends the daemon as SIGKILL does: the board stays as it is.
  void Die(BoardView board);

  /// Has a process join. `brought`: the board that it has from an earlier daemon, if any.
  Admission Join(uint32_t pid, const std::string& label, uint32_t capabilities, BoardMemory brought, uint32_t slot);
  nlohmann::json Control(const nlohmann::json& request);
  uint64_t Review();
  void KeepHouse();
  /// Number of calls of Review so far.
  uint64_t reviews() const { return reviews_; }

 private:
  SimSurroundings surroundings_;
  std::string folder_;
  std::unique_ptr<Server> server_;
  uint64_t reviews_ = 0;
};

}  // namespace cupola::sched
