#include "intercept/graphs/queue_setup.h"

#include <cuda.h>

#include "intercept/facts/live_streams.h"
#include "intercept/launch/launch_context.h"
#include "intercept/launch/own_call_scope.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept::graphs {
namespace {

// Makes the stream into which pieces of deferred launches are put, with its events. If there is no hardware queue left for it,
// or the driver refuses it, no launch is deferred.
void MakeFeedStream(PieceQueue& queue) {
  if (!CountOwnStream()) return;
  const auto create = CUPOLA_CALL_REAL(cuStreamCreate, PFN_cuStreamCreate_v2000);
  const auto create_event = CUPOLA_CALL_REAL(cuEventCreate, PFN_cuEventCreate_v2000);
  uint64_t made = 0;
  for (uint32_t i = 0; i < PieceQueue::kMostDeferred; ++i) {
    if (create_event(&queue.events[i], CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) made |= uint64_t{1} << i;
  }
  CUstream stream = nullptr;
  if (made == 0 || create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return UncountStream();
  queue.free_events.store(made);
  queue.feed_stream = stream;
}

}  // namespace

Built MakeQueue(LaunchContext* context) noexcept {
  PieceQueue& queue = context->pieces;
  if (queue.words_device.load() != 0) return Built::kAll;
  const OwnCallScope scope;
  if (!scope.may_ask()) return Built::kNotNow;
  const CUdeviceptr device = RegisterKept(&queue.words, 2 * sizeof(uint32_t));
  if (device == 0) return Built::kRefused;
  MakeFeedStream(queue);
  uint32_t* const words = static_cast<uint32_t*>(queue.words);
  __atomic_store_n(&words[0], queue.given.load(), __ATOMIC_RELEASE);
  __atomic_store_n(&words[1], queue.deferred.load(), __ATOMIC_RELEASE);
  queue.words_device.store(device);
  return Built::kAll;
}

}  // namespace cupola::intercept::graphs
