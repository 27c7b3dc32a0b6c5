#include "intercept/launch/gpu_board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/settings/variables.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/launch_counters.h"
#include "intercept/launch/launched_names.h"
#include "intercept/launch/preemption_settings.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"
#include "intercept/process/notice.h"
#include "intercept/process/own_thread.h"
#include "intercept/process/thread_state.h"
#include "intercept/process/tools.h"
#include "sched/board/executable_path.h"

namespace cupola::intercept {
namespace {

constexpr uint32_t kMostDevices = 32;

pthread_mutex_t join_mutex = PTHREAD_MUTEX_INITIALIZER;
// Both by device. A GpuBoard is never freed; `was_asked` is used under join_mutex.
std::atomic<GpuBoard*> boards[kMostDevices];
bool was_asked[kMostDevices];
std::atomic<bool> has_left_all{false};

// Pauses of the thread that goes on asking to join (GoOnAsking).
constexpr uint64_t kFirstPauseNs = 200'000'000, kLongestPauseNs = 5'000'000'000;
constexpr uint64_t kLongestRefusedPauseNs = 30'000'000'000;
constexpr uint32_t kAgainTimeoutMs = 500;
constexpr size_t kAskingStackBytes = 256 << 10;

// As nvidia-smi prints it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
void PrintUuid(const CUuuid& uuid, char (&text)[64]) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(uuid.bytes);
  int at = snprintf(text, sizeof(text), "GPU-");
  for (int i = 0; i < 16; ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    at += snprintf(text + at, sizeof(text) - static_cast<size_t>(at), dash ? "-%02x" : "%02x",
                   bytes[i]);
  }
}

uint32_t DeviceAttribute(CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  const auto get = CUPOLA_CALL_REAL(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000);
  return get(&value, attribute, device) == CUDA_SUCCESS ? static_cast<uint32_t>(value) : 0;
}

// CUPOLA_BOARD_SLOT gives each GPU a slot of the file, such as "0,1". If it has fewer entries than
// there are GPUs, the last entry serves for the rest.
const char* SlotOf(const char* slots, CUdevice device) {
  for (const char* comma; device > 0 && slots != nullptr; --device, slots = comma + 1) {
    comma = strchr(slots, ',');
    if (comma == nullptr) break;
  }
  return slots;
}

}  // namespace

// The capabilities at the join. kCanPreempt comes once a variant is prepared; gates count as working
// until the driver refuses one.
uint32_t GpuBoard::FirstAbilities() const noexcept {
  uint32_t abilities = shares_context_ ? uint32_t{sched::kSharesContext} : 0u;
  if (preemption_settings.gate_every != 0 && !StandsAside()) abilities |= sched::kCanGate;
  return abilities;
}

void GpuBoard::SetAbility(sched::SlotCapability ability, bool has_it) noexcept {
  if (has_left()) return;
  const uint32_t before = has_it ? slot_->capabilities.fetch_or(ability)
                                 : slot_->capabilities.fetch_and(~uint32_t{ability});
  // LoseControl sets has_lost_control_ before it takes abilities away: either it does so after us, or
  // we see it here.
  if (has_it && has_lost_control_.load()) return SetAbility(ability, false);
  if (((before & ability) != 0) == has_it) return;
  if (board_.header().attention.load() != 0) sched::RingBell(board_.header());
}

void GpuBoard::LoseControl(const char* why) noexcept {
  if (has_lost_control_.exchange(true)) return;
  Say(Level::kWarn, {"this program can no longer be stopped: ", why});
  SetAbility(sched::kCanPreempt, false);
  SetAbility(sched::kCanGate, false);
}

void GpuBoard::TakeAbilitiesAway() noexcept {
  for (auto& entry : boards) {
    GpuBoard* const board = entry.load();
    if (board == nullptr) continue;
    board->SetAbility(sched::kCanPreempt, false);
    board->SetAbility(sched::kCanGate, false);
  }
}

