#include "device/compiler/passes/task_body.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

#include "device/compiler/passes/directives.h"
#include "device/compiler/passes/early_return.h"
#include "device/compiler/passes/parameters.h"
#include "device/compiler/passes/read_only_loads.h"
#include "device/compiler/passes/rewrite.h"
#include "device/compiler/passes/snippet.h"
#include "device/compiler/passes/variables.h"
#include "device/compiler/ptx/walk.h"
#include "device/runtime/task_grid.h"

namespace cupola::passes {
namespace {

// The parameters of cupola_run_body behind the body's number (device/runtime/master_image.cu).
constexpr std::array kParameters = {"cupola_arguments", "cupola_thread", "cupola_x",    "cupola_y",
                                    "cupola_z",         "cupola_shared", "cupola_lanes"};

// What stands in for a special register, and the code that computes it. `%cupola_a` is the address
// of the kernel's parameters; the grid lies before them.
struct SpecialRegister {
  const char* name;
  const char* stand_in;
  const char* code;
};
constexpr std::array kSpecialRegisters = {
    SpecialRegister{"%tid.x", "%cupola_tx", "and.b32 %cupola_tx, %cupola_t, <mask>;"},
    SpecialRegister{"%tid.y", "%cupola_ty",
                    "shr.u32 %cupola_ty, %cupola_t, <bits>;\n"
                    "and.b32 %cupola_ty, %cupola_ty, <mask>;"},
    SpecialRegister{"%tid.z", "%cupola_tz", "shr.u32 %cupola_tz, %cupola_t, <twice>;"},
    SpecialRegister{"%ctaid.x", "%cupola_bx", "ld.param.u32 %cupola_bx, [cupola_x];"},
    SpecialRegister{"%ctaid.y", "%cupola_by", "ld.param.u32 %cupola_by, [cupola_y];"},
    SpecialRegister{"%ctaid.z", "%cupola_bz", "ld.param.u32 %cupola_bz, [cupola_z];"},
    SpecialRegister{"%ntid.x", "%cupola_nx", "ld.shared.u16 %cupola_nx, [%cupola_a+-16];"},
    SpecialRegister{"%ntid.y", "%cupola_ny", "ld.shared.u16 %cupola_ny, [%cupola_a+-14];"},
    SpecialRegister{"%ntid.z", "%cupola_nz", "ld.shared.u16 %cupola_nz, [%cupola_a+-12];"},
    SpecialRegister{"%nctaid.x", "%cupola_gx", "ld.shared.u32 %cupola_gx, [%cupola_a+-8];"},
    SpecialRegister{"%nctaid.y", "%cupola_gy", "ld.shared.u32 %cupola_gy, [%cupola_a+-4];"},
    SpecialRegister{"%nctaid.z", "%cupola_gz", "ld.shared.u16 %cupola_gz, [%cupola_a+-10];"},
};
static_assert(offsetof(runtime::TaskGrid, blocks_z) == 6 &&
              offsetof(runtime::TaskGrid, blocks_x) == 8 &&
              offsetof(runtime::TaskGrid, blocks_y) == 12);

const SpecialRegister* FindSpecialRegister(std::string_view name) {
  for (const SpecialRegister& each : kSpecialRegisters) {
    if (name == each.name) return &each;
  }
  return nullptr;
}

bool IsLaunchIndex(std::string_view name) {
  for (const char* prefix : {"%tid", "%ntid", "%ctaid", "%nctaid"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// Instructions whose last operand says which lanes of the warp take part.
bool HasMemberMask(const ptx::Instruction& instruction) {
  static constexpr std::array kOpcodes = {"shfl", "vote", "match", "redux", "elect"};
  const bool warp_barrier = (instruction.opcode == "bar" || instruction.opcode == "barrier") &&
                            instruction.HasModifier("warp");
  return warp_barrier ||
         std::find(kOpcodes.begin(), kOpcodes.end(), instruction.opcode) != kOpcodes.end();
}

bool NeedsWholeWarps(const ptx::Instruction& instruction) {
  static constexpr std::array kOpcodes = {"wgmma",    "mma",       "wmma",      "ldmatrix",
                                          "stmatrix", "movmatrix", "setmaxnreg"};
  return std::find(kOpcodes.begin(), kOpcodes.end(), instruction.opcode) != kOpcodes.end();
}

template <typename Holds>
bool AnyStatement(const KernelPlan& plan, Holds holds) {
  bool found = false;
  for (const ptx::Function* function : plan.reach.functions) {
    ForEachStatement(*function->body, [&](const ptx::Statement& statement) {
      found = found || holds(*function, statement);
    });
  }
  return found;
}

bool NamesShared(const ptx::Instruction& instruction, const SharedLayout& shared) {
  bool names = false;
  ForEachOperandOf(instruction,
                   [&](const ptx::Operand& each) { names |= shared.offsets.contains(each.text); });
  return names;
}

bool Names(const ptx::Instruction& instruction, std::string_view name) {
  bool names = false;
  ForEachOperandOf(instruction, [&](const ptx::Operand& each) { names |= each.text == name; });
  return names;
}

bool ReadsIndices(const ptx::Instruction& instruction) {
  bool reads = false;
  ForEachOperandOf(instruction,
                   [&](const ptx::Operand& operand) { reads |= IsLaunchIndex(operand.text); });
  return reads;
}

// Whether indices are read as a vector, or as 16 bits.
bool ReadsIndicesOddly(const ptx::Instruction& instruction) {
  const bool narrow = instruction.HasModifier("u16") || instruction.HasModifier("b16");
  bool odd = false;
  ForEachOperandOf(instruction, [&](const ptx::Operand& operand) {
    if (!IsLaunchIndex(operand.text)) return;
    odd |= narrow || FindSpecialRegister(operand.text) == nullptr;
  });
  return odd;
}

bool IsWide(const ptx::Instruction& instruction) {
  return instruction.HasModifier("u64") || instruction.HasModifier("s64") ||
         instruction.HasModifier("b64");
}

/// Rewrites the instructions of one body, and records what its head must provide.
class BodyRewriter {
 public:
  BodyRewriter(const ptx::Function& kernel, uint32_t arch, const SharedLayout& shared, bool meets,
               bool copies)
      : shared_(shared), meets_(meets), copies_(copies) {
    const ParameterFacts facts = FindParameterFacts(kernel, arch);
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      parameters_.emplace(kernel.params[i].name, facts.parameters[i].offset);
    }
  }

  void Rewrite(ptx::Block& body);
  std::vector<ptx::Statement> Head() const;

 private:
  bool RewriteBarrier(const ptx::Instruction& instruction, std::vector<ptx::Statement>& out) const;
  void RewriteReturn(ptx::Instruction& instruction, std::vector<ptx::Statement>& out) const;
  void RewriteOperand(ptx::Instruction& instruction, ptx::Operand& operand, bool in_address,
                      std::vector<ptx::Statement>& out);
  void RewriteParameterLoad(ptx::Instruction& instruction) const;
  void CutMask(ptx::Instruction& instruction, std::vector<ptx::Statement>& out);
  std::string Address(const char* base, int64_t offset, bool wide,
                      std::vector<ptx::Statement>& out);

  static constexpr uint32_t kAddresses = 4;  // an instruction names few variables

  const SharedLayout& shared_;
  const bool meets_;   // threads of a block wait for each other
  const bool copies_;  // the body has cp.async
  std::map<std::string, uint32_t, std::less<>> parameters_;  // offset in bytes, by name
  std::set<std::string_view> used_;                          // special registers the body reads
  bool cuts_masks_ = false;
  uint32_t next_ = 0;
};

// Appends code that computes an address in shared memory, and returns the register that holds it.
std::string BodyRewriter::Address(const char* base, int64_t offset, bool wide,
                                  std::vector<ptx::Statement>& out) {
  const std::string number = std::to_string(next_++ % kAddresses);
  const Words words = {{"name", "%cupola_s" + number},
                       {"wide", "%cupola_w" + number},
                       {"base", base},
                       {"offset", std::to_string(offset)}};
  Append(out, "add.u32 <name>, <base>, <offset>;", words);
  if (wide) Append(out, "cvt.u64.u32 <wide>, <name>;", words);
  return wide ? "%cupola_w" + number : "%cupola_s" + number;
}

void BodyRewriter::RewriteOperand(ptx::Instruction& instruction, ptx::Operand& operand,
                                  bool in_address, std::vector<ptx::Statement>& out) {
  const bool is_address = operand.kind == ptx::Operand::Kind::kAddress;
  for (ptx::Operand& child : operand.children) {
    RewriteOperand(instruction, child, is_address, out);
  }
  if (operand.text.empty()) return;
  if (const SpecialRegister* special = FindSpecialRegister(operand.text)) {
    used_.insert(special->name);
    operand.text = special->stand_in;
    return;
  }
  const int64_t further = operand.kind == ptx::Operand::Kind::kOffset ? operand.integer : 0;
  const bool wide = !in_address && IsWide(instruction);
  if (const auto at = shared_.offsets.find(operand.text); at != shared_.offsets.end()) {
    operand = ptx::Operand::Name(Address("%cupola_m", at->second + further, wide, out));
  } else if (const auto own = parameters_.find(operand.text); own != parameters_.end()) {
    operand = ptx::Operand::Name(Address("%cupola_a", own->second + further, wide, out));
  }
}

// Makes loads of the kernel's parameters loads from shared memory. Parameters of calls, which are
// declared in the body, stay.
void BodyRewriter::RewriteParameterLoad(ptx::Instruction& instruction) const {
  if (!instruction.HasModifier("param")) return;
  if (instruction.opcode == "cvta") return ReplaceModifier(instruction, "param", "shared");
  if (instruction.opcode != "ld" || instruction.operands.size() < 2) return;
  const ptx::Operand& source = instruction.operands[1];
  if (source.children.empty()) return;
  const std::string& base = source.children[0].text;
  if (base.starts_with("%") || parameters_.contains(base)) {
    ReplaceModifier(instruction, "param", "shared");
  }
}

// Appends an instruction under the guard of the instruction that it replaces.
void AppendGuarded(std::vector<ptx::Statement>& out, std::string_view text,
                   const std::optional<ptx::Guard>& guard) {
  for (ptx::Statement& statement : Snippet(text)) {
    std::get<ptx::Instruction>(statement.node).guard = guard;
    out.push_back(std::move(statement));
  }
}

bool BodyRewriter::RewriteBarrier(const ptx::Instruction& instruction,
                                  std::vector<ptx::Statement>& out) const {
  if (!IsUncountedBarrier(instruction)) return false;
  AppendGuarded(out, "call cupola_sync_block;", instruction.guard);
  return true;
}

void BodyRewriter::RewriteReturn(ptx::Instruction& instruction,
                                 std::vector<ptx::Statement>& out) const {
  if (instruction.opcode == "exit") instruction.opcode = "ret";
  if (instruction.opcode != "ret") return;
  // The place that a copy is to write may belong to another block by the time the copy ends.
  if (copies_) AppendGuarded(out, "cp.async.wait_all;", instruction.guard);
  if (meets_) AppendGuarded(out, "call cupola_leave_block;", instruction.guard);
}

void BodyRewriter::CutMask(ptx::Instruction& instruction, std::vector<ptx::Statement>& out) {
  ptx::Operand& mask = instruction.operands.back();
  cuts_masks_ = true;
  if (mask.kind == ptx::Operand::Kind::kInteger && static_cast<int32_t>(mask.integer) == -1) {
    mask = ptx::Operand::Name("%cupola_l");
    return;
  }
  ptx::Instruction cut{
      .guard = instruction.guard,
      .opcode = "and",
      .modifiers = {"b32"},
      .operands = {ptx::Operand::Name("%cupola_k"), mask, ptx::Operand::Name("%cupola_l")}};
  out.push_back({.node = std::move(cut)});
  mask = ptx::Operand::Name("%cupola_k");
}

void BodyRewriter::Rewrite(ptx::Block& body) {
  // So that no thread falls off the end of the text without the code of a return.
  body.statements.push_back({.node = ptx::Instruction{.opcode = "ret"}});
  RewriteInstructions(body, [&](ptx::Instruction instruction, std::vector<ptx::Statement>& out) {
    if (RewriteBarrier(instruction, out)) return true;
    next_ = 0;
    RewriteReturn(instruction, out);
    RewriteParameterLoad(instruction);
    for (ptx::Operand& operand : instruction.operands) {
      RewriteOperand(instruction, operand, false, out);
    }
    if (HasMemberMask(instruction)) CutMask(instruction, out);
    out.push_back({.node = std::move(instruction)});
    return true;
  });
}

std::vector<ptx::Statement> BodyRewriter::Head() const {
  std::vector<ptx::Statement> head = Snippet(
      ".reg .b32 %cupola_a, %cupola_t, %cupola_m, %cupola_l, %cupola_k, %cupola_s<4>;\n"
      ".reg .b64 %cupola_w<4>;\n"
      "ld.param.u32 %cupola_a, [cupola_arguments];\n"
      "ld.param.u32 %cupola_t, [cupola_thread];\n"
      "ld.param.u32 %cupola_m, [cupola_shared];\n");
  if (cuts_masks_) Append(head, "ld.param.u32 %cupola_l, [cupola_lanes];");
  const Words words = {{"bits", std::to_string(runtime::kTaskThreadBits)},
                       {"twice", std::to_string(2 * runtime::kTaskThreadBits)},
                       {"mask", std::to_string((1u << runtime::kTaskThreadBits) - 1)}};
  for (const SpecialRegister& special : kSpecialRegisters) {
    if (!used_.contains(special.name)) continue;
    head.push_back(Register("b32", special.stand_in));
    Append(head, special.code, words);
  }
  return head;
}

void DropSharedVariables(ptx::Block& block) {
  std::erase_if(block.statements, [](const ptx::Statement& statement) {
    const auto* variable = std::get_if<ptx::Variable>(&statement.node);
    return variable != nullptr && variable->space == ptx::StateSpace::kShared;
  });
  for (ptx::Statement& statement : block.statements) {
    if (auto* inner = std::get_if<ptx::Block>(&statement.node)) DropSharedVariables(*inner);
  }
}

// In a record all parameters together are aligned to this many bytes, wherever in the constant bank
// they would begin. Loads by name are right, since an instruction reads at most 16 bytes. Code that
// takes the address of a parameter may rely on more.
constexpr uint32_t kParametersAligned = runtime::kTaskArgumentAlign;
static_assert(sizeof(runtime::TaskGrid) % kParametersAligned == 0);

bool TakesAlignedAddress(const KernelPlan& plan) {
  std::set<std::string_view> aligned;
  for (const ptx::Variable& parameter : plan.kernel->params) {
    if (VariableAlign(parameter) > kParametersAligned) aligned.insert(parameter.name);
  }
  if (aligned.empty()) return false;
  bool takes = false;
  ForEachInstruction(*plan.kernel->body, [&](const ptx::Instruction& each) {
    const bool loads = each.opcode == "ld" && each.HasModifier("param");
    ForEachOperandOf(each, [&](const ptx::Operand& operand) {
      takes |= !loads && aligned.contains(operand.text);
    });
  });
  return takes;
}

}  // namespace

std::string TaskName(std::string_view kernel) { return std::string(kernel) + "__cupola_task"; }

std::vector<ptx::Variable> TaskBodyParameters() {
  std::vector<ptx::Variable> parameters;
  for (const char* name : kParameters) {
    ptx::Variable parameter;
    parameter.space = ptx::StateSpace::kParam;
    parameter.type = "b32";
    parameter.name = name;
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

SharedLayout LayOutShared(const KernelPlan& plan, const CallGraph& calls) {
  std::map<std::string_view, const ptx::Variable*> variables;  // in the order of names
  for (const std::string_view name : plan.reach.names) {
    const ptx::Variable* variable = calls.FindVariable(name);
    if (variable != nullptr && variable->space == ptx::StateSpace::kShared) {
      variables.emplace(name, variable);
    }
  }
  ForEachStatement(*plan.kernel->body, [&](const ptx::Statement& statement) {
    const auto* variable = std::get_if<ptx::Variable>(&statement.node);
    if (variable != nullptr && variable->space == ptx::StateSpace::kShared) {
      variables.emplace(variable->name, variable);
    }
  });
  const auto round_up = [](uint32_t value, uint32_t to) { return (value + to - 1) / to * to; };
  SharedLayout layout;
  uint32_t dynamic_align = 16;
  for (const auto& [name, variable] : variables) {
    const uint32_t align = VariableAlign(*variable);
    layout.align = std::max(layout.align, align);
    const auto bytes = static_cast<uint32_t>(VariableBytes(*variable));
    if (bytes == 0) {  // dynamic
      dynamic_align = std::max(dynamic_align, align);
      continue;
    }
    const uint32_t at = round_up(layout.bytes, align);
    layout.offsets.emplace(name, at);
    layout.bytes = at + bytes;
  }
  layout.bytes = round_up(layout.bytes, dynamic_align);
  for (const auto& [name, variable] : variables)
    layout.offsets.try_emplace(std::string(name), layout.bytes);
  return layout;
}

bool UsesBlockBarrier(const KernelPlan& plan) {
  return AnyInstruction(plan,
                        [](const ptx::Instruction& each) { return IsUncountedBarrier(each); });
}

std::string RefuseTask(const KernelPlan& plan, const CallGraph& calls, uint32_t arch) {
  using ptx::Function, ptx::Instruction, ptx::Statement;
  const uint32_t bytes = FindParameterFacts(*plan.kernel, arch).bytes;
  if (bytes > runtime::kTaskParameterBytes) {
    return "more than " + std::to_string(runtime::kTaskParameterBytes) +
           " bytes of parameters: " + std::to_string(bytes);
  }
  if (TakesAlignedAddress(plan)) {
    return "takes the address of a parameter aligned to more than " +
           std::to_string(kParametersAligned);
  }
  if (!plan.wait.empty()) return "blocks may wait on one another: " + plan.wait;
  if (AnyInstruction(plan, UsesTexture)) {
    return "textures or surfaces: nothing orders what they read behind what earlier tasks wrote";
  }
  const SharedLayout shared = LayOutShared(plan, calls);
  if (shared.align > runtime::kTaskUnitBytes) {
    return "shared memory aligned to more than " + std::to_string(runtime::kTaskUnitBytes);
  }
  if (AnyInstruction(plan, [](const Instruction& each) { return IsCountedBarrier(each); })) {
    return "barriers of a counted number of threads";
  }
  if (AnyInstruction(plan, [](const Instruction& each) {
        return IsUncountedBarrier(each) && each.HasModifier("red");
      })) {
    return "barriers with a reduction";
  }
  if (AnyInstruction(plan, [](const Instruction& each) { return NeedsWholeWarps(each); })) {
    return "matrix instructions: warps of a task may be partial";
  }
  if (AnyInstruction(plan,
                     [](const Instruction& each) { return Names(each, "%dynamic_smem_size"); })) {
    return "reads the size of its shared memory";
  }
  if (AnyInstruction(plan, [](const Instruction& each) { return ReadsIndicesOddly(each); })) {
    return "reads thread or block indices as a vector or as 16 bits";
  }
  if (AnyStatement(plan, [&](const Function& function, const Statement& statement) {
        if (function.is_entry) return false;
        const auto* variable = std::get_if<ptx::Variable>(&statement.node);
        if (variable != nullptr) return variable->space == ptx::StateSpace::kShared;
        const auto* each = std::get_if<Instruction>(&statement.node);
        return each != nullptr && (ReadsIndices(*each) || NamesShared(*each, shared) ||
                                   IsUncountedBarrier(*each) || HasMemberMask(*each));
      })) {
    return "a device function that is called, not inlined, reads indices, waits or has shared "
           "memory";
  }
  return "";
}

ptx::Function MakeTaskBody(const KernelPlan& plan, const SharedLayout& shared, uint32_t arch) {
  ptx::Function body;
  body.name = TaskName(plan.kernel->name);
  body.params = TaskBodyParameters();
  body.body = *plan.kernel->body;
  DropLines(*body.body);
  DropSharedVariables(*body.body);
  BodyRewriter rewriter(*plan.kernel, arch, shared, UsesBlockBarrier(plan),
                        plan.shape.waits_for_copies);
  rewriter.Rewrite(*body.body);
  ReadCoherently(body);
  std::vector<ptx::Statement> head = rewriter.Head();
  auto& statements = body.body->statements;
  statements.insert(statements.begin(), std::make_move_iterator(head.begin()),
                    std::make_move_iterator(head.end()));
  return body;
}

}  // namespace cupola::passes
