// How long a client waits for the arbiter's decision. Clients join the board of a running `cupola serve` by the
// product's own BoardClient, without CUDA and without Cupola's library.
//
//   decision_bench busy            wants the GPU all the time, with launches of 10 s as far as it foretells them: works
//                                  for 200 us while it has the GPU, and then begins anew. While it is held it looks at
//                                  its slot without a pause, as no client should.
//   decision_bench load            no client: takes a processor
//   decision_bench probe COUNT     begins short launches, COUNT of them, with a pause of 0.2 to 1.2 ms before each
//   decision_bench wake COUNT      no client: wakes a process of its own, COUNT times, with pauses like the probe's. The
//                                  other one sleeps on a futex as the daemon does on its board's bell, at a real-time
//                                  priority above the daemon's, and does nothing but look at the clock. So this is what
//                                  the machine takes of each decision, whatever the daemon does.
//
// wake prints one JSON object of a list, "woken": for each time the ns from the moment before the waker's system call
// to the moment at which the other process runs. Exit code 77 where no real-time priority is allowed.
//
// busy and load print "ready" and go on until their input ends. probe prints one JSON object of lists, in ns, one entry
// for each launch: "decided", from the moment that the client says that it has work to the daemon's note on the board
// that it has the GPU; "seen", until the client saw that note, which waits for the client's own turn on a processor;
// "in_effect", until all others were asked to yield: by the client itself, where the standing decisions sufficed, else
// by the daemon;
// and the number of launches for which the client had asked all others by the standing decisions before the daemon
// knew of it ("asked_itself"), and of those that were not decided on in 5 s ("late").
#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sched/board/board_client.h"

using namespace cupola::sched;

namespace {

constexpr uint64_t kLeaseNs = 20'000'000'000, kForetoldNs = 10'000'000'000, kWorkNs = 200'000;
constexpr uint64_t kShortNs = 10'000, kLateNs = 5'000'000'000, kSpinNs = 50'000, kNapNs = 50'000;

void Join(BoardClient& client) {
  JoinRequest request;
  request.gpu_uuid = "SIM-0";
  request.executable = "decision_bench";
  request.capabilities = kCanPreempt;
  request.sm_count = 132;
  request.timeout_ms = 60'000;
  if (client.Join(request) == JoinResult::kJoined) return;
  std::fprintf(stderr, "decision_bench: no place on a board: %s\n", client.reason());
  std::exit(2);
}

/// Ends the process with its input.
void SayReady() {
  std::puts("ready");
  std::fflush(stdout);
  std::thread([] {
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    _exit(0);
  }).detach();
}

void Nap(uint64_t ns) {
  const timespec nap{0, static_cast<long>(ns)};
  nanosleep(&nap, nullptr);
}

void SpinUntil(uint64_t until_ns) {
  while (BoardClockNs() < until_ns) __builtin_ia32_pause();
}

/// Waits until is_done() says so, for kLateNs from `begun_ns` on at most: at first without a pause, then with naps.
template <typename IsDone>
void Await(const IsDone& is_done, uint64_t begun_ns) {
  while (!is_done() && BoardClockNs() < begun_ns + kSpinNs) __builtin_ia32_pause();
  while (!is_done() && BoardClockNs() < begun_ns + kLateNs) Nap(kNapNs);
}

uint64_t Begin(BoardClient& client, uint64_t foretold_ns) {
  const uint64_t now_ns = BoardClockNs();
  WakeSleepers(client.board(), BeginDemand(client.board(), client.index(),
                                           {.remaining_ns = foretold_ns, .lease_ns = kLeaseNs}, client.OnBoard(now_ns)));
  return now_ns;
}

[[noreturn]] void BeBusy(BoardClient& client) {
  SayReady();
  for (;;) {
    (void)Begin(client, kForetoldNs);
    const uint32_t demand = client.slot().demand.load();
    // It leaves the GPU when it is asked to, and says so as an agent would.
    for (uint64_t worked_ns = 0, before_ns = BoardClockNs(); worked_ns < kWorkNs;) {
      const bool is_held = client.slot().yield_requests.load() != 0;
      if (client.slot().stopped.load() != (is_held ? 1 : 0)) SetStopped(client.board(), client.index(), is_held);
      const uint64_t now_ns = BoardClockNs();
      if (!is_held && client.slot().granted_demand.load() == demand) worked_ns += now_ns - before_ns;
      before_ns = now_ns;
      __builtin_ia32_pause();
    }
    EndDemand(client.board(), client.index());
  }
}

void Print(const char* name, const std::vector<uint64_t>& values) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%" PRIu64, i == 0 ? "" : ", ", values[i]);
  std::printf("], ");
}

