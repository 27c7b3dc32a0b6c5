#include "device/sim/token/token.h"

#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <string>

#include "base/standard_error.h"

namespace cupola::sim {
namespace {

// The longest pause between two kernels of a busy program.
constexpr uint64_t kGraceNs = 50'000;
constexpr uint64_t kPatienceNs = 100'000'000;

}  // namespace

Token::~Token() {
  if (!has_thread_) return;
  stop_ = true;
  gate_.Interrupt();
  OnQuiet();
  pthread_join(thread_, nullptr);
}

TokenCounters Token::counters() const {
  return {slices_, handovers_, waited_ns_, held_ns_, recoveries_, evictions_, unshared_};
}

void Token::OnDemand() {
  // Not std::call_once, which would give the thread of every SM thread-local memory of the library.
  if (started_.exchange(true)) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto run = [](void* self) -> void* {
    static_cast<Token*>(self)->Run();
    return nullptr;
  };
  has_thread_ = pthread_create(&thread_, nullptr, run, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!has_thread_) FailOpen("no thread for the token");
}

void Token::OnQuiet() {
  if (TokenQueue* queue = queue_) queue->Ring();
}

void Token::FailOpen(const std::string& why) {
  const std::string line =
      "cupola simulated device: " + why + "; not shared with other processes\n";
  WriteToStandardError(line.data(), line.size());
  gate_.Open();
}

void Token::Run() {
  pthread_setname_np(pthread_self(), "cupola-token");
  prctl(PR_SET_TIMERSLACK, 1ul);  // nanoseconds
  auto mapping = TokenMapping::Open(options_.path);
  if (!mapping) return FailOpen(mapping.error().ToString());
  mapping_.emplace(std::move(mapping.value()));
  storage_.emplace(mapping_->get(), &stop_);
  queue_ = &*storage_;
  if (!TakeTurns(*storage_)) FailOpen(options_.path + ": is damaged, or its lock is stuck");
}

bool Token::TakeTurns(TokenQueue& queue) {
  bool is_usable = true;
  while (is_usable && gate_.WaitForDemand()) {
    const uint64_t asked_ns = MonotonicNs();
    TokenQueue::Outcome outcome = queue.Join();
    if (outcome == TokenQueue::Outcome::kFull) {
      RunUnshared();
      continue;
    }
    if (outcome == TokenQueue::Outcome::kDone) outcome = queue.Wait();
    recoveries_ = queue.recoveries();
    evictions_ = queue.evictions();
    if (outcome == TokenQueue::Outcome::kDone) is_usable = Hold(queue, asked_ns);
    if (outcome == TokenQueue::Outcome::kUnusable) is_usable = false;
  }
  return is_usable;
}

bool Token::Hold(TokenQueue& queue, uint64_t asked_ns) {
  SharedToken::Totals& totals = (*mapping_)->totals;
  const auto count = [](std::atomic<uint64_t>& mine, std::atomic<uint64_t>& all, uint64_t more) {
    mine.fetch_add(more);
    all.fetch_add(more);
  };
  const uint64_t taken_ns = MonotonicNs();
  count(slices_, totals.slices, 1);
  count(waited_ns_, totals.waited_ns, taken_ns - asked_ns);
  gate_.Open();
  bool has_waiters = false;
  const bool is_usable = AwaitDemandOfOthers(queue, &has_waiters);
  if (has_waiters) AwaitEndOfSlice(queue, taken_ns + options_.slice_ns);
  gate_.Close();
  AwaitQuiet(queue);
  count(held_ns_, totals.held_ns, MonotonicNs() - taken_ns);
  if (has_waiters) count(handovers_, totals.handovers, 1);
  return queue.Leave() == TokenQueue::Outcome::kDone && is_usable;
}

// Whoever rings the bell makes the reason for it true before. So the loops below first read the
// bell, then check the reasons, then wait for the bell to change; they miss no ring.

/// Waits until another process wants the device. Also returns when others removed this process from
/// the queue, or the token ends. False when the shared memory is not usable.
bool Token::AwaitDemandOfOthers(TokenQueue& queue, bool* has_waiters) {
  while (true) {
    const uint32_t bell = queue.bell();
    if (stop_ || queue.is_evicted()) return true;
    if (queue.CheckWaiters(has_waiters) != TokenQueue::Outcome::kDone) return false;
    if (*has_waiters) return true;
    queue.WaitForBell(bell, 0);
  }
}

void Token::AwaitEndOfSlice(TokenQueue& queue, uint64_t deadline_ns) {
  gate_.CloseAt(deadline_ns);
  while (true) {
    const uint32_t bell = queue.bell();
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns || gate_.is_closed() || stop_ || queue.is_evicted()) return;
    if (!gate_.is_quiet()) {
      queue.WaitForBell(bell, deadline_ns);
      continue;
    }
    // A stream that is only between two kernels comes back within this time. A process that has
    // nothing to do gives up the rest of its slice.
    const uint64_t grace_ns = std::min(deadline_ns, now_ns + kGraceNs);
    while (gate_.is_quiet() && MonotonicNs() < grace_ns) queue.WaitForBell(queue.bell(), grace_ns);
    if (gate_.is_quiet()) return;
  }
}

void Token::AwaitQuiet(TokenQueue& queue) {
  while (true) {
    const uint32_t bell = queue.bell();
    if (gate_.is_quiet()) return;
    queue.WaitForBell(bell, MonotonicNs() + kPatienceNs);
  }
}

/// For a full queue: runs one slice at the same time as the process that has the device.
void Token::RunUnshared() {
  unshared_.fetch_add(1);
  (*mapping_)->totals.unshared.fetch_add(1);
  const uint64_t deadline_ns = MonotonicNs() + options_.slice_ns;
  gate_.Open();
  gate_.CloseAt(deadline_ns);
  const timespec pause{0, 100'000};
  while (!stop_ && (!gate_.is_closed() || !gate_.is_quiet())) {
    if (MonotonicNs() >= deadline_ns) gate_.Close();
    nanosleep(&pause, nullptr);
  }
}

}  // namespace cupola::sim
