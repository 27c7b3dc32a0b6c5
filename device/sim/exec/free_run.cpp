#include "device/sim/exec/free_run.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "device/sim/token/gate.h"

namespace cupola::sim {
namespace {

// What a grid has started and ended (Run::next, running, fault) is guarded by mutex_. The blocks of an SM, and what
// they use of it, belong to the SM's thread, which needs no lock to run them.

constexpr uint32_t kQuantum = 512;  // warp instructions that a warp executes at most in one turn

// A kernel may wait for seconds, on every SM, for a program that needs a processor itself. Where all warps of an SM
// only wait, its thread sleeps after some time, for a part of the time that they have waited, and looks again for a
// part of the time that it slept: what they wait for is seen late by a quarter of the wait at most, and what only
// seems to be a wait takes nine times as long.
constexpr uint64_t kAwakeNs = 100'000, kLongestSleepNs = 200'000;

/// Names the calling thread. A thread must name only itself: naming another one opens a file in /proc/self/task. If
/// such a file was opened, whoever waits for the process's end spins in the kernel (d_invalidate) until the last
/// thread, which has already ended, gets a processor to release the directory entry. With hundreds of processes at
/// once, most of the time goes there.
void NameThisThread(uint32_t sm) {
  char name[16];
  std::snprintf(name, sizeof(name), "cupola-sm%u", sm);
  pthread_setname_np(pthread_self(), name);
}

/// Lets threads of programs go before the calling thread, which is an SM's, where there are too few processors for all:
/// a kernel may spin on every SM until a program has done something, for which the program needs a processor.
void GoBehindPrograms() {
  constexpr int kNice = 3;  // half the share of a thread of nice 0
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
}

/// A sleep of the calling thread ends when it is to end, not up to 50 us later.
void WakeInTime() { (void)prctl(PR_SET_TIMERSLACK, 1000ul); }

}  // namespace

FreeRun::~FreeRun() {
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return active_ == 0; });
    stop_ = true;
  }
  work_.notify_all();
  for (auto& sm : sms_) sm->thread.join();
}

void FreeRun::Submit(Grid grid, bool cooperative, std::function<void(const Fault*)> done) {
  auto run = std::make_shared<Run>();
  run->cooperative = cooperative;
  run->done = std::move(done);
  run->total = uint64_t{grid.grid.x} * grid.grid.y * grid.grid.z;
  run->needs = BlockResidency(grid);
  run->grid = std::move(grid);
  {
    std::lock_guard lock(mutex_);
    if (sms_.empty()) Start();
    queue_.push_back(run);
    ++active_;
    waiting_ += run->total;
  }
  work_.notify_all();
}

