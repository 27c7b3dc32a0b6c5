// An arbiter in virtual time whose clients' demands a test sets one by one, for tests of policies. One thread.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "sched/arbiter.h"

namespace cupola::sched {

constexpr uint64_t kUs = 1000;

class Bench {
 public:
  explicit Bench(const std::string& policy, PolicyOptions options = {})
      : core_(MakePolicy(policy, options), 100 * kUs) {
    core_.SetSms(132);
  }

  ClientId Add(int32_t priority, uint32_t weight = 1) {
    const ClientId id = core_.Join({.priority = priority, .weight = weight});
    seen_.emplace_back();
    seen_.back().can_preempt = true;
    return id;
  }
  Observation& Of(ClientId id) { return seen_[id.value()]; }
  void Want(ClientId id, uint64_t remaining_us) {
    Of(id).active = true;
    Of(id).sequence += 1;
    Of(id).remaining_ns = remaining_us * kUs;
    Review(0);
  }
  void End(ClientId id) {
    Of(id).active = false;
    Review(0);
  }
  /// A review `later_us` after the last one. Clients that were told to stop have stopped, unless `lingers_`.
  void Review(uint64_t later_us) {
    now_ += later_us * kUs;
    for (int pass = 0; pass < 2; ++pass) {  // the second pass sees which clients the first one stopped
      core_.Advance(now_);
      for (uint32_t i = 0; i < seen_.size(); ++i) {
        seen_[i].stopped = pass == 1 && !lingers_ && core_.OrderFor(ClientId(i)).hold;
        core_.Observe(ClientId(i), seen_[i]);
      }
      core_.Decide();
    }
  }
  /// The clients that may run, as "0 2".
  std::string Running() const {
    std::string text;
    for (const Grant& grant : core_.decision().grants) {
      text += (text.empty() ? "" : " ") + std::to_string(grant.client.value());
      if (grant.sm_bound != kKeepsAllSms) text += fmt::format("(above {})", grant.sm_bound);
    }
    return text;
  }

  Arbiter core_;
  std::vector<Observation> seen_;  ///< what the arbiter sees of each client
  bool lingers_ = false;           ///< clients do not stop when they are told to
  uint64_t now_ = kUs;             ///< virtual time
};

}  // namespace cupola::sched
