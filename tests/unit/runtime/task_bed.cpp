#include "tests/unit/runtime/task_bed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "device/runtime/task_record.h"

namespace cupola::runtime {
namespace {

using sim::HostThread;
using sim::Order;

constexpr uint32_t kUnitBytes = 16;
constexpr uint32_t kValue = 5;
constexpr uint8_t kChunks = 4;         // of a record
constexpr uint8_t kLongChunks = kNearChunks + 3;  // of each fourth; its arguments are in the last
constexpr uint64_t kPatience = 2'000;  // steps, until who waits wakes the columns

// As in stepped_bodies.cu.
struct BodyArguments {
  uint64_t out;
  uint32_t value;
  uint32_t padding = 0;
  uint64_t wrong;
  uint64_t in;
};

// The module of the last text, which has no variable: its code is as good for another device.
Result<std::shared_ptr<sim::LoadedModule>> LoadOnce(sim::SteppedDevice& device,
                                                    const std::string& ptx) {
  static std::string loaded;
  static std::shared_ptr<sim::LoadedModule> module;
  if (module != nullptr && loaded == ptx) return module;
  auto fresh = device.LoadPtx(ptx, "stepped_bodies");
  if (!fresh) return fresh.error();
  if (!(*fresh)->globals().empty()) return fresh;
  loaded = ptx;
  return module = *fresh;
}

class TaskBed : public std::enable_shared_from_this<TaskBed> {
 public:
  TaskBed(const std::string& ptx, const BedCourse& course) : ptx_(ptx), course_(course) {}

  void Start(sim::SteppedDevice& device) {
    device_ = &device;
    auto module = LoadOnce(device, ptx_);
    if (!module) {
      wrong_ = module.error().message;
      return;
    }
    module_ = *module;
    columns_ = Zeroed(course_.columns * sizeof(TaskColumn));
    done_ = Zeroed(course_.columns * kTaskRows * 4);
    control_ = Zeroed(sizeof(HostControl));
    state_ = Zeroed(sizeof(MasterState));
    shared_ = Zeroed(sizeof(DeviceControl));
    heads_ = Zeroed(course_.columns * 4);
    kept_ = Zeroed(course_.columns * kTaskRows * 4);
    for (uint32_t column = 0; column < course_.columns; ++column) SetFirst(column);
    blocks_ended_ = Zeroed(4);
    wrong_words_ = Zeroed(64);
    flag_ = Zeroed(64);
    for (const BedTask& task : course_.tasks) {
      out_.push_back(Zeroed(task.blocks * task.threads * 4));
      in_.push_back(task.reads >= 0  ? out_[static_cast<size_t>(task.reads)]
                    : task.body == 4 ? Zeroed(task.blocks * task.threads * 4)
                                     : flag_);
    }
    tails_.assign(course_.columns, course_.first);
    has_ended_ = course_.is_solo;
    HostThread& host = device.AddHostThread("host");
    auto self = shared_from_this();
    host.Then("begin", [self](HostThread& thread) {
      thread.Store<uint32_t>(self->control_ + offsetof(HostControl, awake), self->course_.awake);
      if (!self->course_.is_solo) self->Launch(thread);
    });
    Watch(host);
    HostThread& clock = device.AddHostThread("clock");  // time goes on where nothing else does
    for (const uint64_t at : course_.pause_ns) clock.At(at, "tick", [](HostThread&) {});
  }

  const std::string& Look() { return wrong_; }

  std::string Check() {
    if (!wrong_.empty()) return wrong_;
    if (next_ != course_.tasks.size() || waiting_.size() != 0) return "tasks have not run";
    if (course_.keeps_some && epoch_ < 2) return "a kernel in a hurry has run all tasks";
    if (Word(wrong_words_) != 0) return fmt::format("bodies found {} wrong", Word(wrong_words_));
    if (Word(shared_ + offsetof(DeviceControl, busy)) != 0) return "a column is busy for ever";
    if (course_.is_solo) return Word(blocks_ended_) == 0 ? "" : "blocks stay counted";
    for (uint32_t column = 0; column < course_.columns; ++column) {
      if (Word(heads_ + 4 * column) != tails_[column]) return "a head is not at its tail";
    }
    return "";
  }

 private:
  struct Waiting {
    size_t task;
    uint32_t sequence;
  };

