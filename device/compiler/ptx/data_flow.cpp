#include "device/compiler/ptx/data_flow.h"

#include <algorithm>
#include <utility>

#include "device/compiler/ptx/opcodes.h"

namespace cupola::ptx {
namespace {

Effect EffectOf(std::string_view opcode) {
  if (IsOneOf(opcode, {"mov",   "cvt",   "cvta",  "setp",  "set",      "abs",   "neg",
                       "not",   "cnot",  "or",    "xor",   "prmt",     "shfl",  "vote",
                       "match", "redux", "elect", "testp", "isspacep", "szext", "copysign"})) {
    return Effect::kKeeps;
  }
  if (IsOneOf(opcode, {"selp", "slct", "min", "max"})) return Effect::kChooses;
  if (IsOneOf(opcode, {"and", "rem", "lop3", "bfe", "bfi", "shf", "brev", "bmsk"})) {
    return Effect::kWraps;
  }
  return Effect::kAdvances;
}

bool NamesShared(const Instruction& instruction) {
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(),
                     [](const std::string& own) { return own.starts_with("shared"); });
}

void Add(const std::vector<uint32_t>& more, std::vector<uint32_t>& to) {
  to.insert(to.end(), more.begin(), more.end());
}

class FlowBuilder {
 public:
  FlowBuilder(const Function& function, const FindCallEffect& effect_of,
          const FindModuleVariable& variable_of)
      : function_(function), effect_of_(effect_of), names_(function, variable_of) {}

  DataFlow Run() {
    flow_.order = names_.order();
    for (const Instruction* each : flow_.order) MakeStep(*each);
    flow_.roots = names_.roots();
    flow_.variables = names_.count();
    return std::move(flow_);
  }

 private:
  using Space = Addresses::Space;

  void MakeStep(const Instruction& each) {
    Step step{.instruction = &each};
    step.guard = names_.GuardOf(each);
    if (each.opcode == "call") {
      MakeCall(each, step);
    } else if (IsLoad(each)) {
      names_.ForEachName(each.operands[0], [&](uint32_t to) { step.sets.push_back(to); });
      MakeLoad(each, each.operands[1], step);
    } else if (IsStore(each)) {
      MakeStore(each, step);
    } else {
      MakeOther(each, step);
    }
    flow_.steps[&each].push_back(std::move(step));
  }

  void MakeLoad(const Instruction& each, const Operand& at, Step& step) {
    const Address address = names_.AddressOf(at);
    const Space space = names_.SpaceOf(each, address);
    if (space == Space::kParam) {
      step.effect = Effect::kKeeps;
      names_.ForEachName(at, [&](uint32_t from) { step.uses.push_back(from); });
      return;
    }
    names_.ForEachName(at, [&](uint32_t from) { step.uses.push_back(from); });
    step.addresses = step.uses;
    step.effect = Effect::kAdvances;
    step.address = address;
    step.reads_given = space != Space::kOthers && names_.IsGiven(address);
    if (space == Space::kOwn) {
      if (address.is_exact) {
        step.uses.clear();
        step.effect = Effect::kKeeps;
      }
      const int64_t bytes =
          ElementBytes(each) * static_cast<int64_t>(std::max<size_t>(step.sets.size(), 1));
      for (const uint32_t place : names_.PlacesOf(address, bytes)) step.uses.push_back(place);
    } else if (space == Space::kShared) {
      step.effect = Effect::kWraps;
      Add(names_.SharedPlaces(address), step.uses);
      step.uses.push_back(names_.AnyShared());
    } else if (space == Space::kOthers) {
      // A load with .nc promises that nobody writes there while the kernel runs [9.7.9.9].
      step.reads_others = each.opcode == "ld" && !each.HasModifier("nc");
    }
  }