bool GpuBoard::OpenFile(const char* path, const char* slot) noexcept {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  struct stat facts{};
  if (fd < 0) return false;
  const bool fits = fstat(fd, &facts) == 0 &&
                    static_cast<uint64_t>(facts.st_size) >= sched::kBoardBytes;
  void* memory = fits ? mmap(nullptr, sched::kBoardBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                      : MAP_FAILED;
  close(fd);
  if (memory == MAP_FAILED) return false;
  board_ = sched::BoardView(memory);
  index_ = slot != nullptr ? static_cast<uint32_t>(strtoul(slot, nullptr, 10)) : 0;
  if (index_ >= sched::kBoardSlots) return false;
  if (board_.header().magic.load() != sched::kBoardMagic) return false;
  slot_ = &board_.slot(index_);
  slot_->pid.store(static_cast<uint32_t>(getpid()));
  // The capabilities in the file may say that its processes share a context.
  shares_context_ = shares_context_ || (slot_->capabilities.load() & sched::kSharesContext) != 0;
  slot_->capabilities.store(FirstAbilities());
  sched::SettleGate(*slot_);
  return true;
}

GpuBoard::Joined GpuBoard::Join() noexcept {
  // A board in a file, without a daemon: for tests and experiments.
  if (const char* path = settings::TextIfAny("CUPOLA_BOARD")) {
    if (OpenFile(path, SlotOf(settings::Text("CUPOLA_BOARD_SLOT"), device_))) return Joined::kYes;
    Say(Level::kWarn, {"CUPOLA_BOARD: ", path, " is no board"});
    return Joined::kNever;
  }
  CUuuid uuid{};
  char text[64] = {};
  const auto get_uuid = CUPOLA_CALL_REAL(cuDeviceGetUuid_v2, PFN_cuDeviceGetUuid_v11040);
  if (get_uuid(&uuid, device_) != CUDA_SUCCESS) return Joined::kNever;
  PrintUuid(uuid, text);
  char executable[256] = {};
  (void)sched::ExecutablePath("/proc/self", executable, sizeof(executable));
  const char* label = settings::Text("CUPOLA_LABEL");
  if (label != nullptr && strlen(label) >= sched::kMostJoinText) {
    Say(Level::kWarn, {"CUPOLA_LABEL is longer than 1023 bytes; rules see no more of it"});
  }
  const sched::JoinResult result = client_.Join({.executable = executable,
                                                 .label = label != nullptr ? label : "",
                                                 .gpu_uuid = text,
                                                 .capabilities = FirstAbilities(),
                                                 .sm_count = sm_count_});
  if (result != sched::JoinResult::kJoined) {
    const char* reason = client_.reason();
    level_ = result == sched::JoinResult::kNoDaemon ? Level::kInfo : Level::kWarn;
    Say(level_, {"not scheduled by an arbiter: ", *reason != '\0' ? reason : "none is there"});
    return Joined::kNotYet;
  }
  OnJoined();
  return Joined::kYes;
}

void GpuBoard::OnJoined() noexcept {
  board_ = client_.board();
  index_ = client_.index();
  slot_ = &client_.slot();
}

// Goes on asking to join, on a thread of its own, so that the program does not wait. A daemon that was stopped for a
// while, or has no slot left, may answer later. A daemon that refuses is asked more rarely, because each question
// costs it work.
void* GpuBoard::GoOnAsking(void* board) noexcept {
  auto& self = *static_cast<GpuBoard*>(board);
  ++this_thread.depth;  // driver calls of this thread are not the program's
  sched::JoinResult result = sched::JoinResult::kTimedOut;
  for (uint64_t pause_ns = kFirstPauseNs; result != sched::JoinResult::kJoined;) {
    const timespec pause{.tv_sec = static_cast<time_t>(pause_ns / 1'000'000'000),
                         .tv_nsec = static_cast<long>(pause_ns % 1'000'000'000)};
    nanosleep(&pause, nullptr);
    if (has_left_all.load()) return nullptr;
    result = self.client_.AskAgain(kAgainTimeoutMs);
    const bool is_refused = result == sched::JoinResult::kRefused || result == sched::JoinResult::kBadAnswer;
    pause_ns = std::min(2 * pause_ns, is_refused ? kLongestRefusedPauseNs : kLongestPauseNs);
  }
  self.OnJoined();
  self.joined_late = true;
  self.Take();
  Say(self.level_, {"scheduled by an arbiter from now on"});
  if (has_left_all.load()) LeaveAll();  // the program began to exit meanwhile
  LookForBoardsAgain();
  return nullptr;
}

// Publishes the board to Of. Called before anything is launched under it: who may ask decides whether launches get
// gates.
void GpuBoard::Take() noexcept {
  LookWhoMayAsk();
  OpenPlan();
  boards[device_].store(this, std::memory_order_release);
  if (StandsAside()) TakeAbilitiesAway();  // a tool may have come after the join
}

void GpuBoard::OpenPlan() noexcept {
  char name[128] = {};
  const auto get_name = CUPOLA_CALL_REAL(cuDeviceGetName, PFN_cuDeviceGetName_v2000);
  if (get_name(name, sizeof(name) - 1, device_) != CUDA_SUCCESS) return;
  const std::string path = models::PlanPath(models::GpuFileName(name));
  if (path.empty()) return;
  auto opened = models::PlanFile::Open(path);
  if (opened) {
    plan_.emplace(*std::move(opened));
  } else if (opened.error().code != ErrorCode::kNotFound) {
    Say(Level::kWarn, {"a plan is not used: ", opened.error().ToString()});
  }
}

GpuBoard* GpuBoard::Of(CUdevice device) noexcept {
  if (device < 0 || static_cast<uint32_t>(device) >= kMostDevices) return nullptr;
  if (GpuBoard* known = boards[device].load(std::memory_order_acquire)) return known;
  const MutexLock lock(join_mutex);
  if (was_asked[device]) return boards[device].load(std::memory_order_acquire);
  was_asked[device] = true;
  auto* made = new (std::nothrow) GpuBoard;
  if (made == nullptr) return nullptr;
  made->device_ = device;
  made->sm_count_ = DeviceAttribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  // Set for the clients of an MPS daemon (CUDA MPS documentation, "Environment Variables").
  made->shares_context_ = DeviceAttribute(device, CU_DEVICE_ATTRIBUTE_MPS_ENABLED) != 0;
  // If the join fails `made` is not freed: its thread goes on asking with it.
  if (made->sm_count_ == 0) return nullptr;
  const Joined joined = made->Join();
  if (joined == Joined::kNotYet) (void)StartOwnThread(&GoOnAsking, made, kAskingStackBytes);
  if (joined != Joined::kYes) return nullptr;
  made->Take();
  return made;
}

sched::VariantChoice GpuBoard::VariantFor(const char* kernel) const noexcept {
  return client_.joined() ? client_.VariantFor(kernel) : sched::VariantChoice::kAuto;
}

bool GpuBoard::PublishKernel() noexcept {
  const char* const name = LaunchedName(demand.kernel.load(std::memory_order_relaxed));
  if (name == nullptr || name == kernel_.load(std::memory_order_relaxed) || has_left())
    return false;
  if (publishes_kernel_.test_and_set(std::memory_order_acquire))
    return false;  // another thread is writing it
  kernel_.store(name, std::memory_order_relaxed);
  char text[sizeof(slot_->kernel)] = {};
  strncpy(text, name, sizeof(text) - 1);
  const bool is_news = memcmp(slot_->kernel, text, sizeof(text)) != 0;
  if (is_news) memcpy(slot_->kernel, text, sizeof(text));
  publishes_kernel_.clear(std::memory_order_release);
  return is_news && has_kernel_rules();
}

void GpuBoard::PublishOverhead(uint64_t planned_ns) noexcept {
  planned_ns_.store(planned_ns, std::memory_order_relaxed);
  const uint64_t measured = stop_.ns() + resume_.ns();
  PublishOverheadNs(planned_ns != 0 ? planned_ns : measured);
}

void GpuBoard::PublishOverheadNs(uint64_t overhead_ns) noexcept {
  if (overhead_ns_.exchange(overhead_ns, std::memory_order_relaxed) == overhead_ns) return;
  slot_->overhead_ns.store(overhead_ns, std::memory_order_relaxed);
}

void GpuBoard::PublishStopCost(uint64_t planned_ns) noexcept {
  stop_.Doubt();
  PublishOverhead(planned_ns);
}

void GpuBoard::RecordStopTime(uint64_t ns) noexcept {
  stop_.Learn(ns);
  Count(launch_counters.stops);
  launch_counters.stop_ns.fetch_add(ns, std::memory_order_relaxed);
  PublishOverhead(planned_ns_.load(std::memory_order_relaxed));
}

void GpuBoard::RecordResumeTime(uint64_t ns) noexcept {
  resume_.Learn(ns);
  PublishOverhead(planned_ns_.load(std::memory_order_relaxed));
}

bool GpuBoard::BeginNotNow() noexcept {
  return has_left() || sched::BeginNotNow(board_, index_);  // plant: asked_while_kept
}

void GpuBoard::EndNotNow() noexcept {
  if (!has_left()) sched::EndNotNow(board_, index_);
}

void GpuBoard::WaitWhileHeld(uint64_t timeout_ns) noexcept {
  const uint32_t seen = let_go_.load();
  if (requests() == 0) return;
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  syscall(SYS_futex, &let_go_, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
}

void GpuBoard::WakeHeldThreads() noexcept {
  let_go_.fetch_add(1);
  syscall(SYS_futex, &let_go_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void* GpuBoard::MapAgain() const noexcept {
  // mremap of nothing makes a second mapping of the same shared pages (mremap(2)).
  void* again = mremap(board_.memory(), 0, sched::kBoardBytes, MREMAP_MAYMOVE);
  return again == MAP_FAILED ? nullptr : again;
}

void GpuBoard::Poll(uint64_t now_ns) noexcept {
  if (client_.joined() && !client_.owns_slot()) {
    if (!left_.exchange(true)) Say(Level::kWarn, {"no longer scheduled: the slot is another's"});
    LookWhoMayAsk();
    return;
  }
  const bool daemon_is_well =
      client_.joined() && client_.Poll(now_ns) == sched::DaemonState::kPresent;
  if (!daemon_is_well && requests() != 0) sched::DropStaleRequests(board_, index_, OnBoard(now_ns));
  LookWhoMayAsk();
}

// `decisions` is read first, so that a decision that comes while we look makes the next caller look
// again.
void GpuBoard::LookWhoMayAsk() const noexcept {
  const uint32_t decisions = board_.header().decisions.load();
  using sched::HeldFor;
  HeldFor who = slot_->may_be_held.load(std::memory_order_relaxed);
  const int32_t priority = slot_->priority.load(std::memory_order_relaxed);
  const uint32_t used = board_.header().used_slots.load(std::memory_order_relaxed);
  const uint32_t slots = used != 0 && used < sched::kBoardSlots ? used : sched::kBoardSlots;
  for (uint32_t i = 0; i < slots && who != HeldFor::kAnyone; ++i) {
    const sched::BoardSlot& other = board_.slot(i);
    if (i == index_ || !other.may_take.Has(index_)) continue;
    who = other.priority.load(std::memory_order_relaxed) == priority ? HeldFor::kEquals
                                                                     : HeldFor::kAnyone;
  }
  if (requests() != 0) who = HeldFor::kAnyone;
  if (has_left()) who = HeldFor::kNobody;
  who_may_ask_.store(who, std::memory_order_relaxed);
  decisions_.store(decisions, std::memory_order_relaxed);
}

void GpuBoard::ForgetAllAfterFork() noexcept {
  join_mutex = PTHREAD_MUTEX_INITIALIZER;
  has_left_all.store(false);
  for (uint32_t i = 0; i < kMostDevices; ++i) {
    if (GpuBoard* board = boards[i].load()) board->client_.ForgetAfterFork();
    boards[i].store(nullptr);
    was_asked[i] = false;
  }
}

void GpuBoard::LeaveAll() noexcept {
  has_left_all.store(true);
  for (auto& entry : boards) {
    if (GpuBoard* board = entry.load()) {
      if (!board->client_.joined()) continue;
      // First, so that no thread begins demand on a slot that may already belong to another process.
      board->left_.store(true);
      board->client_.LeaveMapped();
      sched::WakeAgent(board->slot());
    }
  }
}

void GpuBoard::DropRequestsAfterLeaving() noexcept {
  const bool is_ours = slot_->state.load() == static_cast<uint32_t>(sched::SlotState::kLeft) &&
                       client_.owns_slot();
  if (!is_ours || slot_->yield_requests.load() == 0) return;
  sched::ForgetRequests(*slot_);
}

}  // namespace cupola::intercept
