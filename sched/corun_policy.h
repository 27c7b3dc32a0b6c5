// CorunPolicy: co-running in its simplest form. The two launches that came first run side by side, one worker an SM
// each, where their processes share a context. The policy does not know which pairs pay. It exists so that decisions
// with several grants are exercised from end to end. MakePolicy creates it; like every policy it belongs to one GPU's
// Arbiter and is not thread-safe.
#pragma once

#include "sched/policy.h"

namespace cupola::sched {

class CorunPolicy : public Policy {
 public:
  std::string_view name() const override { return "corun"; }
  void Decide(std::span<const Event> events, const Snapshot& snapshot,
              Decision& decision) override;
  bool MayTake(const Snapshot&, const ClientView&, const ClientView&) const override {
    return false;
  }
  uint64_t WaitBound(const Snapshot&, const ClientView&) const override { return kNever; }
  std::string Dump() const override;

 private:
  std::vector<ClientId> running_;
};

}  // namespace cupola::sched
