#include "soak_checks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

namespace cupola::sched {
namespace {

// Shares of an hour are looked at where both wanted the GPU for so long, in turns of the one with less.
constexpr double kFewestTurns = 40;
// A client that comes, or something that is changed, costs a turn; one that is stopped by a signal, and does not answer,
// two.
constexpr double kTurnsOver = 6;
constexpr double kShortestShareNs = 60e9;

bool Counts(const SoakState& state, size_t i) {
  const SimProcess& process = state.processes[i];
  return state.clients[i].is_used && process.Wants() && process.Stoppable() && !state.clients[i].settings.paused;
}

/// What the board says, read here and not by the product's HasDemand, which may be wrong.
bool IsLeased(const BoardSlot& slot, uint64_t now_ns) { return slot.demand % 2 == 1 && slot.demand_until_ns > now_ns; }

/// On the board's word: also that of one that is stopped, until its lease ends.
bool HasDemandOnBoard(const SoakState& state, size_t i) {
  const SoakClient& client = state.clients[i];
  const SimProcess& process = state.processes[i];
  if (!client.is_used) return false;
  if (process.dead) return true;  // until its slot is taken, which is another rule's
  return IsLeased(state.board.slot(process.slot), state.now_ns);
}

}  // namespace

SoakChecks::SoakChecks(size_t places) : accounts_(places) {
  for (Account& account : accounts_) account.beside.assign(places, 0);
}

void SoakChecks::Violate(const SoakState& state, const char* rule, const std::string& what) {
  const double seconds = static_cast<double>(state.now_ns) / 1e9;
  violations_.push_back({rule, fmt::format("at {:.3f} s ({}): {}: {}", seconds, state.policy, rule, what)});
}

void SoakChecks::Worst(const std::string& name, double value) {
  const auto [known, is_new] = worst_.emplace(name, value);
  if (!is_new) known->second = std::max(known->second, value);
}

void SoakChecks::Elapse(const SoakState& state, uint64_t to_ns) {
  const uint64_t elapsed = to_ns - state.now_ns;
  if (elapsed == 0) return;
  CheckIdle(state, elapsed);
  CountShares(state, elapsed);
  if (!state.has_daemon || state.now_ns < state.daemon_since_ns + 2 * kReapNs) return;
  CheckEach(state, elapsed);
  CheckFirst(state, elapsed);
}

// Nobody waits while nobody has the GPU.
void SoakChecks::CheckIdle(const SoakState& state, uint64_t elapsed) {
  bool is_wanted = false, is_used = false;
  bool is_excused = false;  // one that is stopped, or dead, may hold others for a while
  for (size_t i = 0; i < state.clients.size(); ++i) {
    const SoakClient& client = state.clients[i];
    if (!client.is_used) continue;
    const SimProcess& process = state.processes[i];
    is_used = is_used || process.OnGpu();
    is_wanted = is_wanted || (process.Wants() && !client.settings.paused);
    is_excused = is_excused || (!process.Wants() && HasDemandOnBoard(state, i));
  }
  idle_ns_ = is_wanted && !is_used && !is_excused ? idle_ns_ + elapsed : 0;
  const uint64_t bound = state.has_daemon ? kIdleNs : kMissedNs + 3 * kPollNs;
  if (state.has_daemon) Worst("idle_ms", static_cast<double>(idle_ns_) / 1e6);
  if (idle_ns_ <= bound) return;
  std::string who;
  for (size_t i = 0; i < state.clients.size(); ++i) {
    const SimProcess& process = state.processes[i];
    if (!state.clients[i].is_used || !process.has_kernel) continue;
    const BoardSlot& slot = state.board.slot(process.slot);
    who += fmt::format("{}{} (requests {:x}{}{})", who.empty() ? "" : ", ", state.clients[i].pid,
                       slot.yield_requests.load(), process.stopped_by_signal ? ", stopped" : "",
                       state.clients[i].settings.paused ? ", paused" : "");
  }
  Violate(state, "waits", fmt::format("the GPU is idle for {} ms with work waiting: {}", idle_ns_ / 1'000'000, who));
  idle_ns_ = 0;
}

void SoakChecks::CheckEach(const SoakState& state, uint64_t elapsed) {
  size_t demands = 0, weights = 0, unstoppable = 0;
  uint32_t least = SoakConfig::kMostWeight;
  for (size_t i = 0; i < state.clients.size(); ++i) {
    if (!state.clients[i].is_used) continue;
    demands += HasDemandOnBoard(state, i) ? 1 : 0;
    weights += std::max(state.clients[i].settings.weight, 1U);
    least = std::min(least, state.clients[i].settings.weight);
    unstoppable += state.processes[i].Stoppable() ? 0 : 1;
  }
  const uint64_t round = SoakConfig::kQuantumNs * weights / std::max(least, 1U);
  for (size_t i = 0; i < state.clients.size(); ++i) {
    const SoakClient& client = state.clients[i];
    const SimProcess& process = state.processes[i];
    if (!client.is_used || process.dead) continue;
    Account& account = accounts_[i];
    const BoardSlot& slot = state.board.slot(process.slot);
    const bool wants = process.Wants() && !client.settings.paused;
    const bool is_held = wants && slot.yield_requests != 0 && demands == 1 && !process.OnGpu();
    account.held_ns = is_held ? account.held_ns + elapsed : 0;
    Worst("held_ms", static_cast<double>(account.held_ns) / 1e6);
    if (account.held_ns > kHeldNs) {
      Violate(state, "held", fmt::format("client {} is held for {} ms, and nobody else wants the GPU", client.pid,
                                         account.held_ns / 1'000'000));
      account.held_ns = 0;
    }
    const bool runs = client.settings.paused && process.OnGpu() && process.Stoppable() && !process.stopped_by_signal;
    account.paused_ns = runs ? account.paused_ns + elapsed : 0;
    if (account.paused_ns > kPausedNs) {
      Violate(state, "settings", fmt::format("client {} runs although it is paused", client.pid));
      account.paused_ns = 0;
    }
    // FFS: nobody waits for longer than a few rounds; those that cannot be stopped have the GPU beside the others.
    const bool waits = wants && !process.OnGpu() && state.policy == "ffs";
    account.wait_ns = waits ? account.wait_ns + elapsed : 0;
    account.wait_bound_ns = waits ? std::max(account.wait_bound_ns, (3 + unstoppable) * round + 2 * kSecondNs) : 0;
    if (waits) Worst("ffs_wait_of_bound", static_cast<double>(account.wait_ns) / static_cast<double>(account.wait_bound_ns));
    if (account.wait_ns > account.wait_bound_ns) {
      Violate(state, "waits", fmt::format("client {} waits for {} ms under ffs, bound {}", client.pid,
                                          account.wait_ns / 1'000'000, account.wait_bound_ns / 1'000'000));
      account.wait_ns = 0;
    }
  }
}

// HPF: the one of highest priority has the GPU, save for what stopping the others takes, and the turns of those that are
// overdue.
void SoakChecks::CheckFirst(const SoakState& state, uint64_t elapsed) {
  size_t first = SIZE_MAX;
  bool is_tie = false;
  uint64_t overdue_ns = 0;
  uint32_t promised_percent = 0;  // of the GPU to those that may be overdue; one with a latency bound has half of it
  if (state.policy == "hpf") {
    for (size_t i = 0; i < state.clients.size(); ++i) {
      const ClientSettings& settings = state.clients[i].settings;
      if (!state.clients[i].is_used || !HasDemandOnBoard(state, i) || settings.paused) continue;
      overdue_ns += settings.latency_bound_ns + (settings.least_share_percent != 0 ? Arbiter::kShareTurnNs + 1'000'000 : 0);
      promised_percent += settings.least_share_percent + (settings.latency_bound_ns != 0 ? 50 : 0);
      if (first == SIZE_MAX || settings.priority > state.clients[first].settings.priority) {
        first = i;
        is_tie = false;
      } else if (settings.priority == state.clients[first].settings.priority) {
        is_tie = true;
      }
    }
  }
  const bool waits = first != SIZE_MAX && !is_tie && state.processes[first].Wants() && !state.processes[first].OnGpu() &&
                     promised_percent < 90;  // else nothing is left for it
  first_wait_ns_ = waits && first == first_ ? first_wait_ns_ + elapsed : 0;
  first_ = first;
  Worst("first_wait_ms", static_cast<double>(first_wait_ns_) / 1e6);
  if (first_wait_ns_ <= kFirstNs + 2 * overdue_ns) return;
  Violate(state, "waits", fmt::format("client {} of highest priority waits for {} ms, {} ms of them for the overdue",
                                      state.clients[first].pid, first_wait_ns_ / 1'000'000, overdue_ns / 1'000'000));
  first_wait_ns_ = 0;
}

// FFS: of each two that always have work, what each had while both wanted the GPU, by its weight. HPF: what those with a
// least share had of the time that they wanted it.
void SoakChecks::CountShares(const SoakState& state, uint64_t elapsed) {
  const bool is_settled = state.has_daemon && state.now_ns > state.daemon_since_ns + 2 * kReapNs;
  for (size_t i = 0; i < state.clients.size(); ++i) {
    const SoakClient& client = state.clients[i];
    if (!client.is_used || !client.is_hog) continue;
    Account& account = accounts_[i];
    const double had = state.processes[i].gpu_ns - account.gpu_ns;
    account.gpu_ns = state.processes[i].gpu_ns;
    if (!is_settled || !client.is_known || !Counts(state, i)) continue;
    if (state.policy == "ffs" && had > 0) {
      for (size_t k = 0; k < state.clients.size(); ++k) {
        if (k == i || !state.clients[k].is_used || !state.clients[k].is_hog || !state.clients[k].is_known) continue;
        if (Counts(state, k)) account.beside[k] += had / client.settings.weight;
      }
    }
    if (state.policy == "hpf" && client.settings.least_share_percent != 0) {
      account.share_wanted_ns += static_cast<double>(elapsed);
      account.share_due_ns += static_cast<double>(elapsed) * client.settings.least_share_percent / 100;
      account.share_had_ns += had;
    }
  }
}

void SoakChecks::JudgePair(const SoakState& state, size_t i, size_t k) {
  double& a = accounts_[i].beside[k];
  double& b = accounts_[k].beside[i];
  const auto turn = static_cast<double>(SoakConfig::kQuantumNs);
  if (a + b > 2 * kFewestTurns * turn) {
    const double apart = std::max(std::abs(a - b) - kTurnsOver * turn, 0.0) / std::max(a, b);
    Worst("ffs_shares_apart", apart);
    Worst("ffs_turns_apart", std::abs(a - b) / turn);
    ++worst_["ffs_pairs"];
    if (apart > kShareTolerance) {
      Violate(state, "shares", fmt::format("of clients {} and {} the one had {:.2f} s by its weight, the other {:.2f}",
                                           state.clients[i].pid, state.clients[k].pid, a / 1e9, b / 1e9));
    }
  }
  a = b = 0;
}

void SoakChecks::JudgeLeastShare(const SoakState& state, size_t i) {
  Account& account = accounts_[i];
  if (account.share_wanted_ns > kShortestShareNs) {
    const double part = account.share_had_ns / account.share_due_ns;
    Worst("least_share_missed", 1 - part);
    ++worst_["least_shares"];
    if (part < kLeastShare) {
      Violate(state, "shares", fmt::format("client {} had {:.2f} s, its least share was {:.2f}", state.clients[i].pid,
                                           account.share_had_ns / 1e9, account.share_due_ns / 1e9));
    }
  }
  account.share_wanted_ns = account.share_due_ns = account.share_had_ns = 0;
}

void SoakChecks::EndHour(const SoakState& state) {
  for (size_t i = 0; i < state.clients.size(); ++i) {
    for (size_t k = i + 1; k < state.clients.size(); ++k) JudgePair(state, i, k);
    JudgeLeastShare(state, i);
  }
}

void SoakChecks::JudgeHeap(const SoakState& state) {
  if (has_heap_) {
    Worst("heap_bytes_over", heap_least_);
    if (heap_least_ > static_cast<double>(kHeapBytes)) {
      Violate(state, "memory", fmt::format("the daemon holds {:.0f} bytes more than its clients need", heap_least_));
    }
  }
  has_heap_ = false;
}

void SoakChecks::LookAtHeap(int64_t bytes, size_t clients, size_t most) {
  const double over = static_cast<double>(bytes) - heap_model_.empty -
                      heap_model_.for_room * static_cast<double>(std::bit_ceil(std::max<size_t>(most, 1))) -
                      heap_model_.for_client * static_cast<double>(clients);
  heap_least_ = has_heap_ ? std::min(heap_least_, over) : over;
  has_heap_ = true;
}

void SoakChecks::Look(const SoakState& state) {
  if (!state.board) return;
  LookAtSlots(state);
  LookAtRequests(state);
  const uint64_t beat = state.board.header().daemon_beat_ns;
  if (beat < last_beat_ns_ || beat > state.now_ns) {
    Violate(state, "time", fmt::format("the daemon's sign of life goes from {} ns to {}", last_beat_ns_, beat));
  }
  last_beat_ns_ = beat;
}

// Each slot is free, or of one process that lives or has just ended; each process has one.
void SoakChecks::LookAtSlots(const SoakState& state) {
  const bool is_settled = state.has_daemon && state.now_ns > state.daemon_since_ns + 2 * kReapNs;
  std::vector<size_t> owners(kBoardSlots, SIZE_MAX);
  for (size_t i = 0; i < state.clients.size(); ++i) {
    const SoakClient& client = state.clients[i];
    const SimProcess& process = state.processes[i];
    if (!client.is_used) continue;
    const BoardSlot& slot = state.board.slot(process.slot);
    if (process.dead) {
      if (owners[process.slot] == SIZE_MAX) owners[process.slot] = i;
      continue;
    }
    if (owners[process.slot] != SIZE_MAX && !state.processes[owners[process.slot]].dead) {
      Violate(state, "slots", fmt::format("slot {} has two owners", process.slot));
    }
    owners[process.slot] = i;
    if (slot.state != static_cast<uint32_t>(SlotState::kLive) || slot.pid != client.pid) {
      Violate(state, "slots", fmt::format("client {} has lost its slot {}", client.pid, process.slot));
    }
  }
  size_t free = 0, used = 0;
  for (uint32_t i = 0; i < kBoardSlots; ++i) {
    const BoardSlot& slot = state.board.slot(i);
    const bool is_free = slot.state == static_cast<uint32_t>(SlotState::kFree);
    ++(is_free ? free : used);
    if (GateIsToBeOpen(slot) != (slot.gate != 0)) {
      Violate(state, "held", fmt::format("the gate of slot {} says other than its requests", i));
    }
    if (is_free || !is_settled) continue;
    const size_t owner = owners[i];
    const bool is_lost = owner == SIZE_MAX || (state.processes[owner].dead &&
                                               state.now_ns > state.clients[owner].dead_since_ns + kReapNs);
    if (is_lost) Violate(state, "slots", fmt::format("slot {} is nobody's, and not free", i));
  }
  if (free + used != kBoardSlots) Violate(state, "slots", "the slots are not all there");
}

// Who asks has a reason: demand, and may. What has none is gone at the next look.
void SoakChecks::LookAtRequests(const SoakState& state) {
  const bool is_settled = state.has_daemon && state.now_ns > state.daemon_since_ns + 2 * kReapNs;
  for (size_t i = 0; i < state.clients.size(); ++i) {
    const SoakClient& client = state.clients[i];
    if (!client.is_used || state.processes[i].dead) continue;
    const uint32_t self = state.processes[i].slot;
    SlotSet stale;
    ForEachSlot(RequestersOf(state.board.slot(self)), [&](uint32_t requester) {
      const BoardSlot& asks = state.board.slot(requester);
      const bool may_ask = asks.state == static_cast<uint32_t>(SlotState::kLive) && IsLeased(asks, state.now_ns) &&
                           asks.may_take.Has(self);
      if (may_ask) return;
      stale.Add(requester);
      if (is_settled && accounts_[i].stale.Has(requester)) {
        Violate(state, "held", fmt::format("slot {} asks client {} to yield, and has no reason to", requester, client.pid));
      }
    });
    accounts_[i].stale = stale;
  }
}

void SoakChecks::Refused(const SoakState& state) {
  const auto here = std::count_if(state.clients.begin(), state.clients.end(), [&](const SoakClient& client) {
    return client.is_used && !state.processes[static_cast<size_t>(&client - state.clients.data())].dead;
  });
  if (here == kBoardSlots) return;
  Violate(state, "slots", fmt::format("one is refused, and there are {} clients", here));
}

void SoakChecks::LookAtShow(const SoakState& state, const nlohmann::json& show) {
  std::map<uint32_t, const nlohmann::json*> rows;
  for (const auto& gpu : show.at("gpus")) {
    const uint64_t now = gpu.at("now_ns").get<uint64_t>();
    if (now < last_show_ns_) Violate(state, "time", "the time of show goes back");
    last_show_ns_ = now;
    if (gpu.at("policy").get<std::string>() != state.policy) {
      Violate(state, "settings", "the policy is " + gpu.at("policy").get<std::string>());
    }
    if (gpu.value("state", "").find(" rejected_grants=0\n") == std::string::npos) {
      Violate(state, "waits", "the policy granted what is not there");
    }
    for (const auto& row : gpu.at("clients")) {
      const auto pid = row.at("pid").get<uint32_t>();
      if (!rows.emplace(pid, &row).second) Violate(state, "slots", fmt::format("client {} is shown twice", pid));
    }
  }
  for (size_t i = 0; i < state.clients.size(); ++i) {
    const SoakClient& client = state.clients[i];
    if (!client.is_used || state.processes[i].dead) continue;
    const auto found = rows.find(client.pid);
    if (found == rows.end()) {
      // Who is stopped has not told a new daemon of itself; its board has, if anyone brought it.
      if (client.is_known) Violate(state, "slots", fmt::format("client {} is not shown", client.pid));
      continue;
    }
    const nlohmann::json& row = *found->second;
    const uint64_t ran = row.at("ran_ns").get<uint64_t>();
    if (ran < accounts_[i].ran_ns) Violate(state, "time", fmt::format("client {} has run less than before", client.pid));
    accounts_[i].ran_ns = ran;
    if (!client.is_known) continue;
    const ClientSettings shown{.priority = row.at("priority").get<int32_t>(),
                               .weight = row.at("weight").get<uint32_t>(),
                               .latency_bound_ns = row.at("latency_bound_us").get<uint64_t>() * 1000,
                               .least_share_percent = row.at("least_share_percent").get<uint32_t>(),
                               .paused = row.at("paused").get<bool>()};
    if (!(shown == client.settings)) {
      Violate(state, "settings", fmt::format("client {} of {} has weight {} and priority {}, wanted {} and {}", client.pid,
                                             client.label, shown.weight, shown.priority, client.settings.weight,
                                             client.settings.priority));
    }
  }
  Worst("clients_shown", static_cast<double>(rows.size()));
}

void SoakChecks::Forget(const SoakState& state, size_t place) {
  for (size_t i = 0; i < state.clients.size(); ++i) {
    if (i != place) JudgePair(state, i, place);
  }
  JudgeLeastShare(state, place);
  const size_t places = accounts_.size();
  accounts_[place] = Account{};
  accounts_[place].beside.assign(places, 0);
  if (first_ == place) first_wait_ns_ = 0;
}

void SoakChecks::Forgive() {
  for (Account& account : accounts_) account.held_ns = account.wait_ns = account.paused_ns = 0;
  first_wait_ns_ = idle_ns_ = 0;
}

void SoakChecks::DaemonChanged() {
  Forgive();
  for (Account& account : accounts_) account.ran_ns = 0;
}

}  // namespace cupola::sched
