#include "tests/unit/passes/preempt_bed.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "device/runtime/preempt_control.h"

namespace cupola::passes {
namespace {

using runtime::ControlSlot;
using runtime::HostStatus;
using runtime::PhysicalControl;
using runtime::PreemptParams;
using runtime::ReturnedList;
using runtime::YieldLine;
using sim::GridLaunch;
using sim::HostThread;
using sim::Order;

constexpr uint32_t kSlots = 2;

// The host's side of a stream with preemptible launches, and all that a test looks at.
class Bed : public std::enable_shared_from_this<Bed> {
 public:
  Bed(const Subject& subject, const Course& course, std::shared_ptr<Account> account)
      : subject_(subject),
        course_(course),
        account_(std::move(account)),
        status_(std::make_unique<HostStatus[]>(kSlots)),
        line_(std::make_unique<YieldLine>()) {}

  void Start(sim::SteppedDevice& device) {
    device_ = &device;
    *account_ = {};
    auto original = device.LoadPtx(subject_.original, "original.ptx");
    auto side = device.LoadPtx(subject_.side, "side.ptx");
    if (!original || !side) {
      wrong_ = original ? side.error().ToString() : original.error().ToString();
      return;
    }
    original_ = *original;
    side_ = *side;
    kernel_ = KernelIndex(*side_, VariantName(subject_.kernel, Variant::kPreemptible));
    if (kernel_ == ~0u) {
      wrong_ = "no preemptible variant";
      return;
    }
    FillVariables(subject_.variables, *original_, *side_);
    counts_ = reinterpret_cast<const uint32_t*>(AddressOf(*original_, "test_counts"));
    const sim::KernelSpec& spec = subject_.golden.spec;
    arguments_ = PlaceArguments(device, spec, side_->kernels()[kernel_]);
    total_ = spec.grid.x * spec.grid.y * spec.grid.z;
    slots_ = Zeroed(sizeof(ControlSlot) * kSlots);
    lists_ = Zeroed(sizeof(ReturnedList) * kSlots);
    std::memset(status_.get(), 0, sizeof(HostStatus) * kSlots);
    *line_ = YieldLine{};
    device.MapHost(reinterpret_cast<uint64_t>(status_.get()), sizeof(HostStatus) * kSlots);
    device.MapHost(reinterpret_cast<uint64_t>(line_.get()), sizeof(YieldLine));
    // Counters begin anywhere, also where they wrap.
    for (uint32_t s = 0; s < kSlots; ++s) {
      Slot(s).next = next_[s] = 0xFFFFFFF0u + s;
      Slot(s).completed = completed_[s] = 0xFFFFFFFDu - s;
    }
    HostThread& host = device.AddHostThread("host");
    auto self = shared_from_this();
    host.Then("launch", [self](HostThread& thread) { self->Launch(thread); });
    Watch(host);
  }

  const std::string& Look() {
    if (wrong_.empty() && !course_.has_watcher) LookAtPolls();
    return wrong_;
  }

  std::string Check() {
    if (!wrong_.empty()) return wrong_;
    if (launch_ + 1 < course_.launches || !done_) return "the launches have not ended";
    account_->steps = device_->steps();
    account_->returned = 0;
    for (uint32_t s = 0; s < kSlots; ++s) {
      if (List(s).count != 0) return "ranges are left in the list";
      for (const uint64_t range : List(s).ranges) {
        if (range != 0) return "a range is left in the list's places";
      }
      account_->returned += List(s).high;
    }
    for (uint32_t s = 0; s < kSlots; ++s) {
      if (Slot(s).completed != completed_[s]) return fmt::format("slot {}: completed", s);
      if (Slot(s).done != status_[s].done) return fmt::format("slot {}: done differs", s);
      for (const PhysicalControl& physical : Slot(s).physical) {
        if (physical.exits != 0) return fmt::format("slot {}: exits {}", s, physical.exits);
      }
    }
    return WrongCounts(*original_, total_, course_.launches);
  }

 private:
  struct Physical {
    uint32_t slot, index, tag;
    bool asked;  // somebody asked while it was under way
  };

