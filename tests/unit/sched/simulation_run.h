// One run of a scenario: its events, and the state between them. simulation.cpp has the GPU and the
// processes, simulation_daemon.cpp the daemon and the faults.
#pragma once

#include <memory>
#include <queue>
#include <vector>

#include "simulation.h"
#include "simulation_checks.h"

namespace cupola::sched {

enum class EventType : uint8_t {
  kArrive,    // the process launches its next kernel
  kStart,     // its kernel gets onto the GPU
  kDrained,   // its kernel has left the GPU
  kRenew,     // its agent renews the lease
  kReview,    // the daemon
  kReap,      // the daemon learns that the process is dead
  kMissed,    // the process looks after the daemon and finds none
  kFault,
};

struct SimEvent {
  uint64_t at_ns;
  uint64_t order;
  EventType type;
  size_t process;
  uint64_t version;  // of the process, or the fault's number
  bool operator>(const SimEvent& other) const {
    return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
  }
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, PolicyMaker make_policy)
      : scenario_(scenario),
        make_policy_(std::move(make_policy)),
        random_(scenario.seed),
        checks_(scenario) {}

  Outcome Run();

 private:
  void SetUp();
  void Push(uint64_t at_ns, EventType type, size_t process, uint64_t version) {
    events_.push({at_ns, ++order_, type, process, version});
  }
  double Rate(const SimProcess& process) const;
  void AdvanceTo(uint64_t at_ns);
  uint64_t NextCompletion() const;
  void CompleteKernels();
  void Handle(const SimEvent& event);
  void Arrive(size_t index);
  void Launch(size_t index);
  void FinishHost(size_t index);
  void Finish(const SimProcess& process);
  void Inject(const Fault& fault);
  void StartDaemon();
  void EndDaemon();
  void MissDaemon(size_t index, uint64_t death);
  void ReactAll();
  void React(size_t index);
  void Leave(size_t index);
  void Review();
  Demand DemandOf(const SimProcess& process);
  void Note(uint64_t what, uint64_t who) {
    for (const uint64_t word : {now_, what, who}) {
      outcome_.trace = (outcome_.trace ^ word) * 0x100000001B3ULL;
    }
  }

  const Scenario& scenario_;
  const PolicyMaker make_policy_;
  Prng random_;
  Arbiter core_{nullptr, 0};     // of the daemon, or of the last one
  bool has_daemon_ = false;
  uint64_t daemon_deaths_ = 0;
  uint64_t rejected_grants_ = 0;
  SimChecks checks_;
  BoardView board_;
  std::vector<SimProcess> processes_;
  std::vector<Seat> seats_;
  std::priority_queue<SimEvent, std::vector<SimEvent>, std::greater<>> events_;
  uint64_t order_ = 0;
  uint64_t now_ = 1'000'000;
  uint32_t bell_seen_ = 0;
  uint64_t review_at_ = kNever;
  size_t last_on_gpu_ = SIZE_MAX;
  Outcome outcome_;
};

}  // namespace cupola::sched