  uint64_t Zeroed(uint64_t bytes) {
    const uint64_t address = device_->Allocate(bytes);
    std::memset(reinterpret_cast<void*>(address), 0, bytes);
    return address;
  }
  // As the host leaves a column that has had so many tasks.
  void SetFirst(uint32_t column) {
    if (course_.first == 0) return;
    reinterpret_cast<uint32_t*>(heads_)[column] = course_.first;
    reinterpret_cast<TaskColumn*>(columns_)[column].tail = course_.first;
    for (TaskChunk& chunk : reinterpret_cast<TaskColumn*>(columns_)[column].rows[kTaskRows - 1].chunks) {
      chunk.sequence = 1;
    }
    for (uint32_t back = 0; back < kTaskRows; ++back) {
      const uint32_t sequence = course_.first - back;
      *reinterpret_cast<uint32_t*>(DoneOf(column, sequence)) = sequence;
    }
  }
  static uint32_t Word(uint64_t address) { return *reinterpret_cast<const uint32_t*>(address); }
  uint64_t DoneOf(uint32_t column, uint32_t sequence) const {
    return done_ + 4 * (column * kTaskRows + (sequence - 1) % kTaskRows);
  }

  void Launch(HostThread& host) {
    host.Store<uint32_t>(state_, ++epoch_);
    MasterParams params{};
    params.columns = reinterpret_cast<const TaskColumn*>(columns_);
    params.done = reinterpret_cast<uint32_t*>(done_);
    params.host = reinterpret_cast<const HostControl*>(control_);
    params.state = reinterpret_cast<MasterState*>(state_);
    params.device = reinterpret_cast<DeviceControl*>(shared_);
    params.heads = reinterpret_cast<uint32_t*>(heads_);
    params.kept = reinterpret_cast<uint32_t*>(kept_);
    params.epoch = epoch_;
    params.idle_ns = course_.idle_ns;
    params.unit_bytes = kUnitBytes;
    if (!waiting_.empty()) GiveFirst(&params);
    Submit(host, "Master", course_.columns, 32 * (course_.executors + 1), kArenaUnits * kUnitBytes,
           params);
    is_running_ = true;
  }

  template <typename Params>
  void Submit(HostThread& host, const char* name, uint32_t blocks, uint32_t threads,
              uint32_t shared_bytes, const Params& params) {
    const auto& kernels = module_->kernels();
    const auto kernel = std::find_if(kernels.begin(), kernels.end(),
                                     [name](const auto& each) { return each.name == name; });
    std::vector<std::byte> bytes(sizeof params);
    std::memcpy(bytes.data(), &params, sizeof params);
    grid_ = host.Submit({module_,
                         static_cast<uint32_t>(kernel - kernels.begin()),
                         {blocks, 1, 1},
                         {threads, 1, 1},
                         shared_bytes,
                         std::move(bytes),
                         false},
                        [this](const sim::Fault*) { has_ended_ = true; });
    has_ended_ = false;
  }

  // The task that was put in last.
  void LaunchSolo(HostThread& host) {
    const Waiting& task = waiting_.back();
    const TaskHeader& header = *reinterpret_cast<const TaskHeader*>(words_[task.task].data());
    SoloParams params{};
    params.done =
        reinterpret_cast<uint32_t*>(DoneOf(course_.tasks[task.task].column, task.sequence));
    params.blocks_ended = reinterpret_cast<uint32_t*>(blocks_ended_);
    CopyRecord(task, params.record);
    Submit(host, "Solo", header.blocks, 32 * (1 + (header.threads + 31u) / 32), header.shared_bytes,
           params);
  }

  void CopyRecord(const Waiting& task, TaskChunk* record) const {
    const std::vector<uint32_t>& words = words_[task.task];
    const auto& header = *reinterpret_cast<const TaskHeader*>(words.data());
    for (uint32_t i = 0; i < header.chunks; ++i) {
      std::memcpy(record[i].words, &words[i * kChunkWords], sizeof record[i].words);
      record[i].sequence = task.sequence;
    }
  }

  // The task that is the next to be taken of its column, if there is one, else, and in each third
  // launch, the last that was put in, which others mostly come before.
  void GiveFirst(MasterParams* params) const {
    const auto is_next = [this](const Waiting& each) {
      return each.sequence == Word(heads_ + 4 * course_.tasks[each.task].column) + 1;
    };
    const auto next = std::find_if(waiting_.begin(), waiting_.end(), is_next);
    const bool gives_last = next == waiting_.end() || epoch_ % 3 == 0;
    const Waiting& given = gives_last ? waiting_.back() : *next;
    params->first_column = course_.tasks[given.task].column;
    CopyRecord(given, params->first);
  }

