#include "sched/daemon/gpu_arbiter.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "sched/daemon/process_facts.h"
#include "sched/daemon/process_names.h"

namespace cupola::sched {
namespace {

// The limit of one user's boards on one GPU, because each board costs a thread. A user has more than one board only
// where earlier daemons ended while programs went on.
constexpr auto kMostBoardsOfUser = 8;

std::atomic<uint64_t> admissions{0};  // number of admissions of this daemon, on all GPUs

template <typename T>
uint32_t Number(T value) {
  return static_cast<uint32_t>(value);
}

}  // namespace

void ProcessIdentity::TakeNames(ProcessNames names) {
  if (!names.executable.empty()) executable = std::move(names.executable);
  started_as = std::move(names.started_as);
  script = std::move(names.script);
  cgroup = std::move(names.cgroup);
  container = std::move(names.container);
}

GpuArbiter::Client* GpuArbiter::Board::FindSlot(uint32_t slot) {
  for (Client& client : clients) {
    if (client.slot == slot) return &client;
  }
  return nullptr;
}

GpuArbiter::GpuArbiter(std::string uuid, const GpuOptions& options, const SettingsSource* source,
                       const Surroundings& system, DecidingClass* deciding)
    : uuid_(std::move(uuid)),
      source_(source),
      system_(system),
      deciding_(deciding),
      exits_(epoll_create1(EPOLL_CLOEXEC)),
      news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      options_(options),
      core_(MakePolicy(options.policy, options.policy_options), options.preemption_overhead_ns) {
  core_.SetSwitchTime(options.context_switch_ns);
  epoll_event event{};
  event.events = EPOLLIN;
  if (news_ >= 0) epoll_ctl(exits_, EPOLL_CTL_ADD, news_, &event);
}

// The clients find no daemon and no request of its own, and go on by their standing decisions.
GpuArbiter::~GpuArbiter() {
  stop_ = true;
  for (const auto& board : boards_) {
    RingBell(board->memory.view().header());
    if (board->bell.joinable()) board->bell.join();
  }
  for (const auto& board : boards_) {
    const BoardView view = board->memory.view();
    view.header().attention = 0;
    view.header().daemon_pid = 0;
    for (const Client& client : board->clients) {
      view.slot(client.slot).paused = 0;
      ClearRequest(view, client.slot, kDaemonBit);
      if (client.pidfd >= 0) close(client.pidfd);
    }
  }
  if (news_ >= 0) close(news_);
  close(exits_);
}

GpuArbiter::Board* GpuArbiter::NewBoard(BoardMemory memory, uint32_t uid) {
  auto board = std::make_unique<Board>();
  board->memory = std::move(memory);
  board->uid = uid;
  BoardHeader& header = board->memory.view().header();
  header.bell_sleepers = 0;
  header.daemon_uid = Number(geteuid());
  header.clock_namespace = ClockNamespace();
  header.daemon_beat_ns = system_.NowNs();
  header.daemon_pid = Number(getpid());
  Board* made = board.get();
  try {
    if (system_.HasThreads()) made->bell = std::thread([this, made] { ListenToBell(*made); });
  } catch (const std::system_error& error) {
    spdlog::warn("no thread for a board: {}", error.what());
    header.daemon_pid = 0;
    errno = error.code().value();
    return nullptr;
  }
  boards_.push_back(std::move(board));
  return made;
}

GpuArbiter::Board* GpuArbiter::BoardFor(uint32_t uid) {
  for (const auto& board : boards_) {
    if (board->uid == uid) return board.get();
  }
  BoardMemory memory = BoardMemory::Create(uuid_.c_str());
  if (memory) return NewBoard(std::move(memory), uid);
  const int reason = errno;
  spdlog::warn("a board cannot be made: {}", std::strerror(reason));
  errno = reason;
  return nullptr;
}

void GpuArbiter::Apply(Board& board, Client& client) {
  const ClientSettings settings = source_->SettingsFor(client.process, client.kernel);
  core_.Configure(client.id, settings);
  BoardSlot& slot = board.memory.view().slot(client.slot);
  slot.priority = settings.priority;
  slot.weight = settings.weight;
  slot.latency_bound_ns = settings.latency_bound_ns;
  slot.has_kernel_rules = source_->HasKernelRules(client.process) ? 1 : 0;
  slot.paused = settings.paused ? 1 : 0;
}

void GpuArbiter::AddClient(Board& board, uint32_t slot, const ProcessIdentity& process) {
  Client client;
  client.slot = slot;
  client.process = process;  // plant: a_record_for_each
  client.id = core_.Join({});
  client.pidfd = system_.OpenExit(process.pid);
  client.is_watched = client.pidfd >= 0 && !system_.HasEnded(process.pid, process.start);
  if (client.pidfd >= 0) {
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(exits_, EPOLL_CTL_ADD, client.pidfd, &event);
  }
  board.seats.push_back({client.slot, client.id});
  board.clients.push_back(std::move(client));
  AddPhase(board.clients.back(), ClientPhase::kIdle, system_.NowNs(), /*with_name=*/true);
  Apply(board, board.clients.back());
}

void GpuArbiter::RemoveClient(Board& board, size_t index) {
  Client& client = board.clients[index];
  AddPhase(client, ClientPhase::kAbsent, system_.NowNs());
  core_.Leave(client.id);
  FreeSlot(board.memory.view(), client.slot);
  if (client.pidfd >= 0) close(client.pidfd);  // the last descriptor; closing it takes it out of the epoll set
  board.clients.erase(board.clients.begin() + static_cast<ptrdiff_t>(index));
  board.seats.erase(board.seats.begin() + static_cast<ptrdiff_t>(index));
}

bool GpuArbiter::IsClient(uint32_t pid) const {
  return std::any_of(boards_.begin(), boards_.end(), [pid](const auto& board) {
    return std::any_of(board->clients.begin(), board->clients.end(),
                       [pid](const Client& client) { return client.process.pid == pid; });
  });
}

void GpuArbiter::RemoveProcess(uint32_t pid, const Board* kept, uint32_t slot) {
  for (const auto& board : boards_) {
    for (size_t i = board->clients.size(); i-- > 0;) {
      const Client& client = board->clients[i];
      if (client.process.pid != pid || (board.get() == kept && client.slot == slot)) continue;
      RemoveClient(*board, i);
    }
  }
}

size_t GpuArbiter::ClientCount() const {
  size_t clients = 0;
  for (const auto& board : boards_) clients += board->clients.size();
  return clients;
}

void GpuArbiter::SetAttention() {
  const size_t clients = ClientCount();
  // A trace is to have the demand of a client that is alone, too.
  const bool is_to_ring = clients > 1 || (clients == 1 && collects_phases_);
  for (const auto& board : boards_) board->memory.view().header().attention = is_to_ring ? 1 : 0;
}

Admission GpuArbiter::Admit(const ProcessIdentity& process, uint32_t capabilities, uint32_t sms,
                            BoardMemory brought, uint32_t slot) {
  const std::lock_guard lock(mutex_);
  if (sms != 0) core_.SetSms(sms);
  if (brought) return TakeOver(process, std::move(brought), slot);
  CollectExitsLocked();
  Board* board = BoardFor(process.uid);
  if (board == nullptr) {
    return {JoinStatus::kFailed, fmt::format("the board cannot be made: {}", std::strerror(errno)), kNoSlot, -1};
  }
  // A process has one slot. One that joins again has become another program (execve) or does not know its slot any
  // more.
  RemoveProcess(process.pid, nullptr, kNoSlot);
  const BoardView view = board->memory.view();
  BoardHeader& header = view.header();
  if (sms != 0) header.sm_count = sms;
  for (uint32_t i = 0; i < kBoardSlots; ++i) {  // plant: room_for_half
    BoardSlot& free = view.slot(i);
    if (free.state != Number(SlotState::kFree) || board->FindSlot(i) != nullptr) continue;
    std::memset(free.name, 0, sizeof(free.name));
    std::strncpy(free.name, FileName(process.executable).c_str(), sizeof(free.name) - 1);
    std::memset(free.kernel, 0, sizeof(free.kernel));
    for (auto* counter : {&free.launches, &free.preemptions, &free.resumes, &free.gpu_ns,
                          &free.between_ns, &free.unstoppable_ns, &free.waited_ns, &free.remaining_ns, &free.overhead_ns}) {
      *counter = 0;
    }
    if (header.used_slots <= i) header.used_slots = i + 1;
    free.pid = process.pid;
    free.uid = process.uid;
    free.process_start = process.start;
    free.capabilities = capabilities;
    free.demand = 0;
    free.stopped = 0;
    free.granted_ns = 0;
    free.granted_demand = 0;
    free.gate = 1;
    AddClient(*board, i, process);
    const uint64_t number = admissions.fetch_add(1) + 1;
    board->clients.back().number = number;
    free.state = Number(SlotState::kLive);  // last: from here on others take what the slot says for the process's
    SetAttention();
    // The client is to find the standing decisions about itself on the board when it joins.
    ReviewLocked(system_.NowNs());
    RingBell(header);
    return {JoinStatus::kAccepted, "", i, board->memory.fd(), number};
  }
  return {JoinStatus::kFull,
          fmt::format("all {} places on the board are taken", kBoardSlots), kNoSlot, -1};
}

// The first process that brings a board makes this daemon take it over, with all other live slots on it (AdoptSlots).
// Processes that bring the same board later are known by its inode; they add what only they can say of themselves.
Admission GpuArbiter::TakeOver(const ProcessIdentity& process, BoardMemory brought, uint32_t slot) {
  Board* board = nullptr;
  for (const auto& known : boards_) {
    if (known->memory.inode() == brought.inode()) board = known.get();
  }
  if (slot >= kBoardSlots || brought.view().slot(slot).pid != process.pid ||
      brought.view().slot(slot).state != Number(SlotState::kLive)) {
    return {JoinStatus::kNoBoard, "the board that it brought has no slot of this process", kNoSlot,
            -1};
  }
  if (board != nullptr && board->uid != process.uid) {
    return {JoinStatus::kForeignUser, "the board that it brought belongs to another user", kNoSlot,
            -1};
  }
  if (board == nullptr) {
    if (std::strncmp(brought.view().header().gpu_uuid, uuid_.c_str(),
                     sizeof(BoardHeader::gpu_uuid)) != 0) {
      return {JoinStatus::kNoBoard, "the board that it brought is another GPU's", kNoSlot, -1};
    }
    const auto boards = std::count_if(boards_.begin(), boards_.end(), [&](const auto& known) {
      return known->uid == process.uid;
    });
    if (boards >= kMostBoardsOfUser) {
      return {JoinStatus::kNoBoard,
              fmt::format("user {} has brought too many boards", process.user), kNoSlot, -1};
    }
    const uint64_t clock = brought.view().header().clock_namespace;
    const bool is_same_clock = clock == 0 || clock == ClockNamespace();
    board = NewBoard(std::move(brought), process.uid);
    if (board == nullptr) return {JoinStatus::kFailed, "there is no thread for it", kNoSlot, -1};
    RemoveProcess(process.pid, nullptr, kNoSlot);
    AddClient(*board, slot, process);
    AdoptSlots(*board, process.user, is_same_clock);
  }
  RemoveProcess(process.pid, board, slot);
  Client* client = board->FindSlot(slot);
  if (client == nullptr) {
    AddClient(*board, slot, process);
    client = board->FindSlot(slot);
  }
  client->process = process;  // what AdoptSlots knew of it lacks the label and how it was started
  AddPhase(*client, client->phase, system_.NowNs(), /*with_name=*/true);
  Apply(*board, *client);
  SetAttention();
  RingBell(board->memory.view().header());
  return {JoinStatus::kAccepted, "", slot, board->memory.fd()};
}

// Takes over the other slots of a board that an earlier daemon left, and frees those that belong to no process. Their
// processes will bring the board as well, each in its own time, unless they are stopped or have ended. What the board
// says is only the word of the process that brought it, so only processes of that user are taken over, and each only
// once. The start time of a process is another number in another time namespace (proc(5)), and is not compared where
// the earlier daemon was in another one.
void GpuArbiter::AdoptSlots(Board& board, const std::string& user, bool is_same_clock) {
  const BoardView view = board.memory.view();
  for (uint32_t i = 0; i < kBoardSlots; ++i) {
    BoardSlot& slot = view.slot(i);
    const uint32_t pid = slot.pid;
    if (slot.state == Number(SlotState::kFree) || board.FindSlot(i) != nullptr) continue;
    const std::optional<uint64_t> start = system_.StartOf(pid);
    if (slot.state == Number(SlotState::kLive) && start && (*start == slot.process_start || !is_same_clock) &&
        system_.UserOf(pid) == board.uid && !IsClient(pid)) {
      ProcessIdentity process{.pid = pid, .uid = board.uid, .start = *start, .user = user};
      process.TakeNames(NamesOf(pid, {}));
      AddClient(board, i, process);
    } else {
      FreeSlot(view, i);  // plant: dead_taken_over
    }
  }
}

void GpuArbiter::Withdraw(uint64_t number) {
  const std::lock_guard lock(mutex_);
  for (const auto& board : boards_) {
    for (size_t i = board->clients.size(); i-- > 0;) {
      const Client& client = board->clients[i];
      if (client.number != number) continue;
      spdlog::info("process {} ({}) has not waited for its place", client.process.pid, client.process.executable);
      RemoveClient(*board, i);
      RingBell(board->memory.view().header());
    }
  }
  SetAttention();
}

void GpuArbiter::Reconfigure(const GpuOptions& options) {
  const std::lock_guard lock(mutex_);
  options_ = options;
  core_.SetPolicy(MakePolicy(options.policy, options.policy_options));
  core_.SetDefaultOverhead(options.preemption_overhead_ns);
  core_.SetSwitchTime(options.context_switch_ns);
  for (const auto& board : boards_) {
    for (Client& client : board->clients) Apply(*board, client);  // plant: rules_of_yesterday
    RingBell(board->memory.view().header());
  }
}

template <typename Each>
void GpuArbiter::ForEachOf(uint32_t pid, std::optional<uint32_t> uid, Each&& each) {
  for (const auto& board : boards_) {
    for (Client& client : board->clients) {
      const bool is_its = client.process.pid == pid && client.process.uid == uid.value_or(client.process.uid);
      if (is_its) each(*board, client);
    }
  }
}

std::optional<ProcessIdentity> GpuArbiter::FindProcess(uint32_t pid, std::optional<uint32_t> uid) {
  const std::lock_guard lock(mutex_);
  std::optional<ProcessIdentity> found;
  ForEachOf(pid, uid, [&](Board&, const Client& client) {
    if (!found) found = client.process;
  });
  return found;
}

std::optional<uint32_t> GpuArbiter::CapabilitiesOf(uint32_t pid, std::optional<uint32_t> uid) {
  const std::lock_guard lock(mutex_);
  std::optional<uint32_t> all;
  ForEachOf(pid, uid, [&](Board& board, const Client& client) {
    all = all.value_or(0) | board.memory.view().slot(client.slot).capabilities;
  });
  return all;
}

void GpuArbiter::SettingsChanged(uint32_t pid) {
  const std::lock_guard lock(mutex_);
  ForEachOf(pid, std::nullopt, [this](Board& board, Client& client) {
    Apply(board, client);
    RingBell(board.memory.view().header());
  });
}

void GpuArbiter::CollectExits() {
  std::vector<std::string> notes;
  {
    const std::lock_guard lock(mutex_);
    uint64_t count = 0;
    if (news_ >= 0) (void)!read(news_, &count, sizeof(count));
    CollectExitsLocked();
    notes.swap(notes_);
  }
  for (const std::string& note : notes) spdlog::info("{}", note);
}

// A pidfd belongs to the process that had the pid when it was opened. AddClient checked right after opening it that
// this is the client (is_watched). Where there is no pidfd or that check failed, the system is asked each time, which
// takes long for many processes.
bool GpuArbiter::HasEnded(const Client& client) const {
  pollfd exit{client.pidfd, POLLIN, 0};
  if (client.pidfd >= 0 && poll(&exit, 1, 0) > 0) return true;
  return !client.is_watched && system_.HasEnded(client.process.pid, client.process.start);
}

void GpuArbiter::CollectExitsLocked() {
  for (const auto& board : boards_) {
    bool changed = false;
    for (size_t i = 0; i < board->clients.size();) {
      const Client& client = board->clients[i];
      const bool left =
          board->memory.view().slot(client.slot).state != Number(SlotState::kLive);
      if (!left && !HasEnded(client)) {  // plant: ends_unseen
        ++i;
        continue;
      }
      RemoveGone(*board, i, left);
      changed = true;
    }
    if (changed) RingBell(board->memory.view().header());
  }
  SetAttention();
}

void GpuArbiter::RemoveGone(Board& board, size_t index, bool has_left) {
  const ProcessIdentity& process = board.clients[index].process;
  notes_.push_back(fmt::format("process {} ({}) has {}", process.pid, process.executable, has_left ? "left" : "ended"));
  RemoveClient(board, index);
}

// A deciding thread looks only at what the slots say. Whether processes have ended has to be asked of the system for
// each of them; the Server's thread does that (CollectExits).
void GpuArbiter::CollectLeaversLocked() {
  for (const auto& board : boards_) {
    for (size_t i = board->clients.size(); i-- > 0;) {
      const uint32_t slot = board->clients[i].slot;
      if (board->memory.view().slot(slot).state == Number(SlotState::kLive)) continue;
      RemoveGone(*board, i, /*has_left=*/true);
      RingBell(board->memory.view().header());
    }
  }
  SetAttention();
  CallServer();
}

void GpuArbiter::CallServer() {
  const uint64_t one = 1;
  if (news_ >= 0) (void)!write(news_, &one, sizeof(one));
}

void GpuArbiter::CollectPhases() {
  const std::lock_guard lock(mutex_);
  phases_.reserve(kMostPhases);
  collects_phases_ = true;
}

std::vector<PhaseChange> GpuArbiter::TakePhases() {
  std::vector<PhaseChange> taken;
  taken.reserve(kMostPhases);  // outside the lock, for which the deciding threads wait
  uint64_t lost = 0;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(phases_);
    std::swap(lost, lost_phases_);
  }
  if (lost != 0) spdlog::warn("the trace lacks {} changes of processes on {}: too many at once", lost, uuid_);
  return taken;
}

bool GpuArbiter::HasClients() {
  const std::lock_guard lock(mutex_);
  return std::any_of(boards_.begin(), boards_.end(),
                     [](const auto& board) { return !board->clients.empty(); });
}

bool GpuArbiter::HasBoardOf(uint32_t uid) {
  const std::lock_guard lock(mutex_);
  return std::any_of(boards_.begin(), boards_.end(),
                     [uid](const auto& board) { return board->uid == uid; });
}

}  // namespace cupola::sched
