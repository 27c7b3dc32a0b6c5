// The work that a stream runs and that a graph's node holds. Both use the same plain values, so
// that one path serves captured and immediate calls. The Driver makes them of the program's calls, on
// the calling thread; the stream's own thread runs them (run_work.cpp). The values have no lock: the
// stream or graph that holds them guards them.
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

/// A grid.
struct KernelWork {
  GridLaunch launch;
  std::string name;
  CUfunction function = nullptr;  ///< for cuGraphKernelNodeGetParams
  CUkernel kernel = nullptr;      ///< for the same, where the program named a CUkernel; else null
};

/// A copy of a box of bytes. Device addresses are host addresses, so one form serves every
/// direction.
struct CopyWork {
  uint64_t source = 0;             ///< address
  uint64_t destination = 0;        ///< address
  uint64_t source_pitch = 0;       ///< bytes from row to row
  uint64_t source_slice = 0;       ///< bytes from layer to layer
  uint64_t destination_pitch = 0;  ///< bytes from row to row
  uint64_t destination_slice = 0;  ///< bytes from layer to layer
  uint64_t width_bytes = 0;        ///< bytes of a row
  uint64_t height = 1;             ///< rows
  uint64_t depth = 1;              ///< layers
  /// The bytes of a pageable source that were copied aside during the call; null: read `source`.
  std::shared_ptr<std::vector<std::byte>> staged;
  CUmemorytype source_type = CU_MEMORYTYPE_UNIFIED;
  CUmemorytype destination_type = CU_MEMORYTYPE_UNIFIED;
};

struct FillWork {
  uint64_t address = 0;
  uint64_t pitch = 0;  ///< bytes from row to row
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  uint64_t width = 0;   ///< elements
  uint64_t height = 1;  ///< rows
};

/// A host function; a stream callback where `callback` is set.
struct HostWork {
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  CUstream stream = nullptr;
  void* data = nullptr;
};

struct EventRecordWork {
  std::shared_ptr<Event> event;
  std::shared_ptr<EventRecord> record;  ///< null in a graph's node; set when the graph is launched
};

struct EventWaitWork {
  std::shared_ptr<Event> event;
  std::shared_ptr<EventRecord> record;  ///< null: the event was never recorded, so there is no wait
};

/// Waits for values and writes of values, which run in the order of the list.
struct MemOpsWork {
  std::vector<CUstreamBatchMemOpParams> ops;
};

struct FreeWork {
  uint64_t address = 0;
};

/// One launch of a graph: the work of all its nodes, in an order that respects the edges.
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