  bool CanPut() const {
    if (next_ >= course_.tasks.size()) return false;
    if (next_ < course_.pause_ns.size() && device_->NowNs() < course_.pause_ns[next_]) return false;
    if (course_.is_solo && !(waiting_.empty() && has_ended_)) return false;
    const BedTask& task = course_.tasks[next_];
    if (task.reads >= 0 && task.after == 0) {
      for (const Waiting& each : waiting_) {
        if (each.task == static_cast<size_t>(task.reads)) return false;
      }
    }
    const uint32_t column = task.column, position = tails_[column];
    return position - course_.first < kTaskRows ||
           Word(DoneOf(column, position + 1)) == position + 1 - kTaskRows;
  }
  bool HasEnded(const Waiting& each) const {
    return Word(DoneOf(course_.tasks[each.task].column, each.sequence)) == each.sequence;
  }
  bool IsToLeave() const {
    return is_running_ && asked_ < course_.leave_at_step.size() &&
           device_->steps() >= course_.leave_at_step[asked_];
  }
  bool IsToHurry() const {
    return hurried_ < course_.hurry_at_step.size() &&
           device_->steps() >= course_.hurry_at_step[hurried_];
  }
  bool IsToSleep() const {
    return slept_ < course_.sleep_at_step.size() &&
           device_->steps() >= course_.sleep_at_step[slept_];
  }
  bool IsToWake() const {
    return asleep_since_ != 0 && !waiting_.empty() && device_->steps() >= asleep_since_ + kPatience;
  }
  bool IsOver() const { return next_ == course_.tasks.size() && waiting_.empty(); }

  // Whether there is anything to do; looks without being observed.
  bool Ready() const {
    if (CanPut() || IsToLeave() || IsToHurry() || IsToSleep() || IsToWake()) return true;
    for (const Waiting& each : waiting_) {
      if (HasEnded(each)) return true;
    }
    if (!is_running_) return !course_.is_solo && !waiting_.empty() && has_ended_;
    return Word(state_) == 0 || (IsOver() && !said_last_);
  }

  void Watch(HostThread& host) {
    auto self = shared_from_this();
    host.When(
        "look", [self] { return self->Ready(); },
        [self](HostThread& thread) { self->Act(thread); });
  }

  void SetAwake(HostThread& host, uint32_t awake) {
    host.Store<uint32_t>(control_ + offsetof(HostControl, awake), awake);
    asleep_since_ = awake == course_.columns ? 0 : device_->steps();
  }

  void Act(HostThread& host) {
    if (is_running_ && host.Load<uint32_t>(state_) == 0) is_running_ = false;
    if (IsToSleep()) {
      ++slept_;
      SetAwake(host, 1);
    } else if (IsToWake()) {
      SetAwake(host, course_.columns);
    }
    bool puts = false;
    if (IsToLeave()) {
      ++asked_;
      const size_t word =
          course_.hurries ? offsetof(HostControl, hurry) : offsetof(HostControl, leave);
      host.Store<uint32_t>(control_ + word, epoch_);
    } else if (IsToHurry()) {
      ++hurried_;
      const bool is_of_next = course_.hurries_next && !is_running_;
      host.Store<uint32_t>(control_ + offsetof(HostControl, hurry), epoch_ + (is_of_next ? 1 : 0));
    } else if (CanPut()) {
      puts = true;
      Put(host);
    }
    for (size_t i = 0; i < waiting_.size();) {
      if (HasEnded(waiting_[i])) {
        NoteEnd(host, waiting_[i]);
        waiting_.erase(waiting_.begin() + static_cast<long>(i));
      } else {
        ++i;
      }
    }
    // Launches of one stream: behind the one before. What comes with one has been written.
    if (!puts && !is_running_ && !course_.is_solo && !waiting_.empty() && has_ended_) {
      host.Join(grid_);
      Launch(host);
    }
    if (is_running_ && IsOver() && !said_last_) {
      said_last_ = true;
      if (course_.sleeps_at_end) {
        SetAwake(host, 1);
      } else {
        host.Store<uint32_t>(control_ + offsetof(HostControl, leave), epoch_);
      }
    }
    if ((is_running_ || !IsOver()) && wrong_.empty()) Watch(host);
  }