  uint64_t Zeroed(uint64_t bytes) {
    const uint64_t address = device_->Allocate(bytes);
    std::memset(reinterpret_cast<void*>(address), 0, bytes);
    return address;
  }
  ControlSlot& Slot(uint32_t s) { return reinterpret_cast<ControlSlot*>(slots_)[s]; }
  ReturnedList& List(uint32_t slot) { return reinterpret_cast<ReturnedList*>(lists_)[slot]; }
  uint64_t Status(uint32_t s, size_t offset) {
    return reinterpret_cast<uint64_t>(&status_[s]) + offset;
  }
  uint32_t Sequence() const { return 100 + launch_; }
  uint32_t SlotOf(uint32_t launch) const { return launch % kSlots; }

  // Who moves the time of a poll has just found it due. (A watcher's may come behind another's.)
  void LookAtPolls() {
    for (uint32_t s = 0; s < kSlots; ++s) {
      for (uint32_t p = 0; p < runtime::kPhysicalLaunches; ++p) {
        const uint32_t poll_at = Slot(s).physical[p].poll_at_ns;
        if (static_cast<int32_t>(poll_at - poll_at_[s][p]) < 0) wrong_ = "a poll's time goes back";
        poll_at_[s][p] = poll_at;
      }
    }
  }

  bool IsLive(uint32_t slot) const {
    return std::any_of(live_.begin(), live_.end(), [&](const auto& p) { return p.slot == slot; });
  }

  // As ShapeClaims has them, but with any number of workers and of single blocks.
  runtime::ClaimShape Claims() const {
    runtime::ClaimShape claims;
    if (course_.batch == 1) return claims;
    claims.batch = course_.batch;
    claims.stride = total_ == subject_.golden.spec.grid.x ? course_.stride : 1;
    const uint32_t chunk = claims.batch * claims.stride;
    claims.full_until = (total_ - std::min(total_, course_.single_blocks)) / chunk * chunk;
    return claims;
  }

  void Submit(HostThread& host, uint32_t workers) {
    const uint32_t slot = SlotOf(launch_);
    uint32_t index = next_index_;
    while (std::any_of(live_.begin(), live_.end(),
                       [&](const auto& p) { return p.slot == slot && p.index == index; })) {
      index = (index + 1) % runtime::kPhysicalLaunches;
    }
    next_index_ = (index + 1) % runtime::kPhysicalLaunches;
    const sim::KernelSpec& spec = subject_.golden.spec;
    const runtime::ClaimShape claims = Claims();
    PreemptParams params{};
    params.slot = slots_ + slot * sizeof(ControlSlot);
    params.returned = lists_ + slot * sizeof(ReturnedList);
    params.status = Status(slot, 0);
    params.yield_line = reinterpret_cast<uint64_t>(line_.get());
    params.grid[0] = spec.grid.x;
    params.grid[1] = spec.grid.y;
    params.grid[2] = spec.grid.z;
    params.total_blocks = total_;
    params.base_next = base_next_;
    params.base_completed = completed_[slot];
    params.sequence = Sequence();
    params.batch = claims.batch;
    params.physical = index;
    params.tag = ++tag_;
    params.workers = workers;
    runtime::SetPolls(params, course_.poll_period_ns);
    params.flags = course_.flags;
    if (course_.has_watcher && workers > 1) params.flags |= runtime::kHasWatcher;
    params.look_after_ns = course_.look_after_ns;
    params.stride = claims.stride;
    params.full_until = claims.full_until;
    params.fresh_after_ns = course_.fresh_after_ns;
    runtime::SetSteady(params);
    std::vector<std::byte> bytes = arguments_.params;
    std::memcpy(bytes.data() + subject_.facts.launch_offset, &params, sizeof(params));
    host.Submit({side_,
                 kernel_,
                 {workers, 1, 1},
                 spec.block,
                 spec.dynamic_shared_bytes,
                 std::move(bytes),
                 false});
    live_.push_back({slot, index, tag_, asked_});
  }

  void Launch(HostThread& host) {
    const uint32_t slot = SlotOf(launch_);
    done_ = false;
    base_next_ = next_[slot];
    Submit(host, course_.workers);
  }

  uint32_t Begun() const { return std::accumulate(counts_, counts_ + total_, 0u); }