  void MakeStore(const Instruction& each, Step& step) {
    const Operand& at = each.operands[0];
    const Address address = names_.AddressOf(at);
    const Space space = names_.SpaceOf(each, address);
    step.address = address;
    step.writes_given = space != Space::kOthers && names_.IsGiven(address);
    names_.ForEachName(each.operands[1], [&](uint32_t from) { step.uses.push_back(from); });
    if (space == Space::kParam) {
      step.effect = Effect::kKeeps;
      const Operand& base = at.children.empty() ? at : at.children[0];
      const int32_t named = names_.NumberOf(base);
      if (named >= 0) step.sets.push_back(static_cast<uint32_t>(named));
    } else if (space == Space::kOwn) {
      StoreToOwn(each, address, step);
    } else if (space == Space::kShared) {
      step.effect = Effect::kWraps;
      names_.ForEachName(at, [&](uint32_t from) { step.uses.push_back(from); });
      Add(names_.SharedPlaces(address), step.sets);
    } else {
      names_.ForEachName(at, [&](uint32_t from) { step.addresses.push_back(from); });
      step.writes = true;
      const bool anywhere = !address.roots.empty() && address.roots[0] == 0;
      if (!anywhere) {
        step.uses.clear();
        return;
      }
      step.effect = Effect::kKeeps;
      step.sets = names_.PlacesOfAll();
    }
  }

  void StoreToOwn(const Instruction& each, Address address, Step& step) {
    step.effect = Effect::kKeeps;
    if (!address.is_exact) {
      names_.ForEachName(each.operands[0], [&](uint32_t from) { step.uses.push_back(from); });
      for (const uint32_t root : address.roots) step.sets.push_back(names_.Anywhere(root));
      return;
    }
    const size_t parts = std::max<size_t>(each.operands[1].children.size(), 1);
    for (size_t i = 0; i < parts; ++i, address.offset += ElementBytes(each)) {
      const int32_t place = names_.FindPlace(address);
      if (place >= 0) step.sets.push_back(static_cast<uint32_t>(place));
    }
  }

  void MakeOther(const Instruction& each, Step& step) {
    const auto& operands = each.operands;
    const OpcodeInfo* info = FindOpcode(each.opcode);
    size_t destinations =
        info == nullptr || info->destinations < 0 ? 1 : static_cast<size_t>(info->destinations);
    if (each.opcode == "bar" || each.opcode == "barrier") {
      destinations = each.HasModifier("red") ? 1 : 0;
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      auto& to = i < destinations ? step.sets : step.uses;
      names_.ForEachName(operands[i], [&](uint32_t name) { to.push_back(name); });
    }
    step.effect = EffectOf(each.opcode);
    step.compares = IsOneOf(each.opcode, {"setp", "set", "and", "lop3", "bfe", "vote", "testp"});
    if (IsOneOf(each.opcode, {"suld", "tex", "tld4"})) {
      step.reads_others = each.opcode == "suld";
      step.addresses = step.uses;
    }
    const auto memory = std::find_if(operands.begin(), operands.end(), [](const Operand& operand) {
      return operand.kind == Operand::Kind::kAddress;
    });
    if (memory == operands.end() || info == nullptr) return;
    const Address address = names_.AddressOf(*memory);
    const Space space = names_.SpaceOf(each, address);
    if (each.opcode == "atom" || each.opcode == "red") {
      if (space == Space::kShared) Add(names_.SharedPlaces(address), step.sets);
    } else if (each.opcode == "cp" && NamesShared(each)) {
      MakeCopy(each, address, step);
    } else if (each.opcode == "ldmatrix" || (each.opcode == "wmma" && each.HasModifier("load"))) {
      names_.ForEachName(*memory, [&](uint32_t from) { step.addresses.push_back(from); });
      step.reads_others = space == Space::kOthers && each.opcode == "wmma";
      step.address = address;
      if (space == Space::kShared || each.opcode == "ldmatrix") {
        step.effect = Effect::kWraps;
        Add(names_.SharedPlaces(address), step.uses);
      }
    }
  }

