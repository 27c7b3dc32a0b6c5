#include "tests/unit/passes/preempt_bed.h"

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "base/prng.h"
#include "device/compiler/passes/snippet.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"
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

constexpr uint32_t kMaxBlocks = 4096;
constexpr uint32_t kSlots = 2;

// Thread 0 of each block adds one to the block's own word, at the block's begin.
constexpr std::string_view kCount = R"(
  .reg .b32 %test_r<9>;
  .reg .b64 %test_d<3>;
  .reg .pred %test_p;
  mov.u32 %test_r0, %tid.x;
  mov.u32 %test_r1, %tid.y;
  mov.u32 %test_r2, %tid.z;
  or.b32 %test_r0, %test_r0, %test_r1;
  or.b32 %test_r0, %test_r0, %test_r2;
  setp.ne.u32 %test_p, %test_r0, 0;
  mov.u32 %test_r3, %ctaid.z;
  mov.u32 %test_r4, %nctaid.y;
  mov.u32 %test_r5, %ctaid.y;
  mad.lo.u32 %test_r3, %test_r3, %test_r4, %test_r5;
  mov.u32 %test_r4, %nctaid.x;
  mov.u32 %test_r5, %ctaid.x;
  mad.lo.u32 %test_r3, %test_r3, %test_r4, %test_r5;
  mul.wide.u32 %test_d0, %test_r3, 4;
  mov.u64 %test_d1, test_counts;
  add.s64 %test_d0, %test_d0, %test_d1;
  @%test_p bra $test_counted;
  red.global.add.u32 [%test_d0], 1;
$test_counted:
)";

void AddCounting(ptx::Module& module, ptx::Function& kernel) {
  std::vector<ptx::Statement> code = Snippet(kCount);
  auto& statements = kernel.body->statements;
  statements.insert(statements.begin(), code.begin(), code.end());
  ptx::Variable counts;
  counts.linking = "visible";
  counts.space = ptx::StateSpace::kGlobal;
  counts.align = 4;
  counts.type = "b32";
  counts.name = "test_counts";
  counts.dims = {kMaxBlocks};
  module.items.insert(module.items.begin(), std::move(counts));
}

uint64_t AddressOf(const sim::LoadedModule& module, std::string_view name) {
  for (const sim::GlobalInfo& global : module.globals()) {
    if (global.name == name) return global.address;
  }
  return 0;
}

uint32_t KernelIndex(const sim::LoadedModule& module, std::string_view name) {
  for (uint32_t i = 0; i < module.kernels().size(); ++i) {
    if (module.kernels()[i].name == name) return i;
  }
  return ~0u;
}

// Buffers in device memory and the parameters that point to them.
struct Arguments {
  std::vector<uint64_t> buffers;  // 0 for scalars
  std::vector<std::byte> params;
};

Arguments PlaceArguments(sim::Device& device, const sim::KernelSpec& spec,
                         const sim::KernelInfo& info) {
  Arguments arguments;
  arguments.params.resize(info.param_bytes);
  for (size_t i = 0; i < spec.args.size(); ++i) {
    const sim::ArgSpec& arg = spec.args[i];
    std::byte* at = arguments.params.data() + info.params[i].offset;
    arguments.buffers.push_back(0);
    if (!arg.is_buffer) {
      std::memcpy(at, arg.bytes.data(), std::min<size_t>(arg.bytes.size(), info.params[i].size));
      continue;
    }
    const uint64_t address = device.Allocate(arg.bytes.size());
    std::memcpy(reinterpret_cast<void*>(address), arg.bytes.data(), arg.bytes.size());
    std::memcpy(at, &address, 8);
    arguments.buffers.back() = address;
  }
  return arguments;
}

std::vector<std::vector<std::byte>> ReadBuffers(const sim::KernelSpec& spec,
                                                const Arguments& arguments) {
  std::vector<std::vector<std::byte>> all;
  for (size_t i = 0; i < spec.args.size(); ++i) {
    if (!spec.args[i].is_buffer) continue;
    const auto* at = reinterpret_cast<const std::byte*>(arguments.buffers[i]);
    all.emplace_back(at, at + spec.args[i].bytes.size());
  }
  return all;
}

Status RunOriginal(Subject& subject, uint32_t launches) {
  sim::SteppedConfig config;
  config.device.memory_bytes = 64 << 20;
  config.memory.find_races = false;
  sim::RandomChooser chooser(1);
  auto device = sim::SteppedDevice::Create(config, &chooser);
  auto module = device->LoadPtx(subject.original, subject.golden.name);
  if (!module) return module.error();
  const sim::KernelSpec& spec = subject.golden.spec;
  const uint32_t index = KernelIndex(**module, subject.kernel);
  const Arguments arguments = PlaceArguments(*device, spec, (*module)->kernels()[index]);
  for (uint32_t launch = 0; launch < launches; ++launch) {
    device->Submit({*module, index, spec.grid, spec.block, spec.dynamic_shared_bytes,
                    arguments.params, spec.cooperative},
                   [](const sim::Fault*) {});
    if (device->Run() != sim::RunEnd::kIdle || device->fault()) {
      return MakeError(ErrorCode::kInternal,
                       device->fault() ? device->fault()->message : device->stuck());
    }
    subject.expected.push_back(ReadBuffers(spec, arguments));
  }
  return {};
}

// What the loader does: cupola_variables holds where the program's variables are.
void FillVariables(const Subject& subject, const sim::LoadedModule& original,
                   const sim::LoadedModule& side) {
  const uint64_t array = AddressOf(side, kVariablesName);
  for (size_t i = 0; i < subject.variables.size(); ++i) {
    const uint64_t address = AddressOf(original, subject.variables[i].name);
    std::memcpy(reinterpret_cast<void*>(array + 8 * i), &address, 8);
  }
}

