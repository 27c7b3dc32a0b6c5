#include "intercept/calls/call_rules.h"

#include <cstring>

#include "intercept/process/calls.h"

namespace cupola::intercept::tasks {
namespace {

struct NamedRule {
  const char* pattern;  ///< MatchesName
  Rule rule;
};

// The last that matches counts; what none matches may wait for the device. Events are recorded
// behind the tasks of their stream, so who waits for one waits for these too.
constexpr NamedRule kNamedRules[] = {
    {"cuMemcpy*", Rule::kWait},
    {"cuMemset*", Rule::kWait},
    {"cuEventSynchronize", Rule::kSyncEvent},
    {"cuEventDestroy*", Rule::kNone},
    {"cuCtxSynchronize*", Rule::kHook},
    {"cuMemAlloc*", Rule::kNone},
    {"cuMemHostAlloc", Rule::kNone},
    {"cuMemcpyHtoDAsync_v2*", Rule::kHook},
    {"cuMemcpyDtoHAsync_v2*", Rule::kHook},
    {"cuMemcpyDtoDAsync_v2*", Rule::kHook},
    {"cuMemcpyAsync*", Rule::kHook},
    {"cuMemcpyHtoD_v2*", Rule::kHook},
    {"cuMemcpyDtoH_v2*", Rule::kHook},
    {"cuMemcpyDtoD_v2*", Rule::kHook},
    {"cuMemcpy", Rule::kHook},
    {"cuMemcpy_ptds", Rule::kHook},
    {"cuMemsetD8Async*", Rule::kHook},
    {"cuMemsetD8_v2*", Rule::kHook},
    {"cuMemsetD16Async*", Rule::kHook},
    {"cuMemsetD16_v2*", Rule::kHook},
    {"cuMemsetD32Async*", Rule::kHook},
    {"cuMemsetD32_v2*", Rule::kHook},
    {"cuStreamSynchronize", Rule::kSyncStream},
    {"cuStreamSynchronize_ptsz", Rule::kSyncStreamPerThread},
    {"cuStreamDestroy*", Rule::kEndStream},
};

}  // namespace

// Names with Async give work to a stream, and wait for the host's memory at most.
Rule RuleFor(const char* name) noexcept {
  Rule rule = Rule::kWaitAndLeave;
  for (const NamedRule& named : kNamedRules) {
    if (MatchesName(named.pattern, name)) rule = named.rule;
  }
  return rule != Rule::kHook && strstr(name, "Async") != nullptr ? Rule::kFlush : rule;
}

}  // namespace cupola::intercept::tasks