void FreeRun::Start() {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (uint32_t i = 0; i < config_.sm_count; ++i) {
    auto sm = std::make_unique<Sm>();
    sm->index = i;
    sms_.push_back(std::move(sm));
  }
  for (auto& sm : sms_) {
    Sm* self = sm.get();
    sm->thread = std::thread([this, self] {
      NameThisThread(self->index);
      GoBehindPrograms();
      WakeInTime();
      Loop(*self);
    });
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

std::shared_ptr<FreeRun::Run> FreeRun::TakeBlock(Sm& sm, uint64_t* block) {
  for (auto it = queue_.begin(); it != queue_.end(); ++it) {
    const std::shared_ptr<Run> run = *it;
    if (!Fits(config_, sm.used, run->needs)) {
      // Grids behind a cooperative grid must not take the room for which its blocks wait: they must all be resident.
      if (run->cooperative) return nullptr;
      continue;
    }
    *block = run->next++;
    ++run->running;
    --waiting_;
    if (run->next == run->total) queue_.erase(it);
    return run;
  }
  return nullptr;
}

bool FreeRun::Admit(Sm& sm, MemoryView* view) {
  uint64_t number = 0;
  std::shared_ptr<Run> run;
  {
    std::unique_lock lock(mutex_);
    if (sm.blocks.empty()) {
      work_.wait(lock, [&] {
        if (stop_) return true;
        return (run = TakeBlock(sm, &number)) != nullptr;
      });
    } else {
      run = TakeBlock(sm, &number);
    }
    if (!run) return !stop_;
  }
  const Dim3 index = BlockIndex(run->grid.grid, number);
  sm.used.Add(run->needs);
  sm.blocks.push_back({run, MakeBlock(machine_, run->grid, index, sm.index, view)});
  return true;
}

FreeRun::Pass FreeRun::RunWarps(Sm& sm) {
  bool busy = false, only_waits = true;
  for (Resident& resident : sm.blocks) {
    Block& block = *resident.block;
    bool ran = false;
    for (auto& warp : block.warps) {
      if (warp->live == 0 || block.fault || resident.run->stopped.load(std::memory_order_relaxed))
        continue;
      // While this thread waited at the gate, the program may have allocated or freed memory.
      if (config_.gate != nullptr && config_.gate->Pause()) warp->view->Refresh();
      if (warp->StillAwaits()) {
        ran = true;
        continue;
      }
      warp->rested = false;
      if (StepWarp(*warp, kQuantum) == StepResult::kBlocked) continue;
      ran = true;
      busy |= !warp->rested;
      only_waits &= warp->waits;
    }
    // Every live warp waits for threads of its own block, so no warp will ever go on.
    if (!ran && !block.fault && block.live_threads != 0 && !resident.run->stopped) {
      block.RaiseDeadlock();
    }
  }
  return busy ? Pass::kBusy : only_waits ? Pass::kWaited : Pass::kRested;
}

void FreeRun::Rest(Sm& sm, Pass pass) {
  if (pass != Pass::kWaited || sm.blocks.empty()) {
    sm.waits_since_ns = 0;
    if (pass != Pass::kBusy && !sm.blocks.empty()) sched_yield();
    return;
  }
  const uint64_t now_ns = MonotonicNs();
  if (sm.waits_since_ns == 0) sm.waits_since_ns = sm.slept_at_ns = now_ns;
  const uint64_t waited_ns = now_ns - sm.waits_since_ns;
  if (waited_ns < kAwakeNs) return;
  const uint64_t sleep_ns = std::min(waited_ns / 4, kLongestSleepNs);
  if (now_ns - sm.slept_at_ns < sleep_ns / 8) return;
  std::unique_lock lock(mutex_);
  work_.wait_for(lock, std::chrono::nanoseconds(sleep_ns));
  sm.slept_at_ns = MonotonicNs();
}

void FreeRun::Retire(Sm& sm) {
  for (size_t i = 0; i < sm.blocks.size();) {
    Resident& resident = sm.blocks[i];
    const std::shared_ptr<Run> run = resident.run;
    if (resident.block->live_threads != 0 && !resident.block->fault && !run->stopped) {
      ++i;
      continue;
    }
    bool last = false;
    {
      std::lock_guard lock(mutex_);
      // The first fault of a grid ends it: its running blocks stop, and the others never start.
      if (resident.block->fault && !run->fault) {
        run->fault = std::move(resident.block->fault);
        run->stopped = true;
        waiting_ -= run->total - run->next;
        run->next = run->total;
        queue_.remove(run);
      }
      last = --run->running == 0 && run->next == run->total;
    }
    sm.used.Remove(run->needs);
    sm.blocks.erase(sm.blocks.begin() + static_cast<ptrdiff_t>(i));
    if (!last) continue;
    run->grid.program.reset();  // an unloaded module must be gone before anybody sees the grid's end
    if (run->grid.workspace != 0) machine_.memory->Free(run->grid.workspace);
    run->done(run->fault.get());
    std::lock_guard lock(mutex_);
    if (--active_ == 0) idle_.notify_all();
  }
}

void FreeRun::Loop(Sm& sm) {
  MemoryView view(machine_.memory);
  bool is_inside = false;  // whether this SM has passed the gate; it stays inside while it has blocks
  while (true) {
    if (sm.blocks.empty() && is_inside) {
      config_.gate->Leave();
      is_inside = false;
    }
    // Without a lock `waiting_` may be an old number. It only saves useless calls, and is read again in each round.
    if (sm.blocks.empty() || waiting_.load(std::memory_order_relaxed) != 0) {
      if (!Admit(sm, &view)) return;
    }
    if (config_.gate != nullptr && !is_inside && !sm.blocks.empty()) {
      config_.gate->Enter();
      is_inside = true;
    }
    view.Refresh();
    const Pass pass = RunWarps(sm);
    Retire(sm);
    Rest(sm, pass);
  }
}

}  // namespace cupola::sim