  bool AskIsDue() const {
    if (asked_) return false;
    if (asks_ < course_.ask_at_block.size()) return Begun() >= course_.ask_at_block[asks_];
    return asks_ < course_.ask_at_step.size() && device_->steps() >= course_.ask_at_step[asks_];
  }
  // Whoever asked may be through before all have left.
  bool WithdrawIsDue() const {
    return asked_ && device_->steps() - asked_at_step_ >= course_.withdraws_after;
  }
  bool Yielded() const { return status_[SlotOf(launch_)].yielded != yielded_; }

  // Whether there is anything to do; looks without being observed.
  bool Ready() const {
    if (!done_ && (AskIsDue() || WithdrawIsDue())) return true;
    for (const Physical& physical : live_) {
      if (status_[physical.slot].ended[physical.index] == physical.tag) return true;
    }
    if (!done_ && status_[SlotOf(launch_)].done == Sequence()) return true;
    if (done_ && launch_ + 1 < course_.launches && !IsLive(SlotOf(launch_ + 1))) return true;
    if (done_ || live_.size() >= runtime::kPhysicalLaunches) return false;
    return !IsLive(SlotOf(launch_)) || (asked_ && bound_ < 0xFFFF && Yielded());
  }

  void Watch(HostThread& host) {
    auto self = shared_from_this();
    host.When(
        "look", [self] { return self->Ready(); },
        [self](HostThread& thread) { self->Act(thread); });
  }

  void Ask(HostThread& host) {
    bound_ = asks_ < course_.bounds.size() ? course_.bounds[asks_] : runtime::kAllSms;
    ++asks_;
    asked_ = true;
    asked_at_step_ = device_->steps();
    yielded_ = status_[SlotOf(launch_)].yielded;
    for (Physical& physical : live_) physical.asked = true;
    const uint64_t line = reinterpret_cast<uint64_t>(line_.get());
    host.Store<uint64_t>(line + offsetof(YieldLine, sm_bound), bound_, Order::kRelaxed);
    host.Store<uint64_t>(line + offsetof(YieldLine, requests), 4);
  }

  void Withdraw(HostThread& host) {
    asked_ = false;
    host.Store<uint64_t>(reinterpret_cast<uint64_t>(line_.get()), 0);
  }

  void Act(HostThread& host) {
    if (!done_ && AskIsDue()) {
      Ask(host);
    } else if (!done_ && WithdrawIsDue()) {
      Withdraw(host);
    } else {
      NoteEnds(host);
      if (wrong_.empty()) NoteDone(host);
      if (wrong_.empty()) GoOn(host);
    }
    const bool over = done_ && launch_ + 1 == course_.launches && live_.empty();
    if (!over && wrong_.empty()) Watch(host);
  }

  // `done` is looked at first: what it says must hold of the ends seen after it, not before.
  void NoteEnds(HostThread& host) {
    for (size_t i = 0; i < live_.size();) {
      const Physical physical = live_[i];
      const size_t offset = offsetof(HostStatus, ended) + 4 * physical.index;
      if (host.Load<uint32_t>(Status(physical.slot, offset)) != physical.tag) {
        ++i;
        continue;
      }
      live_.erase(live_.begin() + static_cast<ptrdiff_t>(i));
      const uint32_t next = host.Load<uint32_t>(
          Status(physical.slot, offsetof(HostStatus, next_final) + 4 * physical.index),
          Order::kWeak);
      if (static_cast<int32_t>(next - next_[physical.slot]) > 0) next_[physical.slot] = next;
      if (!IsLive(physical.slot) && next_[physical.slot] != Slot(physical.slot).next) {
        wrong_ = "next_final is not what next came to";
      }
      if (!IsLive(physical.slot) &&
          status_[physical.slot].yielded != Slot(physical.slot).yielded) {
        wrong_ = "the host knows of fewer workers that left SMs than did";
      }
      const bool current = physical.slot == SlotOf(launch_) && !done_;
      if (!current) continue;
      const bool done =
          host.Load<uint32_t>(Status(physical.slot, offsetof(HostStatus, done))) == Sequence();
      account_->yields += !done;
      // Others of the launch may still be at its blocks; one that was asked may hand back late.
      any_asked_ = any_asked_ || physical.asked;
      if (!done && !any_asked_ && !IsLive(physical.slot)) {
        wrong_ = "the last workers left unasked with blocks to run";
      }
      if (!done && !IsLive(physical.slot) &&
          Slot(physical.slot).completed == completed_[physical.slot] + total_) {
        wrong_ = "the last end was told before done";
      }
    }
  }

