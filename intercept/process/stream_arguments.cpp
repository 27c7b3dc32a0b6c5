#include "intercept/process/stream_arguments.h"

namespace cupola::intercept {
namespace {

constexpr std::array<StreamArgument, kCallCount> MakeTable() {
  std::array<StreamArgument, kCallCount> table;
#define CUPOLA_STREAM_ARGUMENT(name, at, per_thread) \
  table[static_cast<size_t>(Call::k_##name)] = {at, per_thread};
#include "intercept/stream_arguments.inc"
#undef CUPOLA_STREAM_ARGUMENT
  return table;
}

}  // namespace

constinit const std::array<StreamArgument, kCallCount> kStreamArguments = MakeTable();

}  // namespace cupola::intercept
