#include "device/sim/driver/context.h"

#include "device/sim/driver/say.h"

namespace cupola::sim {
namespace {

std::atomic<uint64_t> next_context_id{1};

}  // namespace

Context::Context(uint32_t context_flags, bool primary, int its_device)
    : id(next_context_id.fetch_add(1)),
      is_primary(primary),
      device(its_device),
      flags(context_flags) {
  limits[CU_LIMIT_STACK_SIZE] = 1024;
  limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
  limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  legacy = std::make_shared<Stream>(this, Stream::Kind::kLegacy, 0, 0);
}

void Context::Poison(CUresult error, const std::string& message) {
  CUresult expected = CUDA_SUCCESS;
  if (!sticky_.compare_exchange_strong(expected, error, std::memory_order_acq_rel)) return;
  Say(message);
}

void Context::KeepMemoryOfFences(size_t fences) {
  constexpr size_t kBytesAFence = 900;
  if (fences == 0) return;
  const std::scoped_lock lock(fences_mutex_);
  of_fences_.push_back(std::make_unique<std::byte[]>(fences * kBytesAFence));
}

CUresult ToResult(FaultKind kind) {
  switch (kind) {
    case FaultKind::kIllegalAddress: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case FaultKind::kMisalignedAddress: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case FaultKind::kIllegalInstruction: return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case FaultKind::kTrap: return CUDA_ERROR_LAUNCH_FAILED;
    case FaultKind::kAssert: return CUDA_ERROR_ASSERT;
    case FaultKind::kUnsupported: return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace cupola::sim