  void NoteDone(HostThread& host) {
    const uint32_t slot = SlotOf(launch_);
    if (done_ || host.Load<uint32_t>(Status(slot, offsetof(HostStatus, done))) != Sequence()) {
      return;
    }
    done_ = true;
    if (Slot(slot).done != Sequence()) wrong_ = "the host was told of done before the guard";
    completed_[slot] += total_;
    // The host reads the results, as a program does behind the guard.
    std::vector<std::vector<std::byte>> results;
    const sim::KernelSpec& spec = subject_.golden.spec;
    for (size_t i = 0; i < spec.args.size(); ++i) {
      const uint64_t bytes = spec.args[i].bytes.size();
      for (uint64_t at = 0; spec.args[i].is_buffer && at + 4 <= bytes; at += 4) {
        (void)host.Load<uint32_t>(arguments_.buffers[i] + at, Order::kWeak);
      }
    }
    if (ReadBuffers(spec, arguments_) != subject_.expected[launch_]) {
      wrong_ = fmt::format("launch {}: results differ", launch_);
    }
    if (asked_) Withdraw(host);
  }

  void GoOn(HostThread& host) {
    const uint32_t slot = SlotOf(launch_);
    if (done_ && launch_ + 1 < course_.launches && !IsLive(SlotOf(launch_ + 1))) {
      ++launch_;
      Launch(host);
    } else if (!done_ && (!IsLive(slot) || (asked_ && bound_ < 0xFFFF && Yielded()))) {
      if (live_.size() >= runtime::kPhysicalLaunches) return;
      if (!IsLive(slot)) any_asked_ = false;
      if (asked_) Withdraw(host);
      ++account_->resumes;
      if (launch_ == 0) account_->resumed_at.push_back(Begun());
      Submit(host, course_.resume_workers);
    }
  }

  const Subject& subject_;
  const Course course_;
  std::shared_ptr<Account> account_;
  std::unique_ptr<HostStatus[]> status_;
  std::unique_ptr<YieldLine> line_;
  sim::SteppedDevice* device_ = nullptr;
  std::shared_ptr<sim::LoadedModule> original_, side_;
  uint32_t kernel_ = 0, total_ = 0;
  const uint32_t* counts_ = nullptr;  // of the blocks, how often each has begun
  Arguments arguments_;
  uint64_t slots_ = 0, lists_ = 0;
  std::vector<Physical> live_;
  uint32_t launch_ = 0, tag_ = 0, next_index_ = 0, base_next_ = 0;
  std::array<uint32_t, kSlots> next_{}, completed_{};
  uint32_t poll_at_[kSlots][runtime::kPhysicalLaunches] = {};  // as it was after the last step
  bool done_ = false, asked_ = false, any_asked_ = false;
  size_t asks_ = 0;
  uint64_t asked_at_step_ = 0;
  uint32_t bound_ = 0, yielded_ = 0;
  std::string wrong_;
};

}  // namespace

sim::Scenario MakeScenario(const Subject& subject, const Course& course,
                           std::shared_ptr<Account> account) {
  sim::Scenario scenario;
  scenario.config.device.memory_bytes = 64 << 20;
  scenario.config.device.sm_count = course.sm_count;
  scenario.config.device.max_blocks_per_sm = course.blocks_per_sm;
  scenario.config.granularity = course.granularity;
  scenario.config.memory.stale_reads = course.stale_reads;
  scenario.config.memory.find_races = course.find_races;
  scenario.config.choose_blocks = true;
  scenario.config.max_steps = 1u << 18;
  auto bed = std::make_shared<std::shared_ptr<Bed>>();
  scenario.start = [=, &subject](sim::SteppedDevice& device) {
    *bed = std::make_shared<Bed>(subject, course, account);
    (*bed)->Start(device);
  };
  scenario.watch = [bed](sim::SteppedDevice&) { return (*bed)->Look(); };
  scenario.check = [bed](sim::SteppedDevice&) { return (*bed)->Check(); };
  return scenario;
}

}  // namespace cupola::passes