  // cp.async to shared memory reads as a load does and writes as a store does.
  void MakeCopy(const Instruction& each, const Address& to, Step& step) {
    step.effect = Effect::kWraps;
    Add(names_.SharedPlaces(to), step.sets);
    if (each.operands.size() < 2) return;
    names_.ForEachName(each.operands[1], [&](uint32_t from) { step.addresses.push_back(from); });
    step.reads_others = true;
    step.address = names_.AddressOf(each.operands[1]);
    if (!names_.IsGiven(to)) return;
    Step stores{.instruction = &each, .effect = Effect::kWraps};
    stores.writes_given = true;
    stores.address = to;
    flow_.steps[&each].push_back(std::move(stores));
  }

  // A call of the function itself: its result is what the function returns, its arguments become
  // the parameters.
  void MakeRecursion(const Instruction& each, Step& step) {
    step.effect = Effect::kKeeps;
    for (const Variable& result : function_.returns) {
      const int32_t at = names_.NumberOf(result);
      if (at >= 0) step.uses.push_back(static_cast<uint32_t>(at));
    }
    const Operand* arguments = FindArguments(each);
    if (arguments == nullptr) return;
    const size_t count = std::min(arguments->children.size(), function_.params.size());
    for (size_t i = 0; i < count; ++i) {
      const int32_t to = names_.NumberOf(function_.params[i]);
      if (to < 0) continue;
      Step passes{
          .instruction = &each, .sets = {static_cast<uint32_t>(to)}, .effect = Effect::kKeeps};
      names_.ForEachName(arguments->children[i],
                         [&](uint32_t from) { passes.uses.push_back(from); });
      flow_.steps[&each].push_back(std::move(passes));
    }
  }

  void MakeCall(const Instruction& each, Step& step) {
    const Operand* callee = FindCallee(each);
    for (const Operand& operand : each.operands) {
      if (&operand == callee) break;
      names_.ForEachName(operand, [&](uint32_t to) { step.sets.push_back(to); });
    }
    if (callee != nullptr && callee->text == function_.name) return MakeRecursion(each, step);
    const CallEffect* effect = effect_of_(each);
    step.reads_others = effect == nullptr || effect->reads || !effect->strong.empty();
    step.reads_anywhere = step.reads_others;
    step.writes = effect == nullptr || effect->writes;
    if (step.writes) {
      step.sets.push_back(names_.AnyShared());
      Add(names_.PlacesOfAll(), step.sets);
    }
    const Operand* arguments = FindArguments(each);
    const size_t count = arguments == nullptr ? 0 : arguments->children.size();
    for (uint32_t i = 0; i < count; ++i) {
      const bool known = effect != nullptr && i < kMaskedParameters;
      const bool reads = !known || (effect->reads_by >> i & 1) != 0;
      const bool writes = !known || (effect->writes_by >> i & 1) != 0;
      MakeArgument(each, arguments->children[i], reads, writes, step);
    }
    const bool advances = effect != nullptr && effect->advances && !step.reads_others;
    step.effect = advances ? Effect::kAdvances : Effect::kKeeps;
  }

  void MakeArgument(const Instruction& each, const Operand& argument, bool reads, bool writes,
                    Step& step) {
    names_.ForEachName(argument, [&](uint32_t from) { step.uses.push_back(from); });
    const Address address = names_.AddressOfArgument(argument);
    step.arguments.push_back(address);
    const Space space = names_.SpaceOf(each, address);
    if (space == Space::kOwn || space == Space::kShared) {
      const std::vector<uint32_t> places =
          space == Space::kShared ? names_.SharedPlaces(address) : names_.PlacesOfObject(address);
      if (reads) Add(places, step.uses);
      if (writes) Add(places, step.sets);
      return;
    }
    if (space != Space::kOthers) return;
    if (reads) names_.ForEachName(argument, [&](uint32_t from) { step.addresses.push_back(from); });
    step.reads_others |= reads;
    step.writes |= writes;
  }

  const Function& function_;
  const FindCallEffect& effect_of_;
  Addresses names_;
  DataFlow flow_;
};

}  // namespace

DataFlow AnalyzeDataFlow(const Function& function, const FindCallEffect& effect_of,
                         const FindModuleVariable& variable_of) {
  return FlowBuilder(function, effect_of, variable_of).Run();
}

}  // namespace cupola::ptx