/// Whether every other client with demand has this one's request.
bool HasAskedAll(const BoardClient& client, uint64_t now_ns) {
  for (uint32_t i = 0; i < client.board().header().used_slots.load(); ++i) {
    const BoardSlot& slot = client.board().slot(i);
    if (i == client.index() || !HasDemand(slot, now_ns) || IsAskedBy(slot, client.index())) continue;
    if (slot.yield_requests.load() == 0) return false;  // it runs, and goes on
  }
  return true;
}

void Probe(BoardClient& client, int count) {
  std::mt19937 prng(1);
  std::uniform_int_distribution<uint64_t> pause(200'000, 1'200'000);
  std::vector<uint64_t> decided, seen, in_effect;
  int asked_itself = 0, late = 0;
  for (int i = 0; i < count; ++i) {
    Nap(pause(prng));
    const uint64_t begun_ns = Begin(client, kShortNs);
    BoardSlot& slot = client.slot();
    const uint32_t demand = slot.demand.load();
    const uint64_t asked_ns = BoardClockNs();
    const bool has_asked_all = HasAskedAll(client, client.OnBoard(begun_ns));
    asked_itself += has_asked_all;
    const auto is_decided = [&] { return slot.granted_demand.load() == demand; };
    Await(is_decided, begun_ns);
    const uint64_t now_ns = BoardClockNs();
    if (is_decided()) {
      decided.push_back(slot.granted_ns.load() - client.OnBoard(begun_ns));
      seen.push_back(now_ns - begun_ns);
      in_effect.push_back(has_asked_all ? std::min(decided.back(), asked_ns - begun_ns) : decided.back());
    } else {
      ++late;
    }
    EndDemand(client.board(), client.index());
  }
  std::printf("{");
  Print("decided", decided);
  Print("seen", seen);
  Print("in_effect", in_effect);
  std::printf("\"asked_itself\": %d, \"late\": %d}\n", asked_itself, late);
}

/// What the two processes of `wake` share.
struct Wakes {
  std::atomic<uint32_t> bell;      ///< futex: +1 for each time
  std::atomic<uint32_t> answered;  ///< the bell's number that the sleeper has seen
  std::atomic<uint64_t> woken_ns;  ///< when it saw that, on the board's clock
};

constexpr int kAboveTheDaemon = 2, kSkipped = 77;

[[noreturn]] void SleepAndAnswer(Wakes& wakes) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    const uint32_t seen = wakes.answered.load();
    syscall(SYS_futex, &wakes.bell, FUTEX_WAIT, seen, nullptr, nullptr, 0);
    const uint32_t bell = wakes.bell.load();
    if (bell == seen) continue;
    wakes.woken_ns.store(BoardClockNs());
    wakes.answered.store(bell);
  }
}

int Wake(int count) {
  void* const memory = mmap(nullptr, sizeof(Wakes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  Wakes& wakes = *new (memory) Wakes{};
  const pid_t sleeper = fork();
  if (sleeper == 0) SleepAndAnswer(wakes);
  const sched_param priority{.sched_priority = kAboveTheDaemon};
  if (sleeper < 0 || sched_setscheduler(sleeper, SCHED_FIFO, &priority) != 0) {
    std::fprintf(stderr, "decision_bench: no real-time priority here\n");
    if (sleeper > 0) kill(sleeper, SIGKILL);
    return kSkipped;
  }
  std::mt19937 prng(1);
  std::uniform_int_distribution<uint64_t> pause(200'000, 1'200'000);
  std::vector<uint64_t> woken;
  for (int i = 0; i < count; ++i) {
    Nap(pause(prng));
    const uint64_t begun_ns = BoardClockNs();
    const uint32_t number = wakes.bell.fetch_add(1) + 1;
    syscall(SYS_futex, &wakes.bell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    const auto has_answered = [&] { return wakes.answered.load() == number; };
    Await(has_answered, begun_ns);
    if (has_answered()) woken.push_back(wakes.woken_ns.load() - begun_ns);
  }
  kill(sleeper, SIGKILL);
  waitpid(sleeper, nullptr, 0);
  std::printf("{");
  Print("woken", woken);
  std::printf("\"count\": %d}\n", count);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const role = argc > 1 ? argv[1] : "";
  if (std::strcmp(role, "load") == 0) {
    SayReady();
    SpinUntil(UINT64_MAX);
  }
  if (std::strcmp(role, "wake") == 0 && argc == 3) return Wake(std::atoi(argv[2]));
  const bool is_probe = std::strcmp(role, "probe") == 0 && argc == 3;
  if (!is_probe && std::strcmp(role, "busy") != 0) {
    std::fprintf(stderr, "usage: decision_bench busy | load | probe COUNT | wake COUNT\n");
    return 1;
  }
  BoardClient client;
  Join(client);
  if (!is_probe) BeBusy(client);
  Probe(client, std::atoi(argv[2]));
  client.Leave();
  return 0;
}
