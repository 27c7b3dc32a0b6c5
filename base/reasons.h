// Reasons: why a launch did not go out in a better way, as a task or as a preemptible launch. This is the only place
// where they are listed. The preloaded library counts launches by reason and logs the counts in these words; the report
// of a run and `cupola why` give the sentence and the remedy as well; docs/limits.md lists them (tests/tree/reasons.py
// compares, and writes the page's table from this file). Plain constants; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cupola {

enum class Reason : uint8_t {
  // Against both ways.
  kNoBundle,
  kInexact,
  kAttribute,
  kArguments,
  kCapturing,
  kGraph,
  kScope,
  kTooManyStreams,
  kGreen,
  kTool,
  // Against a preemptible launch.
  kNoArbiter,
  kNoVariant,
  kShort,
  kNobodyAsks,
  kConfigured,
  kCooperative,
  kShape,
  kShared,
  kResident,
  kRingFull,
  kHeld,
  kNoContext,
  kRefused,
  // Against a task.
  kTasksOff,
  kNoBody,
  kWide,
  kFew,
  kMixed,
  kStream,
  kDriverWork,
  kElsewhere,
  kNoEngine,
  kBusy,
  kAsked,
  kTrial,
  kLong,
  kCount,         ///< the number of reasons
  kNone = kCount  ///< there is none: the launch went the better way
};

inline constexpr size_t kReasons = static_cast<size_t>(Reason::kCount);

struct ReasonText {
  Reason reason;
  std::string_view words;     ///< in the log, and the name of the reason in JSON
  std::string_view sentence;  ///< what the reason is
  std::string_view remedy;    ///< what its user can do about it
};

