#include "sched/daemon/deciding_class.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <fmt/format.h>

#include "sched/board/yield_protocol.h"

namespace cupola::sched {
namespace {

// The lowest real-time priority: before all ordinary threads, behind every real-time thread of the operator.
constexpr int kRealTimePriority = 1;
// The nice value that a thread asks for where it gets no real-time priority.
constexpr int kWantedNice = -10;
constexpr uint64_t kSliceNs = 100'000;  // the shortest that the system gives (Linux 6.12, sched_setattr(2))
constexpr uint64_t kResetOnFork = 1;    // SCHED_FLAG_RESET_ON_FORK
// The shortest rest (ns) that End orders. A shorter sleep may be over before the thread sleeps; the kernel would then
// go on counting its run (RLIMIT_RTTIME).
constexpr uint64_t kShortestRestNs = 20'000;

/// struct sched_attr of sched_setattr(2), in its first version. Not every libc has it, and kernel and libc headers that
/// have it cannot be included together. As constructed it describes an ordinary thread. For SCHED_OTHER `runtime_ns` is
/// the time slice, and `priority` is for the real-time policies.
struct Attributes {
  uint32_t size = sizeof(Attributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = kResetOnFork;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
};
static_assert(sizeof(Attributes) == 48);

/// Sets the attributes of the calling thread. False, with errno: the system refuses.
bool Set(Attributes attributes) {
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

/// The attributes of the calling thread. Where the system does not tell, those of an ordinary thread.
Attributes Get() {
  Attributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) attributes = Attributes{};
  return attributes;
}

/// The processor time that the calling thread has taken so far, in ns (CLOCK_THREAD_CPUTIME_ID, clock_gettime(2)).
uint64_t ProcessorTimeNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

bool IsRealTime(uint32_t policy) { return policy == SCHED_FIFO || policy == SCHED_RR; }

// The thread numbers (gettid(2)) of the deciding threads of this process, for the handler of SIGXCPU; 0 = the entry is
// free. A thread for which no entry was free takes no real-time priority.
constexpr int kMostWatched = 128;
std::atomic<int> watched[kMostWatched];
std::atomic<uint64_t> stops{0};  // how often the handler has taken the class away
constexpr char kStopped[] = "a deciding thread ran too long without a sleep";

// The handler of SIGXCPU: makes all deciding threads ordinary ones, because the signal does not say which of them ran
// too long. The threads learn of it by `stops` when they next begin to work (Begin). Async-signal-safe: it uses only
// atomics and a system call.
void GiveUpClass(int) {
  const int saved = errno;
  const Attributes ordinary;
  for (const std::atomic<int>& thread : watched) {
    if (const int number = thread.load(); number != 0) syscall(SYS_sched_setattr, number, &ordinary, 0);
  }
  stops.fetch_add(1);
  errno = saved;
}

/// Sets the limits and the handler of SIGXCPU, for the whole process; may be called again. RLIMIT_RTTIME counts
/// microseconds of processor time at a real-time priority without a sleep. False: nothing would stop a thread that
/// never rests, so no thread may take a real-time priority.
bool SetGuard() {
  rlimit limit{};
  // SIGXCPU is to mean RLIMIT_RTTIME only, so the soft limit of RLIMIT_CPU, which sends it too, is raised.
  if (getrlimit(RLIMIT_CPU, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CPU, &limit);
  }
  if (getrlimit(RLIMIT_RTTIME, &limit) != 0) return false;
  // Limits are only lowered, because an operator may have set lower ones.
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, DecidingClass::kMostRunUs);
  limit.rlim_cur = std::min({limit.rlim_cur, limit.rlim_max, rlim_t{DecidingClass::kLongestRunUs}});
  if (setrlimit(RLIMIT_RTTIME, &limit) != 0) return false;
  struct sigaction handler {};
  handler.sa_handler = &GiveUpClass;
  handler.sa_flags = SA_RESTART;
  sigemptyset(&handler.sa_mask);
  return sigaction(SIGXCPU, &handler, nullptr) == 0;
}

/// Enters the thread into `watched`. Returns its entry; -1 = none was free.
int Watch(int thread) {
  for (int i = 0; i < kMostWatched; ++i) {
    int none = 0;
    if (watched[i].compare_exchange_strong(none, thread)) return i;
  }
  return -1;
}

/// The soft limit (getrlimit(2)); 0 where it cannot be read.
uint64_t LimitOf(decltype(RLIMIT_NICE) which) {
  rlimit limit{};
  return getrlimit(which, &limit) == 0 ? limit.rlim_cur : 0;
}

/// Why a real-time priority was refused, with what the operator may look at.
std::string WhyNot(int error) {
  if (error != EPERM) return fmt::format("a real-time priority is refused: {}", std::strerror(error));
  const uint64_t most = LimitOf(RLIMIT_RTPRIO);
  if (most < kRealTimePriority) {
    return "no real-time priority is allowed (RLIMIT_RTPRIO is 0, and the daemon lacks CAP_SYS_NICE)";
  }
  return "a real-time priority is refused although RLIMIT_RTPRIO allows one (its control group has no real-time "
         "share, or a filter of system calls forbids it)";
}

ClassStatus StatusOf(const Attributes& attributes, std::string why) {
  ClassStatus status;
  const bool is_real_time = IsRealTime(attributes.policy);
  switch (attributes.policy) {
    case SCHED_FIFO: status.policy = "SCHED_FIFO"; break;
    case SCHED_RR: status.policy = "SCHED_RR"; break;
    case SCHED_OTHER: status.policy = "SCHED_OTHER"; break;
    case SCHED_BATCH: status.policy = "SCHED_BATCH"; break;
    case SCHED_IDLE: status.policy = "SCHED_IDLE"; break;
    default: status.policy = fmt::format("policy {}", attributes.policy);
  }
  status.priority = is_real_time ? static_cast<int>(attributes.priority) : 0;
  status.nice = is_real_time ? 0 : attributes.nice;
  // A system without time slices for single threads says 0, or some value that was set and has no meaning.
  status.slice_us = !is_real_time && attributes.policy == SCHED_OTHER ? attributes.runtime_ns / 1000 : 0;
  status.why = std::move(why);
  return status;
}

/// Gives the calling thread the short time slice and the lowest nice value that it may have, down to kWantedNice; where
/// no lower nice value than that of `started` is allowed, only the slice. False: nothing could be set.
bool TakeNice(const Attributes& started) {
  Attributes wanted;
  wanted.nice = std::min<int32_t>(started.nice, kWantedNice);
  wanted.runtime_ns = kSliceNs;
  if (Set(wanted)) return true;
  // RLIMIT_NICE is 20 less the lowest allowed nice value (setrlimit(2)).
  const auto allowed = 20 - static_cast<int64_t>(std::min<uint64_t>(LimitOf(RLIMIT_NICE), 40));
  wanted.nice = static_cast<int32_t>(std::clamp<int64_t>(allowed, wanted.nice, started.nice));
  if (wanted.nice < started.nice && Set(wanted)) return true;
  wanted.nice = started.nice;
  return Set(wanted);
}

/// The attributes with which the process was started: those of the thread that first called this, which is the one that
/// made the DecidingClass.
const Attributes& Started() {
  static const Attributes started = Get();
  return started;
}

/// Gives the calling thread what the process was started with.
ClassStatus TakeStarted() {
  Attributes back = Started();
  back.flags |= kResetOnFork;
  const bool was_real_time = IsRealTime(back.policy);
  if (was_real_time) (void)SetGuard();
  std::string why;
  if (!Set(back)) {
    why = was_real_time ? WhyNot(errno)
                        : fmt::format("what the daemon was started with is refused: {}", std::strerror(errno));
  }
  ClassStatus status = StatusOf(Get(), std::move(why));
  status.name = status.priority != 0 ? "real-time" : "ordinary";
  return status;
}

/// Gives the calling thread what it is to have after a guard has taken the class away: what the process was started
/// with, or an ordinary priority where that was a real-time one.
ClassStatus TakeAfterStop() {
  ClassStatus status;
  if (IsRealTime(Started().policy)) {
    (void)Set(Attributes{});  // lowering is always allowed
    status = StatusOf(Get(), "");
  } else {
    status = TakeStarted();
  }
  status.name = "ordinary";
  status.why = kStopped;
  return status;
}

/// Gives the calling thread the class, or where that is refused the next lower one, and returns what it has then.
/// `is_watched`: the thread is in the table of the signal handler.
ClassStatus Take(ClassChoice choice, bool is_watched) {
  const Attributes started = Started();
  // Where an operator gave the whole daemon a real-time priority, that choice stands, whichever class is wanted.
  if (IsRealTime(started.policy) || choice == ClassChoice::kOrdinary) return TakeStarted();
  std::string why;
  if (choice == ClassChoice::kAuto) {
    Attributes wanted;
    wanted.policy = SCHED_FIFO;
    wanted.priority = kRealTimePriority;
    if (!is_watched || !SetGuard()) {
      why = "there is no guard for a real-time priority";
    } else if (Set(wanted)) {
      ClassStatus status = StatusOf(Get(), "");
      status.name = "real-time";
      return status;
    } else {
      why = WhyNot(errno);
    }
  }
  const bool is_set = TakeNice(started);
  ClassStatus status = StatusOf(Get(), std::move(why));
  const bool has_any = status.nice < started.nice || (status.slice_us != 0 && status.slice_us <= kSliceNs / 1000);
  status.name = is_set && has_any ? "nice" : "ordinary";
  if (status.nice >= started.nice && status.nice > kWantedNice) {
    status.why += fmt::format("{}a nice value below {} is not allowed either (RLIMIT_NICE)",
                              status.why.empty() ? "" : "; ", started.nice);
  }
  return status;
}

}  // namespace

DecidingClass::DecidingClass(ClassChoice choice) : choice_(choice) { (void)Started(); }

void DecidingClass::Choose(ClassChoice choice) {
  choice_.store(choice);
  stops_before_.store(stops.load());
  choices_.fetch_add(1);
}

const char* DecidingClass::NameOf(ClassChoice choice) {
  switch (choice) {
    case ClassChoice::kAuto: return "auto";
    case ClassChoice::kNice: return "nice";
    case ClassChoice::kOrdinary: return "ordinary";
  }
  return "auto";
}

uint64_t DecidingClass::Stops() { return stops.load(); }

bool DecidingClass::was_stopped() const { return stops.load() != stops_before_.load(); }

ClassStatus DecidingClass::Probe() {
  ClassStatus status;
  try {
    std::thread([&] {
      Thread thread(*this);
      thread.Begin();
      status = thread.status();
      (void)thread.End(BoardClockNs());
    }).join();
  } catch (const std::system_error& error) {
    status.why = fmt::format("there is no thread to try it with: {}", error.what());
  }
  return status;
}

std::string DecidingClass::Describe(const ClassStatus& status) {
  if (status.name == "real-time") {
    return fmt::format("decisions are made at a real-time priority ({} {}), with half a processor at most",
                       status.policy, status.priority);
  }
  std::string text = status.name == "nice" ? fmt::format("decisions are made at nice {}", status.nice)
                                           : std::string("decisions are made at the daemon's ordinary priority");
  if (status.name == "nice" && status.slice_us != 0) text += fmt::format(", in slices of {} us", status.slice_us);
  return status.why.empty() ? text : text + ": " + status.why;
}

DecidingClass::Thread::Thread(DecidingClass& shared)
    : shared_(shared), charged_ns_(ProcessorTimeNs()), entry_(Watch(static_cast<int>(syscall(SYS_gettid)))) {}

DecidingClass::Thread::~Thread() {
  if (entry_ >= 0) watched[entry_].store(0);
}

void DecidingClass::Thread::Begin() {
  const uint32_t choices = shared_.choices_.load();
  const uint64_t stops_now = stops.load();
  if (choices == known_choices_ && stops_now == known_stops_) return;
  known_choices_ = choices;
  known_stops_ = stops_now;
  charged_ns_ = ProcessorTimeNs();  // the time that the thread took in another class is not charged to the budget
  status_ = shared_.was_stopped() ? TakeAfterStop() : Take(shared_.choice_.load(), entry_ >= 0);
}

uint64_t DecidingClass::Thread::End(uint64_t now_ns) {
  if (status_.priority == 0) return 0;  // the budget is only for threads at a real-time priority
  const uint64_t used_ns = ProcessorTimeNs();
  const uint64_t rest_ns = shared_.budget_.Spend(used_ns - std::exchange(charged_ns_, used_ns), now_ns);
  if (rest_ns == 0) return 0;
  shared_.rests_.fetch_add(1, std::memory_order_relaxed);
  return std::max(rest_ns, kShortestRestNs);
}

}  // namespace cupola::sched