  void Put(HostThread& host) {
    const BedTask& task = course_.tasks[next_];
    const bool is_long = next_ % 4 == 3;
    const TaskHeader header{.body = task.body,
                            .chunks = is_long ? kLongChunks : kChunks,
                            .barrier = task.barrier,
                            .threads = task.threads,
                            .after = task.after,
                            .blocks = task.blocks,
                            .shared_bytes = task.shared_bytes};
    const BodyArguments arguments{
        .out = out_[next_], .value = kValue, .wrong = wrong_words_, .in = in_[next_]};
    if (task.body == 4 && task.reads < 0) {
      const uint64_t in = in_[next_];
      host.Then("input", [in, task](HostThread& thread) {
        for (uint32_t i = 0; i < task.blocks * task.threads; ++i) {
          thread.Store<uint32_t>(in + 4 * i, kValue, Order::kWeak);
        }
      });
    }
    std::vector<uint32_t>& words = words_.emplace_back(kRecordWords);
    std::memcpy(words.data(), &header, sizeof header);
    std::memcpy(words.data() + (is_long ? kNearChunks * kChunkWords : 4), &arguments,
                sizeof arguments);
    const uint32_t position = tails_[task.column]++;
    waiting_.push_back({next_++, position + 1});
    if (course_.is_solo) {
      if (position != 0) host.Join(grid_);  // launches of one stream
      host.Then("launch", [this](HostThread& thread) { LaunchSolo(thread); });
      return;
    }
    // Each chunk is a step of its own, in an order that differs from task to task.
    for (uint32_t i = 0; i < header.chunks; ++i) {
      const uint32_t which = (i * 3 + position % header.chunks) % header.chunks;
      TaskChunk chunk{};
      std::memcpy(chunk.words, &words[which * kChunkWords], sizeof chunk.words);
      chunk.sequence = position + 1;
      const uint64_t address = columns_ + task.column * sizeof(TaskColumn) +
                               position % kTaskRows * sizeof(TaskRecord) +
                               which * sizeof(TaskChunk);
      host.Then("put", [address, chunk](HostThread& thread) {
        thread.Store(address, chunk, Order::kRelease);  // as every store of x86
      });
    }
    const uint64_t tail = columns_ + task.column * sizeof(TaskColumn) + offsetof(TaskColumn, tail);
    host.Then("tail",
              [tail, position](HostThread& thread) { thread.Store<uint32_t>(tail, position + 1); });
  }

  // The host reads what the task wrote, as a program does behind a wait.
  void NoteEnd(HostThread& host, const Waiting& each) {
    const BedTask& task = course_.tasks[each.task];
    (void)host.Load<uint32_t>(DoneOf(task.column, each.sequence));
    for (uint32_t i = 0; i < task.blocks * task.threads; ++i) {
      const auto found = host.Load<uint32_t>(out_[each.task] + 4 * i, Order::kWeak);
      if (found != kValue && wrong_.empty()) {
        wrong_ = fmt::format("task {}, thread {}: {}", each.task, i, found);
      }
    }
  }

  const std::string ptx_;
  const BedCourse course_;
  sim::SteppedDevice* device_ = nullptr;
  std::shared_ptr<sim::LoadedModule> module_;
  uint64_t columns_ = 0, done_ = 0, control_ = 0, state_ = 0, shared_ = 0, heads_ = 0, kept_ = 0;
  uint64_t blocks_ended_ = 0;
  uint64_t wrong_words_ = 0, flag_ = 0, grid_ = 0;
  std::vector<uint64_t> out_, in_;
  std::vector<uint32_t> tails_;
  std::vector<std::vector<uint32_t>> words_;  // of tasks that were put in
  std::vector<Waiting> waiting_;
  size_t next_ = 0, asked_ = 0, hurried_ = 0, slept_ = 0;
  uint64_t asleep_since_ = 0;  // 0: they are not
  uint32_t epoch_ = 0;
  bool is_running_ = false, has_ended_ = false, said_last_ = false;
  std::string wrong_;
};

}  // namespace

sim::Scenario MakeTaskScenario(const std::string& ptx, const BedCourse& course) {
  sim::Scenario scenario;
  scenario.config.device.memory_bytes = 16 << 20;
  scenario.config.device.sm_count = course.columns;
  scenario.config.max_steps = course.most_steps;
  auto bed = std::make_shared<std::shared_ptr<TaskBed>>();
  scenario.start = [=](sim::SteppedDevice& device) {
    *bed = std::make_shared<TaskBed>(ptx, course);
    (*bed)->Start(device);
  };
  scenario.watch = [bed](sim::SteppedDevice&) { return (*bed)->Look(); };
  scenario.check = [bed](sim::SteppedDevice&) { return (*bed)->Check(); };
  return scenario;
}

}  // namespace cupola::runtime