inline constexpr ReasonText kReasonTexts[] = {
    {Reason::kNoBundle, "no bundle", "The variant store has no bundle with this kernel.",
     "Run `cupola build` on the program; for libraries that it opens while it runs, with --with LIBRARY."},
    {Reason::kInexact, "not bit-exact", "The results of the variant may differ from the kernel's in their last bits.",
     "Set CUPOLA_INEXACT=1 if that is allowed."},
    {Reason::kAttribute, "attribute", "The launch has an attribute that the variant cannot carry, such as a cluster.",
     "Launch it without the attribute where that is possible."},
    {Reason::kArguments, "arguments", "The arguments of the launch do not match the parameters of the kernel.",
     "Pass the arguments in one way only, kernelParams or extra, and all of them."},
    {Reason::kCapturing, "capturing", "The program was recording a graph.",
     "Nothing is to be done: the driver records these launches."},
    {Reason::kGraph, "graph", "It was the launch of a graph, whose kernels Cupola neither stops nor makes tasks.",
     "Launch the kernels one by one where they shall be served."},
    {Reason::kScope, "waiting scope", "Another thread was in a call that may wait for the device.",
     "Wait for streams or events in place of the device, and load modules and allocate memory before."},
    {Reason::kTooManyStreams, "more streams than hardware queues",
     "The program has more streams than the device has hardware queues for it.",
     "Set CUDA_DEVICE_MAX_CONNECTIONS=32, or use fewer streams."},
    {Reason::kGreen, "green context", "The stream is bound to the SMs of a green context.",
     "Launch in the primary context."},
    {Reason::kTool, "a tool is at work", "A profiler, a debugger or CUPTI is in the process, and Cupola stands aside.",
     "Run the program without the tool."},

    {Reason::kNoArbiter, "no arbiter", "The process takes no part in preemption.",
     "Start `cupola serve`, and leave CUPOLA_PREEMPT unset."},
    {Reason::kNoVariant, "no variant", "The kernel has no preemptible or sliced form, or its handle is not known.",
     "See why with `cupola why` on the program, and change the kernel or compile it with PTX."},
    {Reason::kShort, "short", "The launch was expected to be shorter than what stopping it would gain.",
     "Nothing is to be done, or set CUPOLA_PREEMPT_ABOVE_US lower."},
    {Reason::kNobodyAsks, "nobody may ask", "No other process may ask this one to leave the GPU.",
     "Nothing is to be done: the launch would gain nothing."},
    {Reason::kConfigured, "configured", "A rule of the arbiter wants another form.",
     "Change variant in the rule of the arbiter's configuration."},
    {Reason::kCooperative, "cooperative", "It was a cooperative launch, whose blocks must all run at once.",
     "Launch it as an ordinary one if its blocks do not wait for one another."},
    {Reason::kShape, "shape", "The variant cannot take this grid or this shape of blocks.",
     "Use blocks of one dimension and at most 2^31 blocks."},
    {Reason::kShared, "shared memory", "The launch asks for more shared memory than the kernel or its variant may have.",
     "Use less dynamic shared memory."},
    {Reason::kResident, "all resident", "Blocks of the kernel may wait for one another, and all are on the GPU at once.",
     "Make the kernel's blocks independent of each other."},
    {Reason::kRingFull, "ring full", "All 256 control slots of the context were in use.",
     "Have fewer launches under way at once: wait now and then."},
    {Reason::kHeld, "held by the program", "The stream, or another of its context, waits for the program itself.",
     "Release the stream before launching into it."},
    {Reason::kNoContext, "no context", "Preemption could not be set up in the context.",
     "Look at the log with CUPOLA_LOG=info, and at `cupola doctor`."},
    {Reason::kRefused, "refused", "The driver refused the launch of the variant.",
     "Look at the log with CUPOLA_LOG=info."},

    {Reason::kTasksOff, "tasks off", "Launches of this process do not become tasks at all.",
     "Leave CUPOLA_TASKS unset, run `cupola build`, and run an arbiter where MPS is used."},
    {Reason::kNoBody, "no body", "The kernel has no form as a task.",
     "See why with `cupola why` on the program, and change the kernel or compile it with PTX."},
    {Reason::kWide, "not narrow", "The launch has more than CUPOLA_TASK_WARPS (31) warps, or more shared memory than 32 KiB a block.",
     "Nothing is to be done, or set CUPOLA_TASK_WARPS higher."},
    {Reason::kFew, "few in a row", "Fewer than 32 (at first 512) narrow launches had followed each other within 100 us.",
     "Nothing is to be done, or set CUPOLA_TASKS_AFTER lower."},
    {Reason::kMixed, "mixed with wide ones", "Launches that cannot be tasks come between too often.",
     "Bring narrow launches together."},
    {Reason::kStream, "default stream beside others",
     "The launch was into the legacy default stream, and the program has other streams.",
     "Launch into a stream that was made with cudaStreamNonBlocking."},
    {Reason::kDriverWork, "other work in the stream", "Earlier work of the stream that the driver does was not over.",
     "Keep copies, large kernels and waits in other streams than narrow launches."},
    {Reason::kElsewhere, "another module", "The MasterKernel served another module or context at that time.",
     "Bring launches of one module together."},
    {Reason::kNoEngine, "no MasterKernel", "The MasterKernel could not be set up, or has failed.",
     "Look at the log with CUPOLA_LOG=info."},
    {Reason::kBusy, "busy before the first task",
     "Earlier work of the context did not end, so the MasterKernel was not loaded.",
     "Wait for the device once before the narrow launches, or set CUPOLA_TASK_PATIENCE_MS higher."},
    {Reason::kAsked, "asked to yield", "Another process had asked this one to leave the GPU.",
     "Nothing is to be done, or give the program a higher priority."},
    {Reason::kTrial, "on trial", "The stream had as many tasks as it may have while it was tried out if tasks pay.",
     "Nothing is to be done, or set CUPOLA_TASK_TRIALS=0."},
    {Reason::kLong, "long", "Tasks took so long that they do not pay.",
     "Nothing is to be done, or set CUPOLA_TASK_US higher."},
};

namespace internal {
constexpr bool ReasonsAreSound() {
  size_t at = 0;
  for (const ReasonText& text : kReasonTexts) {
    if (static_cast<size_t>(text.reason) != at++ || text.words.empty()) return false;
    if (!text.sentence.ends_with('.') || !text.remedy.ends_with('.')) return false;
  }
  return at == kReasons;
}
static_assert(ReasonsAreSound(), "each reason has its row, in the order of the enumeration, with two sentences");
}  // namespace internal

/// `reason` must not be kNone.
constexpr const ReasonText& TextOf(Reason reason) { return kReasonTexts[static_cast<size_t>(reason)]; }

/// The reason with these words; kNone where there is none.
constexpr Reason ReasonOf(std::string_view words) {
  for (const ReasonText& text : kReasonTexts) {
    if (text.words == words) return text.reason;
  }
  return Reason::kNone;
}

}  // namespace cupola
