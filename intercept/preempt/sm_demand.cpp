#include "intercept/preempt/sm_demand.h"

#include <pthread.h>

#include "intercept/facts/streams.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/loaded_kernels.h"
#include "intercept/preempt/host_holds.h"
#include "intercept/preempt/sm_needs.h"
#include "intercept/preempt/waiting.h"
#include "intercept/process/driver_calls.h"
#include "intercept/process/mutex_lock.h"

namespace cupola::intercept::preempt {
namespace {

// Held while `fits` is changed, never over a driver call.
pthread_mutex_t sm_demand_mutex = PTHREAD_MUTEX_INITIALIZER;
FitTable fits;
std::atomic<bool> is_full{false};

// Asks the driver how many blocks fit on an SM. `function` may be a CUkernel, which the driver
// takes in place of a CUfunction for the current context (CUDA Driver API,
// cuOccupancyMaxActiveBlocksPerMultiprocessor). 0: none fits, or the driver does not say.
uint32_t AskWhatFits(const void* function, uint32_t threads, uint32_t shared) {
  const auto occupancy = CUPOLA_CALL_REAL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                                          PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050);
  int blocks = 0;
  const CUresult result = occupancy(&blocks, static_cast<CUfunction>(const_cast<void*>(function)),
                                    static_cast<int>(threads), shared);
  return result == CUDA_SUCCESS && blocks > 0 ? static_cast<uint32_t>(blocks) : 0;
}

}  // namespace

uint32_t SmsWanted(LaunchContext& context, const Launch& launch) noexcept {
  if (!context.gpu->shares_context() || launch.function == nullptr) return runtime::kAllSms;
  const uint64_t threads = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (threads == 0 || threads > 1024) return runtime::kAllSms;
  const auto block = static_cast<uint32_t>(threads);
  uint32_t per_sm = fits.Find(launch.function, block, launch.shared_bytes);
  if (per_sm == FitTable::kUnknown) {
    const bool waits_anyway = !IsKnownLoaded(launch.function);
    if (open_captures.load() != 0 || is_full.load(std::memory_order_relaxed) ||
        IsHeldAnywhere(context.context) || (context.outstanding.load() != 0 && !waits_anyway)) {
      return runtime::kAllSms;
    }
    {
      const WaitingScope scope(context);
      if (scope.is_kept()) return runtime::kAllSms;
      per_sm = AskWhatFits(launch.function, block, launch.shared_bytes);
    }
    const MutexLock lock(sm_demand_mutex);
    if (!fits.Set(launch.function, block, launch.shared_bytes, per_sm)) is_full.store(true);
  }
  const uint64_t rows = uint64_t{launch.grid[1]} * launch.grid[2];
  const uint64_t blocks = rows < UINT32_MAX ? rows * launch.grid[0] : UINT64_MAX;
  return SmsFor(blocks, per_sm, context.gpu->sm_count());
}

void ForgetSmNeeds() noexcept {
  const MutexLock lock(sm_demand_mutex);
  fits.Clear();
  is_full.store(false);
}

void ForgetSmNeedsAfterFork() noexcept {
  sm_demand_mutex = PTHREAD_MUTEX_INITIALIZER;
  fits.Clear();
  is_full.store(false);
}

}  // namespace cupola::intercept::preempt
