#include "intercept/preempt/sm_demand.h"

#include <pthread.h>

#include "intercept/facts/streams.h"
#include "intercept/path/launch_path.h"
#include "intercept/preempt/gpu_board.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/preempt_context.h"
#include "intercept/preempt/sm_needs.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"

namespace cupola::intercept::preempt {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // of changes; never held over a driver call
FitTable fits;
std::atomic<bool> is_full{false};

// A CUkernel stands for itself in the current context (CUDA driver API,
// cuOccupancyMaxActiveBlocksPerMultiprocessor). 0: nothing fits, or the driver does not say.
uint32_t AskWhatFits(const void* function, uint32_t threads, uint32_t shared) {
  const auto occupancy = CUPOLA_CALL_REAL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                                          PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050);
  int blocks = 0;
  const CUresult result = occupancy(&blocks, static_cast<CUfunction>(const_cast<void*>(function)),
                                    static_cast<int>(threads), shared);
  return result == CUDA_SUCCESS && blocks > 0 ? static_cast<uint32_t>(blocks) : 0;
}

}  // namespace

uint32_t SmsWanted(PreemptContext& context, const LaunchFacts& facts) noexcept {
  if (!context.gpu->shares_context() || facts.function == nullptr) return runtime::kAllSms;
  const uint64_t threads = uint64_t{facts.block[0]} * facts.block[1] * facts.block[2];
  if (threads == 0 || threads > 1024) return runtime::kAllSms;
  const auto block = static_cast<uint32_t>(threads);
  uint32_t per_sm = fits.Find(facts.function, block, facts.shared_bytes);
  if (per_sm == FitTable::kUnknown) {
    const bool waits_anyway = !IsKnownLoaded(facts.function);
    if (open_captures.load() != 0 || is_full.load(std::memory_order_relaxed) ||
        IsHeldAnywhere(context.context) || (context.outstanding.load() != 0 && !waits_anyway)) {
      return runtime::kAllSms;
    }
    {
      const WaitingScope scope(context);
      if (scope.is_kept()) return runtime::kAllSms;
      per_sm = AskWhatFits(facts.function, block, facts.shared_bytes);
    }
    const MutexLock lock(mutex);
    if (!fits.Set(facts.function, block, facts.shared_bytes, per_sm)) is_full.store(true);
  }
  const uint64_t rows = uint64_t{facts.grid[1]} * facts.grid[2];
  const uint64_t blocks = rows < UINT32_MAX ? rows * facts.grid[0] : UINT64_MAX;
  return SmsFor(blocks, per_sm, context.gpu->sm_count());
}

void ForgetSmNeeds() noexcept {
  const MutexLock lock(mutex);
  fits.Clear();
  is_full.store(false);
}

void ForgetSmNeedsAfterFork() noexcept {
  mutex = PTHREAD_MUTEX_INITIALIZER;
  fits.Clear();
  is_full.store(false);
}

}  // namespace cupola::intercept::preempt
