// What each instruction of a function reads and sets, with the memory that a thread has of its own
// taken as registers: code without optimisation keeps its variables there. Without regard to the
// order of instructions. For questions about loops (waits.h). Borrows from the function. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/compiler/ptx/addresses.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// How what an instruction sets depends on what it reads.
enum class Effect : uint8_t {
  kKeeps,     ///< the same value, or one of them in another form: moves, conversions, comparisons
  kChooses,   ///< one of several values: selp, min, max
  kWraps,     ///< a value that comes round again: remainders, masks; and what went through memory
              ///< that the threads of a block share
  kAdvances,  ///< another value each time, as a rule: sums, products, the next of a list
};

/// Parameters of a function that CallEffect's masks have a bit for.
inline constexpr uint32_t kMaskedParameters = 64;

/// What a called function does, and all that it calls.
struct CallEffect {
  bool reads = false;     ///< global memory by other pointers than its parameters
  uint64_t reads_by = 0;  ///< parameters (a bit each) by which it reads
  bool writes = false;    ///< the same for writing
  uint64_t writes_by = 0;
  bool advances = false;  ///< has an instruction that Effect::kAdvances
  std::string strong;     ///< a read by volatile, acquire or atomic whose result is used; "": none
  bool is_recursive = false;  ///< may call itself by way of another function
};

/// One instruction. Numbers are those of variables: registers, parameters of calls, places in
/// the thread's own memory, shared variables.
struct Step {
  const Instruction* instruction = nullptr;
  std::vector<uint32_t> sets;
  std::vector<uint32_t> uses;       ///< of all operands and what was in memory; not the guard
  std::vector<uint32_t> addresses;  ///< those that say where it reads or writes
  int32_t guard = -1;
  Effect effect = Effect::kAdvances;
  bool compares = false;        ///< its result says no more than yes or no of what it reads
  bool reads_others = false;    ///< global memory, which others may change meanwhile
  bool reads_anywhere = false;  ///< of a call: by other pointers than its arguments, too
  bool writes = false;          ///< global memory
  /// It reads or writes memory of its own or shared memory by a pointer that the function was
  /// given.
  bool reads_given = false, writes_given = false;
  Address address;                 ///< of reads_others, writes, and what it was given
  std::vector<Address> arguments;  ///< of a call: what each may point to
};

struct DataFlow {
  /// Of each instruction. A call of the function itself has one for its result and one for each
  /// argument, which sets the parameter.
  std::unordered_map<const Instruction*, std::vector<Step>> steps;
  std::vector<const Instruction*> order;  ///< all, in the order of the text
  std::vector<MemoryRoot> roots;
  size_t variables = 0;  ///< how many
};

/// What a call may do; null where nothing is known of what it calls.
using FindCallEffect = std::function<const CallEffect*(const Instruction&)>;
DataFlow AnalyzeDataFlow(const Function& function, const FindCallEffect& effect_of,
                         const FindModuleVariable& variable_of);

}  // namespace cupola::ptx
