// What each instruction of a function reads and sets. Memory that a thread has of its own counts as
// registers, since code without optimisation keeps its variables there. The order of instructions
// does not matter. It serves questions about loops (waits.h). Borrows from the function. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/compiler/ptx/addresses.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

/// How the value that an instruction sets depends on the values that it reads.
enum class Effect : uint8_t {
  kKeeps,    ///< the same value, or one of them in another form: moves, conversions, comparisons
  kChooses,  ///< one of several values: selp, min, max
  kWraps,    ///< a value that comes round again: remainders, masks; also values that went through
              ///< memory that the threads of a block share
  kAdvances,  ///< another value each time, as a rule: sums, products, the next of a list
};

/// The number of parameters of a function for which CallEffect's masks have a bit.
inline constexpr uint32_t kMaskedParameters = 64;

/// What a called function does, including all that it calls.
struct CallEffect {
  bool reads = false;     ///< it reads global memory by other pointers than its parameters
  uint64_t reads_by = 0;  ///< parameters (a bit each) by which it reads
  bool writes = false;    ///< it writes global memory by other pointers than its parameters
  uint64_t writes_by = 0;  ///< parameters (a bit each) by which it writes
  bool advances = false;  ///< it has an instruction of Effect::kAdvances
  std::string strong;     ///< a read by volatile, acquire or atomic whose result is used; "": none
  bool is_recursive = false;  ///< may call itself by way of another function
};

/// One instruction. Its numbers are those of variables: registers, parameters of calls, places in
/// the thread's own memory, shared variables.
struct Step {
  const Instruction* instruction = nullptr;
  std::vector<uint32_t> sets;       ///< variables that it sets
  std::vector<uint32_t> uses;       ///< of all operands and of what was in memory; not the guard
  std::vector<uint32_t> addresses;  ///< those that say where it reads or writes
  int32_t guard = -1;               ///< the guard's variable; -1: none
  Effect effect = Effect::kAdvances;
  bool compares = false;        ///< its result says no more than yes or no about what it reads
  bool reads_others = false;    ///< it reads global memory, which others may change meanwhile
  bool reads_anywhere = false;  ///< a call: it also reads by other pointers than its arguments
  bool writes = false;          ///< it writes global memory
  /// It reads own or shared memory through a pointer that the function was given.
  bool reads_given = false;
  /// It writes own or shared memory through such a pointer.
  bool writes_given = false;
  Address address;                 ///< of reads_others, writes, reads_given and writes_given
  std::vector<Address> arguments;  ///< a call: what each argument may point to
};

struct DataFlow {
  /// The steps of each instruction. A call of the function itself has one step for its result and
  /// one for each argument, which sets the parameter.
  std::unordered_map<const Instruction*, std::vector<Step>> steps;
  std::vector<const Instruction*> order;  ///< all instructions, in the order of the text
  std::vector<MemoryRoot> roots;
  size_t variables = 0;  ///< number of variables
};

/// What a call may do; null where nothing is known of its callee.
using FindCallEffect = std::function<const CallEffect*(const Instruction&)>;
DataFlow AnalyzeDataFlow(const Function& function, const FindCallEffect& effect_of,
                         const FindModuleVariable& variable_of);

}  // namespace cupola::ptx
