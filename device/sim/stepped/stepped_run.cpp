// Collects the actors that can step, and makes their steps.
#include "device/sim/stepped/stepped_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "device/sim/stepped/mix.h"

namespace cupola::sim {
namespace {

constexpr uint32_t kMaxLocal = 1u << 16;  // the most instructions of one step
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

}  // namespace

bool Conflict(const Step& a, const Step& b) {
  if (a.touches_all || b.touches_all) return true;
  for (const Touch& x : a.touches) {
    for (const Touch& y : b.touches) {
      if ((x.write || y.write) && x.object < y.object + y.bytes && y.object < x.object + x.bytes)
        return true;
    }
  }
  return false;
}

std::unique_ptr<SteppedDevice> SteppedDevice::Create(const SteppedConfig& config,
                                                     Chooser* chooser) {
  auto device = std::make_unique<SteppedRun>(config, chooser);
  if (!device->ok()) return nullptr;
  return device;
}

SteppedRun::SteppedRun(const SteppedConfig& config, Chooser* chooser)
    : DeviceBase(config.device),
      stepped_(config),
      chooser_(chooser),
      model_(config.memory, chooser),
      models_(config.memory.find_races || config.memory.stale_reads),
      machine_{memory_.get(),
               &printer_,
               [](void* self) { return static_cast<SteppedRun*>(self)->now_ns_; },
               this,
               config.device.sm_count,
               this,
               &stale_shared_},
      view_(memory_.get()),
      sms_(config.device.sm_count) {
  model_.AddThread(0, kHostBlock);  // the thread of the test itself
  places_.push_back({kHostBlock, kHostBlock});
}

void SteppedRun::Mix(uint64_t value) { hash_ = MixInto(hash_, value); }

// ---- what is there to run -------------------------------------------------------------------

void SteppedRun::Submit(GridLaunch launch, std::function<void(const Fault*)> done) {
  Add(std::move(launch), std::move(done), 0);
}

SteppedRun::Launch& SteppedRun::Add(GridLaunch launch, std::function<void(const Fault*)> done,
                                    ThreadId parent) {
  auto fresh = std::make_unique<Launch>();
  fresh->number = static_cast<uint32_t>(launches_.size());
  fresh->cooperative = launch.cooperative;
  fresh->done = std::move(done);
  fresh->grid = MakeGrid(std::move(launch));
  fresh->grid.id = fresh->number + 1;
  const Dim3& shape = fresh->grid.grid;
  fresh->waiting.resize(size_t{shape.x} * shape.y * shape.z);
  std::iota(fresh->waiting.begin(), fresh->waiting.end(), 0u);
  fresh->needs = BlockResidency(fresh->grid);
  fresh->joins_test = parent == 0;
  fresh->thread = model_.AddThread(parent, kHostBlock);
  places_.push_back({fresh->number, kHostBlock});
  launches_.push_back(std::move(fresh));
  return *launches_.back();
}

HostThread& SteppedRun::AddHostThread(std::string name) {
  HostThread& host = hosts_.emplace_back(static_cast<HostPort*>(this), std::move(name),
                                         static_cast<uint32_t>(hosts_.size()));
  host.memory_id_ = model_.AddThread(0, kHostBlock);
  places_.push_back({kHostBlock, host.id()});
  return host;
}

bool SteppedRun::Free(uint64_t address) {
  const MemoryRange range = memory_->Find(address);
  if (!memory_->Free(address)) return false;
  model_.Forget(range.start, range.bytes);
  return true;
}

/// The mask of the lanes that would step together with `lane`; 0 if it cannot step.
uint32_t SteppedRun::Allowed(const Warp& warp, uint32_t lane) const {
  if (warp.status[lane] != LaneStatus::kReady || (warp.live >> lane & 1) == 0) return 0;
  const Insn& next = warp.code[warp.pc[lane]];
  if (next.effect != Effect::kCollective) return 1u << lane;
  // All lanes must execute a collective instruction together. The lowest lane steps for all of them
  // when all have arrived.
  bool all = true;
  ForLanes(warp.live, [&](uint32_t other) {
    all &= warp.status[other] == LaneStatus::kReady && warp.pc[other] == warp.pc[lane];
  });
  return all && lane == static_cast<uint32_t>(std::countr_zero(warp.live)) ? warp.live : 0;
}

void SteppedRun::CollectThreads(Resident& resident) {
  Block& block = *resident.block;
  for (Actor& actor : resident.actors) {
    if (actor.stalled || actor.wake_ns > now_ns_) continue;
    const Warp& warp = *block.warps[actor.id.warp];
    if (stepped_.granularity == Granularity::kThread) {
      const uint32_t allowed = Allowed(warp, actor.id.lane);
      if (allowed != 0) candidates_.push_back({actor.id, &resident, &actor, allowed, nullptr});
      continue;
    }
    const bool ready = std::ranges::any_of(
        warp.status, [](LaneStatus status) { return status == LaneStatus::kReady; });
    if (warp.live != 0 && ready)
      candidates_.push_back({actor.id, &resident, &actor, kFullMask, nullptr});
  }
}

/// Fills candidates_; false if there is none.
bool SteppedRun::Collect() {
  candidates_.clear();
  for (HostThread& host : hosts_) {
    if (host.actions_.empty()) continue;
    const auto& next = host.actions_.front();
    if (next.time_ns > now_ns_ || (next.ready && !next.ready())) continue;
    candidates_.push_back({{ActorKind::kHost, host.id(), 0, 0, 0}, nullptr, nullptr, 0, nullptr});
  }
  for (auto& launch : launches_) {
    if (launch->waiting.empty()) continue;
    const bool fits = std::ranges::any_of(
        sms_, [&](const Residency& used) { return Fits(config_, used, launch->needs); });
    if (fits) {
      candidates_.push_back(
          {{ActorKind::kBlockStart, launch->number, 0, 0, 0}, nullptr, nullptr, 0, launch.get()});
      break;  // grids start their blocks in the order of submission
    }
    // Grids behind a cooperative grid must not take the room for which its blocks wait.
    if (launch->cooperative) break;
  }
  for (auto& resident : residents_) CollectThreads(*resident);
  return !candidates_.empty();
}

/// Moves virtual time on to when the next actor or host thread wakes; false if none will.
bool SteppedRun::AdvanceTime() {
  uint64_t next = kNever;
  for (const HostThread& host : hosts_) {
    if (!host.actions_.empty() && host.actions_.front().time_ns > now_ns_)
      next = std::min(next, host.actions_.front().time_ns);
  }
  for (const auto& resident : residents_) {
    for (const Actor& actor : resident->actors) {
      if (!actor.stalled && actor.wake_ns > now_ns_) next = std::min(next, actor.wake_ns);
    }
  }
  if (next == kNever) return false;
  now_ns_ = next;
  return true;
}

// ---- steps ----------------------------------------------------------------------------------

bool SteppedRun::Step() {
  while (!Collect()) {
    if (!AdvanceTime()) return false;
  }
  enabled_.clear();
  std::vector<uint64_t> keys;
  for (const Candidate& candidate : candidates_) {
    enabled_.push_back(candidate.id);
    keys.push_back(candidate.id.Key());
  }
  const uint32_t choice = candidates_.size() == 1 ? 0 : chooser_->Choose(ChoiceKind::kActor, keys);
  const Candidate candidate = candidates_[choice];
  step_ = {};
  step_.actor = candidate.id;
  effect_ = stale_ = latest_ = false;
  switch (candidate.id.kind) {
    case ActorKind::kHost:
      StepHost(candidate.id.grid);
      break;
    case ActorKind::kBlockStart:
      StartBlock(*candidate.launch);
      break;
    case ActorKind::kThreads:
      StepThreads(candidate);
      break;
  }
  ++steps_;
  now_ns_ += stepped_.step_ns;
  step_.now_ns = now_ns_;
  Mix(step_.actor.Key());
  Mix(uint64_t{step_.pc} << 32 | step_.lanes);
  return true;
}

RunEnd SteppedRun::Run() {
  while (steps_ < stepped_.max_steps) {
    if (Step()) continue;
    const bool idle = std::ranges::all_of(launches_, [](const auto& l) { return l->ended; }) &&
                      std::ranges::all_of(hosts_, [](const auto& h) { return h.actions_.empty(); });
    return idle ? RunEnd::kIdle : RunEnd::kDeadlock;
  }
  return RunEnd::kLimit;
}

void SteppedRun::StepHost(uint32_t number) {
  step_.touches_all = true;
  HostThread& host = hosts_[number];
  const HostThread::Action action = std::move(host.actions_.front().action);
  host.actions_.pop_front();
  action(host);
  for (auto& resident : residents_) {
    for (Actor& actor : resident->actors) actor.BeginCircle();
  }
}

void SteppedRun::StartBlock(Launch& launch) {
  size_t position = 0;
  if (stepped_.choose_blocks && launch.waiting.size() > 1) {
    std::vector<uint64_t> options(launch.waiting.size());
    std::iota(options.begin(), options.end(), 0u);
    position = chooser_->Choose(ChoiceKind::kBlock, options);
  }
  std::vector<uint64_t> fitting;
  for (uint32_t sm = 0; sm < sms_.size(); ++sm) {
    if (Fits(config_, sms_[sm], launch.needs)) fitting.push_back(sm);
  }
  uint64_t sm = *std::ranges::min_element(fitting, {}, [&](uint64_t i) { return sms_[i].threads; });
  if (stepped_.choose_blocks && fitting.size() > 1)
    sm = fitting[chooser_->Choose(ChoiceKind::kSm, fitting)];
  auto resident = std::make_unique<Resident>();
  resident->launch = &launch;
  resident->number = launch.waiting[position];
  launch.waiting.erase(launch.waiting.begin() + static_cast<ptrdiff_t>(position));
  resident->serial = next_serial_++;
  resident->sm = static_cast<uint32_t>(sm);
  sms_[sm].Add(launch.needs);
  ++launch.resident;
  view_.Refresh();
  resident->block = MakeBlock(machine_, launch.grid, BlockIndex(launch.grid.grid, resident->number),
                              resident->sm, &view_);
  Block& block = *resident->block;
  for (uint32_t thread = 0; models_ && thread < block.thread_count; ++thread) {
    const ThreadId id = model_.AddThread(launch.thread, resident->serial);
    if (thread == 0) resident->first_thread = id;
    places_.resize(id + 1);
    places_[id] = {launch.number, resident->number * block.thread_count + thread};
  }
  const bool threads = stepped_.granularity == Granularity::kThread;
  for (const auto& warp : block.warps) {
    ForLanes(threads ? warp->live : 1, [&](uint32_t lane) {
      Actor actor;
      actor.id = {ActorKind::kThreads, launch.number, resident->number, warp->index, lane};
      resident->actors.push_back(std::move(actor));
    });
  }
  step_.actor.block = resident->number;
  residents_.push_back(std::move(resident));
}

/// Executes local instructions up to the next visible one, that one, and the local ones behind it.
void SteppedRun::StepThreads(const Candidate& candidate) {
  Resident& resident = *candidate.resident;
  Actor& actor = *candidate.actor;
  Block& block = *resident.block;
  Warp& warp = *block.warps[candidate.id.warp];
  view_.Refresh();
  current_ = &resident;
  warp.allowed = candidate.allowed;
  latest_ = actor.reads_latest;
  sleep_ns_ = 0;
  bool seen = false;
  for (uint32_t n = 0; n < kMaxLocal; ++n) {
    uint32_t lanes = 0;
    const Insn* next = NextInsn(warp, &lanes);
    if (next == nullptr) break;
    if (lanes != 0 && next->effect != Effect::kNone) {
      const bool alone = stepped_.granularity == Granularity::kThread &&
                         next->effect == Effect::kCollective && candidate.allowed != warp.live;
      if (seen || alone) break;
      seen = true;
      step_.pc = warp.group_pc;
      step_.lanes = lanes;
    }
    const InsnSource& source = block.program->sources[next->source];
    for (uint32_t i = source.written_begin; i < source.written_end; ++i) {
      const WrittenRow& row = block.program->written[i];
      warp.NoteWritten(warp.group_frame + row.at, row.bytes);
    }
    StepWarp(warp, 1);
    ++now_ns_;
    if (sleep_ns_ != 0) break;
  }
  warp.Park();
  warp.allowed = kFullMask;
  FollowCircle(actor, warp);
  if (effect_) WakeReaders(&actor);
  if (!block.fault && block.live_threads != 0) {
    const bool stuck = std::ranges::none_of(block.warps, [](const auto& w) {
      return w->live != 0 && std::ranges::any_of(w->status, [](LaneStatus status) {
               return status == LaneStatus::kReady;
             });
    });
    if (stuck) block.RaiseDeadlock();
  }
  if (block.fault || block.live_threads == 0) Retire(resident);
}

/// Detects an actor that waits: it came back to a state in which it was before, and nothing that it
/// did in between could be seen by others. It need not step again before something that it read
/// changes.
void SteppedRun::FollowCircle(Actor& actor, const Warp& warp) {
  if (sleep_ns_ != 0) actor.wake_ns = now_ns_ + stepped_.step_ns + sleep_ns_;
  if (effect_) {
    actor.BeginCircle();
    actor.read_stale = actor.reads_latest = false;
    return;
  }
  actor.read_stale |= stale_;
  for (const Touch& touch : step_.touches) {
    uint32_t& bytes = actor.watched[touch.object];
    bytes = std::max(bytes, touch.bytes);
    actor.widest = std::max(actor.widest, bytes);
  }
  if (warp.group_pc > step_.pc) return;  // to come back to a state, it must jump backwards
  const bool threads = stepped_.granularity == Granularity::kThread;
  const uint64_t state = StateHash(warp, threads ? actor.id.lane : kLanes);
  if (actor.states.insert(state).second) {
    // An actor with so many states does something, although nobody sees it.
    if (actor.states.size() > 4096) actor.BeginCircle();
    return;
  }
  actor.states.clear();
  if (actor.read_stale) {
    // A thread sees the newest value in the end, so from here on it reads only newest values.
    actor.read_stale = false;
    actor.reads_latest = true;
    actor.watched.clear();
    return;
  }
  actor.stalled = true;
}

/// A hash of the state of a lane, or of all lanes for kLanes: where it is, with the registers and
/// local memory of the whole warp.
uint64_t SteppedRun::StateHash(const Warp& warp, uint32_t lane) const {
  uint64_t hash = MixInto(warp.live, warp.carry);
  ForLanes(lane == kLanes ? warp.live : warp.live & 1u << lane, [&](uint32_t l) {
    hash = MixInto(hash, uint64_t{warp.pc[l]} << 32 | warp.frame[l]);
    hash =
        MixInto(hash, uint64_t{static_cast<uint8_t>(warp.status[l])} << 32 | warp.calls[l].size());
  });
  if (lane == kLanes) hash = MixInto(hash, uint64_t{warp.patience} << 32 | warp.favoured);
  const uint64_t before = hash;
  hash = MixBytes(before, warp.registers, warp.used_register_bytes, &warp.written);
#ifdef __SANITIZE_ADDRESS__
  // In tests of the stepped device itself: nothing was written that is not known to be.
  if (hash % 4 == 0 && hash != MixBytes(before, warp.registers, warp.used_register_bytes)) std::abort();
#endif
  return MixBytes(hash, warp.local_memory.data(), warp.local_memory.size());
}

/// Lets every actor that read something which the step changed look for a new circle; if it had
/// stalled, it steps again.
void SteppedRun::WakeReaders(const Actor* self) {
  for (auto& resident : residents_) {
    for (Actor& actor : resident->actors) {
      if (&actor == self || actor.watched.empty()) continue;
      const bool changed = std::ranges::any_of(
          step_.touches, [&](const Touch& touch) { return touch.write && actor.Watches(touch); });
      if (changed) actor.BeginCircle();
    }
  }
}

// ---- ends -----------------------------------------------------------------------------------

void SteppedRun::Retire(Resident& resident) {
  Launch& launch = *resident.launch;
  Block& block = *resident.block;
  if (models_) {
    std::vector<ThreadId> threads(block.thread_count);
    std::iota(threads.begin(), threads.end(), resident.first_thread);
    model_.Barrier(threads, std::span(&launch.thread, 1));
  }
  if (block.fault && !launch.fault) {
    launch.fault = std::move(block.fault);
    if (!fault_) fault_ = *launch.fault;
    launch.waiting.clear();
  }
  // After a fault the grid's other blocks stop.
  std::erase_if(residents_, [&](const auto& other) {
    if (other.get() != &resident && !(launch.fault && other->launch == &launch)) return false;
    Forget(*other);
    sms_[other->sm].Remove(launch.needs);
    --launch.resident;
    return true;
  });
  if (launch.resident == 0 && launch.waiting.empty()) End(launch);
}

/// Forgets the accesses to a block's shared memory, because the next block may get the same host
/// memory.
void SteppedRun::Forget(const Resident& resident) {
  const Block& block = *resident.block;
  model_.Forget(reinterpret_cast<uint64_t>(block.shared_store.get()),
                block.shared_bytes + 2 * kSharedBase);
}

void SteppedRun::End(Launch& launch) {
  launch.ended = true;
  if (launch.joins_test) model_.Join(0, launch.thread);
  if (launch.grid.workspace != 0) Free(launch.grid.workspace);
  if (launch.done) launch.done(launch.fault.get());
}

std::string SteppedRun::stuck() const {
  std::string text;
  uint32_t count = 0;
  const auto add = [&](const std::string& line) {
    if (++count <= 8) text += (text.empty() ? "" : "\n") + line;
  };
  for (const HostThread& host : hosts_) {
    if (!host.actions_.empty())
      add(fmt::format("host thread {} waits to {}", host.name(), host.actions_.front().what));
  }
  for (const auto& launch : launches_) {
    if (!launch->waiting.empty())
      add(fmt::format("grid {}: {} blocks find no room", launch->number, launch->waiting.size()));
  }
  for (const auto& resident : residents_) {
    for (const Actor& actor : resident->actors) {
      const Warp& warp = *resident->block->warps[actor.id.warp];
      if (warp.live == 0 || (warp.live >> actor.id.lane & 1) == 0) continue;
      sim::Step step;
      step.actor = actor.id;
      step.pc = warp.pc[static_cast<uint32_t>(std::countr_zero(warp.live))];
      if (stepped_.granularity == Granularity::kThread) step.pc = warp.pc[actor.id.lane];
      add(Describe(step));
    }
  }
  if (count > 8) text += fmt::format("\nand {} more", count - 8);
  return text;
}

}  // namespace cupola::sim
