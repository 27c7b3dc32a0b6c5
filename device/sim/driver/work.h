// What a stream can be asked to do and what a graph's nodes hold: the same plain values for both,
// so that capturing a call and running it are one path. No thread rule of their own.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "device/sim/exec/device.h"

namespace cupola::sim {

class Event;
struct EventRecord;
struct Plan;

/// A grid. `source` keeps what the program named, for cuGraphKernelNodeGetParams.
struct KernelWork {
  GridLaunch launch;
  std::string name;
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;
};

/// A box of bytes: width_bytes x height x depth; pitches in bytes. Device addresses are host
/// addresses, so one form serves every direction.
struct CopyWork {
  uint64_t source = 0, destination = 0;
  uint64_t source_pitch = 0, source_slice = 0;
  uint64_t destination_pitch = 0, destination_slice = 0;
  uint64_t width_bytes = 0, height = 1, depth = 1;
  std::shared_ptr<std::vector<std::byte>> staged;  ///< the source, where pageable memory was staged
  CUmemorytype source_type = CU_MEMORYTYPE_UNIFIED, destination_type = CU_MEMORYTYPE_UNIFIED;
};

struct FillWork {
  uint64_t address = 0, pitch = 0;
  uint32_t value = 0, element_bytes = 1;
  uint64_t width = 0, height = 1;  ///< elements, rows
};

/// A host function, or a stream callback when `callback` is set.
struct HostWork {
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  CUstream stream = nullptr;
  void* data = nullptr;
};

struct EventRecordWork {
  std::shared_ptr<Event> event;
  std::shared_ptr<EventRecord> record;  ///< null in a graph's node; set when it is submitted
};

struct EventWaitWork {
  std::shared_ptr<Event> event;
  std::shared_ptr<EventRecord> record;  ///< null: never recorded, nothing to wait for
};

/// Waits for and writes of values, in order.
struct MemOpsWork {
  std::vector<CUstreamBatchMemOpParams> ops;
};

struct FreeWork {
  uint64_t address = 0;
};

/// All nodes of a graph in an order that respects its edges.
struct GraphWork {
  std::shared_ptr<const Plan> plan;
};

struct EmptyWork {};

using Work = std::variant<EmptyWork, KernelWork, CopyWork, FillWork, HostWork, EventRecordWork,
                          EventWaitWork, MemOpsWork, FreeWork, GraphWork>;

struct Plan {
  std::vector<Work> steps;
};

}  // namespace cupola::sim
