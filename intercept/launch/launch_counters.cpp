#include "intercept/launch/launch_counters.h"

#include <algorithm>
#include <utility>

#include "intercept/launch/ask_choice.h"
#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/stoppable_time.h"
#include "intercept/process/notice.h"

namespace cupola::intercept {

LaunchCounters launch_counters;

void SayLaunchCounts() noexcept {
  const auto number = [](const std::atomic<uint64_t>& counter) {
    return Decimal(counter.load(std::memory_order_relaxed));
  };
  Say(Level::kInfo,
      {"preemption: ", number(launch_counters.preemptible), " launches preemptible, ",
       number(launch_counters.preemptions), " preemptions, ", number(launch_counters.resumes), " resumes, ",
       number(launch_counters.waits), " waits, ", number(launch_counters.scopes), " scopes, ",
       number(launch_counters.demands), " demands, ", number(launch_counters.markers), " markers, ",
       number(launch_counters.gates), " gates, ", number(launch_counters.priorities), " with priority"});
  if (launch_counters.late_demands.load() + launch_counters.unasked.load() != 0) {
    Say(Level::kInfo, {"preemption: ", number(launch_counters.late_demands), " bursts asked while they were waited for, ",
                       number(launch_counters.unasked), " not at all"});
    const GpuBoard* last = nullptr;
    ForEachContextEver([&](const LaunchContext& context) {
      if (std::exchange(last, context.gpu) == context.gpu) return;
      const AskChoice& learnt = context.gpu->demand.ask_choice;
      const auto us = [](uint64_t ns) { return Decimal(ns / 1000); };
      Say(Level::kInfo, {"preemption: a burst is issued in ", us(learnt.issue_ns()), " us, one in ", us(learnt.period_ns()),
                         " us, and waited for in ", us(learnt.wait_ns(AskAt::kFirstLaunch)), " us when it asks at once, ",
                         us(learnt.wait_ns(AskAt::kWait)), " at the wait, ", us(learnt.wait_ns(AskAt::kNever)), " never"});
    });
  }
  if (const uint64_t stops = launch_counters.stops.load(); stops != 0) {
    Say(Level::kInfo, {"preemption: a stop takes ", Decimal(launch_counters.stop_ns.load() / stops / 1000),
                       " us on average, as its agent sees it"});
  }
  uint64_t between_gates_ns = 0;
  ForEachContextEver([&](const LaunchContext& context) {
    between_gates_ns = std::max(between_gates_ns, BetweenGatesNs(*context.gpu));
  });
  const bool is_all_single = launch_counters.graphs_in_pieces.load() == 0;  // else gates stand between pieces
  if (launch_counters.gates.load() != 0 && between_gates_ns != 0 && is_all_single) {
    Say(Level::kInfo, {"preemption: ", Decimal(between_gates_ns / 1000), " us between two gates"});
  }
  if (launch_counters.graphs_in_pieces.load() != 0) {
    Say(Level::kInfo, {"preemption: ", number(launch_counters.graphs_in_pieces), " graphs launched in pieces"});
    const uint64_t deferred = launch_counters.deferred.load();
    Say(Level::kInfo, {"preemption: ", Decimal(deferred), " launches of graphs deferred, fed in ",
                       Decimal(launch_counters.feed_ns.load() / std::max<uint64_t>(deferred, 1) / 1000),
                       " us of processor time each"});
  }
  if (const uint64_t pieces = launch_counters.pieces_built.load(); pieces != 0) {
    Say(Level::kInfo, {"preemption: ", Decimal(pieces), " pieces of graphs built in ",
                       Decimal(launch_counters.piece_build_ns.load() / pieces / 1000), " us each"});
  }
  SayStoppableTime();
  if (launch_counters.stuck.load() != 0) {
    Say(Level::kInfo, {"preemption: ", number(launch_counters.stuck), " waits ended though nothing went on"});
  }
  if (launch_counters.sliced.load() != 0) {
    Say(Level::kInfo, {"preemption: ", number(launch_counters.sliced), " launches sliced"});
  }
  if (launch_counters.sliced_unasked.load() != 0) {
    Say(Level::kInfo, {"preemption: ", number(launch_counters.sliced_unasked),
                       " launches sliced for want of a preemptible variant"});
  }
  for (size_t i = 0; i < kReasons; ++i) {
    if (launch_counters.plain[i].load() == 0) continue;
    Say(Level::kInfo,
        {"preemption: ", number(launch_counters.plain[i]), " launches plain: ", kReasonTexts[i].words});
  }
}

}  // namespace cupola::intercept
