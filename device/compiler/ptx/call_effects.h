// What the functions of a module read and write when they are called, and the data flow of each.
// Both are made when first asked for. Borrows from the module, which must outlive it. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device/compiler/ptx/data_flow.h"
#include "device/compiler/ptx/ir.h"

namespace cupola::ptx {

class CallEffects {
 public:
  explicit CallEffects(const Module& module);

  const DataFlow& FlowOf(const Function& function);
  /// What a call inside any function may do. Null where nothing is known of the callee.
  const CallEffect* EffectOf(const Instruction& call);
  const CallEffect& EffectOf(const Function& function);
  /// The instructions of a function that read what others write at the same time: reads that are
  /// volatile, acquire, relaxed, or atomic with a result that is used. In the order of the text.
  std::vector<const Instruction*> FindStrongReads(const Function& function) const;

 private:
  struct Entry {
    std::unique_ptr<DataFlow> flow;
    CallEffect effect;
    bool is_known = false;      ///< `effect` is complete
    bool is_under_way = false;  ///< `effect` is being made, so a call that asks for it is recursive
  };

  const Function* FindFunction(std::string_view name) const;
  const CallEffect* EffectOfPointers();
  void AddSteps(const DataFlow& flow, CallEffect& effect);
  void AddCall(const Step& step, const DataFlow& flow, CallEffect& effect);

  std::unordered_map<std::string_view, const Function*> functions_;
  std::unordered_map<std::string_view, const Variable*> variables_;
  std::unordered_set<std::string_view> address_taken_;
  std::unordered_map<const Function*, Entry> entries_;
  CallEffect of_pointers_;
  bool pointers_are_known_ = false;
};

/// The name of a read for messages: opcode and modifiers except the type and the number of values,
/// "ld.global.cg".
std::string NameOfRead(const Instruction& instruction);

}  // namespace cupola::ptx
