// The Observer and HostPort of a stepped run. They record what each step touches, for searches and
// for the trace, and pass the accesses to the memory model.
#include <fmt/format.h>

#include <algorithm>

#include "device/sim/stepped/stepped_run.h"

namespace cupola::sim {
namespace {

// The names of objects (Touch::object): for device memory its offset, for host memory its address
// with a tag, for shared memory and barriers a tag with the launch, the block and the place.
constexpr uint64_t kSharedTag = 1ull << 62, kBarrierTag = 2ull << 62, kHostTag = 3ull << 62;
constexpr uint64_t kFenceName = kBarrierTag | ((1ull << 60) - 1);

/// Whether it is local memory or parameters, which no other thread can see change.
bool IsPrivate(const Warp& warp, uint32_t lane, const uint8_t* at) {
  const auto inside = [at](const uint8_t* start, size_t bytes) {
    return at >= start && at < start + bytes;
  };
  const auto& params = warp.block->grid->params;
  return inside(warp.local_memory.data(), warp.local_memory.size()) ||
         inside(warp.alloca_memory[lane].data(), warp.alloca_memory[lane].size()) ||
         inside(reinterpret_cast<const uint8_t*>(params.data()), params.size());
}

}  // namespace

ThreadId SteppedRun::ThreadOf(const Warp& warp, uint32_t lane) const {
  return current_->first_thread + warp.index * kLanes + lane;
}

/// The thread that makes the access: the lane's, or the agent that copies for it.
ThreadId SteppedRun::CopierOf(const Warp& warp, uint32_t lane, const Access& access) {
  const ThreadId thread = ThreadOf(warp, lane);
  if (!access.async) return thread;
  const ThreadId agent = model_.Agent(thread);
  if (places_.size() <= agent) places_.resize(agent + 1);
  places_[agent] = places_[thread];
  return agent;
}

uint64_t SteppedRun::Site() const { return uint64_t{current_->launch->number} << 32 | step_.pc; }

uint64_t SteppedRun::Name(const Warp& warp, const uint8_t* at) const {
  const uint64_t address = reinterpret_cast<uint64_t>(at);
  const Block& block = *warp.block;
  const uint64_t shared = address - reinterpret_cast<uint64_t>(block.shared_store.get());
  if (shared < block.shared_bytes + 2 * kSharedBase) {
    const uint64_t offset = address - reinterpret_cast<uint64_t>(block.shared) + kSharedBase;
    return kSharedTag | uint64_t{current_->launch->number & 0xFFFFu} << 44 |
           uint64_t{current_->number & 0xFFFFFu} << 24 | (offset & 0xFFFFFFu);
  }
  const uint64_t offset = address - memory_->arena();
  return offset < config_.memory_bytes ? offset : kHostTag | (address & ~kHostTag);
}

void SteppedRun::Note(uint64_t object, uint32_t bytes, bool write, const void* value) {
  step_.touches.push_back({object, bytes, write});
  Mix(object);
  Mix(uint64_t{bytes} << 1 | write);
  // Longer values may be addresses, which differ per run.
  if (value == nullptr || bytes > 4) return;
  uint32_t word = 0;
  std::memcpy(&word, value, bytes);
  Mix(word);
}

void SteppedRun::Read(Warp& warp, uint32_t lane, const Access& access, void* value) {
  if (IsPrivate(warp, lane, access.at)) return;
  if (models_) stale_ |= model_.Read(CopierOf(warp, lane, access), access, Site(), value, latest_);
  Note(Name(warp, access.at), access.bytes, false, value);
}

void SteppedRun::Write(Warp& warp, uint32_t lane, const Access& access, const void* value) {
  if (IsPrivate(warp, lane, access.at)) return;
  if (models_) model_.Write(CopierOf(warp, lane, access), access, Site(), value);
  effect_ |= value == nullptr || std::memcmp(access.at, value, access.bytes) != 0 ||
             access.order != Order::kWeak;
  Note(Name(warp, access.at), access.bytes, true, value);
}

void SteppedRun::Update(Warp& warp, uint32_t lane, const Access& access, const void* before,
                        const void* after) {
  if (models_) model_.Update(CopierOf(warp, lane, access), access, Site(), before, after);
  effect_ |= after != nullptr && std::memcmp(before, after, access.bytes) != 0;
  Note(Name(warp, access.at), access.bytes, after != nullptr, before);
}

void SteppedRun::Fence(Warp& warp, uint32_t lanes, Order order, Scope scope) {
  if (!models_) return;
  ForLanes(lanes, [&](uint32_t lane) { model_.Fence(ThreadOf(warp, lane), order, scope); });
  if (order == Order::kSc && stepped_.memory.stale_reads) Note(kFenceName, 1, true, nullptr);
}

void SteppedRun::ArriveAtBarrier(Warp&, uint32_t, uint32_t index, bool counted) {
  effect_ = true;
  // At a barrier of the whole block all threads arrive, so their order does not matter. At a
  // counted barrier, it matters which threads arrive first.
  if (!counted) return;
  Note(kBarrierTag | uint64_t{current_->launch->number & 0xFFFFu} << 44 |
           uint64_t{current_->number & 0xFFFFFu} << 24 | index,
       1, true, nullptr);
}

void SteppedRun::CompleteBarrier(Block& block, const Barrier& barrier) {
  effect_ = true;
  for (Actor& actor : current_->actors) actor.BeginCircle();
  if (!models_) return;
  std::vector<ThreadId> released, acquired;
  const ThreadId first = current_->first_thread;
  for (uint32_t w = 0; w < block.warps.size(); ++w) {
    ForLanes(barrier.arrived[w],
             [&](uint32_t lane) { released.push_back(first + w * kLanes + lane); });
    ForLanes(barrier.waiting[w],
             [&](uint32_t lane) { acquired.push_back(first + w * kLanes + lane); });
  }
  model_.Barrier(released, acquired);
}

void SteppedRun::CompleteWarpBarrier(Warp& warp, uint32_t lanes) {
  if (!models_) return;
  std::vector<ThreadId> threads;
  ForLanes(lanes, [&](uint32_t lane) { threads.push_back(ThreadOf(warp, lane)); });
  model_.Barrier(threads, threads);
}

void SteppedRun::CommitCopies(Warp& warp, uint32_t lanes, bool bulk) {
  if (!models_) return;
  ForLanes(lanes, [&](uint32_t lane) { model_.CommitCopies(ThreadOf(warp, lane), bulk); });
}

void SteppedRun::WaitForCopies(Warp& warp, uint32_t lanes, bool bulk, uint32_t pending) {
  if (!models_) return;
  ForLanes(lanes,
           [&](uint32_t lane) { model_.WaitForCopies(ThreadOf(warp, lane), bulk, pending); });
}

void SteppedRun::Sleep(Warp&, uint32_t, uint32_t nanoseconds) {
  sleep_ns_ = std::max<uint64_t>(sleep_ns_, nanoseconds);
}

// ---- the host -------------------------------------------------------------------------------

void SteppedRun::HostLoad(HostThread& thread, const Access& access, void* value) {
  model_.Read(thread.memory_id_, access, uint64_t{kHostBlock} << 32 | thread.id(), value, false);
}

void SteppedRun::HostStore(HostThread& thread, const Access& access, const void* value) {
  model_.Write(thread.memory_id_, access, uint64_t{kHostBlock} << 32 | thread.id(), value);
}

uint64_t SteppedRun::HostSubmit(HostThread& thread, GridLaunch launch,
                                std::function<void(const Fault*)> done) {
  return Add(std::move(launch), std::move(done), thread.memory_id_).number;
}

bool SteppedRun::HostIsDone(uint64_t grid) const {
  return grid < launches_.size() && launches_[grid]->ended;
}

void SteppedRun::HostJoin(HostThread& thread, uint64_t grid) {
  if (HostIsDone(grid)) model_.Join(thread.memory_id_, launches_[grid]->thread);
}

// ---- words ----------------------------------------------------------------------------------

std::string SteppedRun::DescribeSite(uint64_t site) const {
  const uint64_t launch = site >> 32;
  if (launch >= launches_.size()) return "on the host";
  return launches_[launch]->grid.program->Describe(static_cast<uint32_t>(site));
}

std::string SteppedRun::DescribeThread(ThreadId thread) const {
  const auto [launch, index] = thread < places_.size() ? places_[thread] : places_[0];
  if (launch == kHostBlock)
    return index == kHostBlock ? "the test" : fmt::format("host thread {}", hosts_[index].name());
  if (index == kHostBlock) return fmt::format("grid {}", launch);
  const Grid& grid = launches_[launch]->grid;
  const uint32_t threads = grid.block.x * grid.block.y * grid.block.z;
  const Dim3 block = BlockIndex(grid.grid, index / threads);
  const Dim3 lane = BlockIndex(grid.block, index % threads);
  return fmt::format("grid {} block ({},{},{}) thread ({},{},{})", launch, block.x, block.y,
                     block.z, lane.x, lane.y, lane.z);
}

std::string SteppedRun::Describe(const Race& race) const {
  const char* const kinds[2] = {race.writes[0] ? "writes" : "reads",
                                race.writes[1] ? "writes" : "reads"};
  return fmt::format("{} {} ({}), unordered with {} that {} ({}){}",
                     DescribeThread(race.threads[0]), kinds[0], DescribeSite(race.sites[0]),
                     DescribeThread(race.threads[1]), kinds[1], DescribeSite(race.sites[1]),
                     race.same_value ? ", the same value" : "");
}

std::string SteppedRun::Describe(const sim::Step& step) const {
  const ActorId& actor = step.actor;
  if (actor.kind == ActorKind::kHost)
    return fmt::format("host thread {}", hosts_[actor.grid].name());
  if (actor.kind == ActorKind::kBlockStart)
    return fmt::format("grid {} block {} starts", actor.grid, actor.block);
  const Grid& grid = launches_[actor.grid]->grid;
  const Dim3 block = BlockIndex(grid.grid, actor.block);
  return fmt::format("grid {} block ({},{},{}) warp {} lane {}: {}", actor.grid, block.x, block.y,
                     block.z, actor.warp, actor.lane, grid.program->Describe(step.pc));
}

}  // namespace cupola::sim