std::string WrongCounts(const sim::LoadedModule& original, uint32_t total, uint32_t launches) {
  const uint64_t counts = AddressOf(original, "test_counts");
  for (uint32_t i = 0; i < total; ++i) {
    const uint32_t count = reinterpret_cast<const uint32_t*>(counts)[i];
    if (count != launches) return fmt::format("block {} ran {} times", i, count);
  }
  return "";
}

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
    FillVariables(subject_, *original_, *side_);
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

  const std::string& Look() { return wrong_; }

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

  bool IsLive(uint32_t slot) const {
    return std::any_of(live_.begin(), live_.end(), [&](const auto& p) { return p.slot == slot; });
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
    params.batch = course_.batch;
    params.physical = index;
    params.tag = ++tag_;
    params.workers = workers;
    params.poll_period_ns = course_.poll_period_ns;
    params.flags = course_.flags;
    params.look_after_ns = course_.look_after_ns;
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

  bool AskIsDue() const {
    return !asked_ && asks_ < course_.ask_at_step.size() &&
           device_->steps() >= course_.ask_at_step[asks_];
  }
  bool Yielded() const { return status_[SlotOf(launch_)].yielded != yielded_; }

  // Whether there is anything to do; looks without being observed.
  bool Ready() const {
    if (!done_ && AskIsDue()) return true;
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
  Arguments arguments_;
  uint64_t slots_ = 0, lists_ = 0;
  std::vector<Physical> live_;
  uint32_t launch_ = 0, tag_ = 0, next_index_ = 0, base_next_ = 0;
  std::array<uint32_t, kSlots> next_{}, completed_{};
  bool done_ = false, asked_ = false, any_asked_ = false;
  size_t asks_ = 0;
  uint32_t bound_ = 0, yielded_ = 0;
  std::string wrong_;
};

}  // namespace

Result<Subject> MakeSubject(const std::filesystem::path& path, uint32_t launches,
                            bool few_registers) {
  auto golden = sim::ReadGoldenKernel(path);
  if (!golden) return golden.error();
  Subject subject;
  subject.golden = std::move(*golden);
  auto module = ptx::Parse(subject.golden.input, subject.golden.name);
  if (!module) return module.error();
  for (auto& item : module->items) {
    auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || !function->is_entry) continue;
    if (subject.golden.spec.kernel.empty()) subject.golden.spec.kernel = function->name;
  }
  subject.kernel = subject.golden.spec.kernel;
  AddCounting(*module, *module->FindFunction(subject.kernel));
  subject.original = ptx::Write(*module);
  SideModuleOptions options{.kernels = {subject.kernel}};
  if (few_registers) options.max_registers[subject.kernel] = 32;
  auto side = MakeSideModule(*module, options);
  if (!side) return side.error();
  subject.side = ptx::Write(side->module);
  subject.facts = side->kernels[0];
  subject.variables = side->variables;
  if (!subject.facts.sliced_refusal.empty()) return subject;
  if (Status run = RunOriginal(subject, launches); !run) return run.error();
  return subject;
}

std::string RunSliced(const Subject& subject, uint64_t seed, uint32_t most) {
  sim::SteppedConfig config;
  config.device.memory_bytes = 64 << 20;
  config.choose_blocks = true;
  sim::RandomChooser chooser(seed);
  Prng random(seed);
  auto device = sim::SteppedDevice::Create(config, &chooser);
  auto original = device->LoadPtx(subject.original, "original.ptx");
  auto side = device->LoadPtx(subject.side, "side.ptx");
  if (!original || !side) return original ? side.error().ToString() : original.error().ToString();
  const uint32_t index = KernelIndex(**side, VariantName(subject.kernel, Variant::kSliced));
  if (index == ~0u) return "no sliced variant";
  FillVariables(subject, **original, **side);
  const sim::KernelSpec& spec = subject.golden.spec;
  const Arguments arguments = PlaceArguments(*device, spec, (*side)->kernels()[index]);
  const uint32_t total = spec.grid.x * spec.grid.y * spec.grid.z;
  for (uint32_t first = 0; first < total;) {
    const uint32_t count = std::min(1 + static_cast<uint32_t>(random.Below(most)), total - first);
    const runtime::SliceParams params{{spec.grid.x, spec.grid.y, spec.grid.z}, first};
    std::vector<std::byte> bytes = arguments.params;
    std::memcpy(bytes.data() + subject.facts.launch_offset, &params, sizeof(params));
    device->Submit({*side,
                    index,
                    {count, 1, 1},
                    spec.block,
                    spec.dynamic_shared_bytes,
                    std::move(bytes),
                    false},
                   [](const sim::Fault*) {});
    if (device->Run() != sim::RunEnd::kIdle) return "nothing can go on: " + device->stuck();
    if (device->fault()) return device->fault()->message;
    first += count;
  }
  if (ReadBuffers(spec, arguments) != subject.expected[0]) return "results differ";
  return WrongCounts(**original, total, 1);
}

sim::Scenario MakeScenario(const Subject& subject, const Course& course,
                           std::shared_ptr<Account> account) {
  sim::Scenario scenario;
  scenario.config.device.memory_bytes = 64 << 20;
  scenario.config.device.sm_count = course.sm_count;
  scenario.config.device.max_blocks_per_sm = course.blocks_per_sm;
  scenario.config.granularity = course.granularity;
  scenario.config.memory.stale_reads = course.stale_reads;
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
