// One run of a scenario: the machine, a daemon that is the arbiter's core alone, and what happens to both from outside
// (simulation_daemon.cpp). Made by Simulate. Not thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "simulation.h"
#include "simulation_checks.h"

namespace cupola::sched {

class Simulation : private SimMachine {
 public:
  Simulation(const Scenario& scenario, PolicyMaker make_policy)
      : SimMachine(scenario.seed, scenario.sms, scenario.switch_ns),
        scenario_(scenario),
        make_policy_(std::move(make_policy)),
        checks_(scenario) {}

  Outcome Run();

 private:
  void OnElapse(uint64_t to_ns) override { checks_.Elapse(processes_, core_, now_, to_ns); }
  void OnKernelDone(size_t index) override;
  void OnPreempted(size_t) override { ++outcome_.preemptions; }
  void OnSwitching(double ns) override { outcome_.switching_ns += ns; }
  void OnBell() override;
  void HandleOther(const SimEvent& event) override;
  void OnEvent(const SimEvent& event) override;
  void SetUp();
  bool IsDone() const;
  void Inject(const Fault& fault);
  void StartDaemon();
  void EndDaemon();
  void MissDaemon(size_t index, uint64_t death);
  void Leave(size_t index);
  void Review();
  void Note(uint64_t what, uint64_t who) {
    for (const uint64_t word : {now_, what, who}) {
      outcome_.trace = (outcome_.trace ^ word) * 0x100000001B3ULL;
    }
  }

  const Scenario& scenario_;
  const PolicyMaker make_policy_;
  Arbiter core_{nullptr, 0};     // of the present daemon, or of the last one
  bool has_daemon_ = false;
  uint64_t daemon_deaths_ = 0;
  uint64_t rejected_grants_ = 0;
  SimChecks checks_;
  std::vector<Seat> seats_;
  uint64_t review_at_ = kNever;
  Outcome outcome_;
};

}  // namespace cupola::sched
