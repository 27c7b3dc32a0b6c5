// Decodes functions: scopes, registers, labels and the order of instructions.
#include "device/sim/exec/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "device/sim/exec/families.h"

namespace cupola::sim {

const OpTable& Opcodes() {
  static const OpTable table = [] {
    OpTable t;
    AddMoveOps(t);
    AddMemoryOps(t);
    AddFlowOps(t);
    AddIntegerOps(t);
    AddBitOps(t);
    AddFloatOps(t);
    AddApproximateOps(t);
    AddHalfOps(t);
    AddCompareOps(t);
    AddConvertOps(t);
    AddAtomicOps(t);
    AddWideAtomicOps(t);
    AddBarrierOps(t);
    AddWarpOps(t);
    AddNarrowOps(t);
    AddStackOps(t);
    AddWmmaOps(t);
    AddVideoOps(t);
    AddCopyOps(t);
    AddMatrixOps(t);
    return t;
  }();
  return table;
}

// A variable of type texref, samplerref or surfref is a handle of 8 bytes.
uint64_t BytesInMemory(const ptx::Variable& variable) {
  return ParseType(variable.type) == Type::kNone ? 8 : ptx::VariableBytes(variable);
}

void Decoder::Undeclared(const std::string& name) {
  if (error_) return;
  const ptx::SourcePos pos = in_ != nullptr ? in_->pos : ptx::SourcePos{};
  error_ = MakeError(ErrorCode::kDamaged, fmt::format("\"{}\" is not declared", name),
                     {program_->module.name, pos.line, pos.column, {}});
}

void Decoder::Append(Insn insn) {
  insn.source = source_;
  program_->code.push_back(insn);
}

static uint32_t RowBytes(Type type) { return type == Type::kPred ? 4 : CellBytes(type) * kLanes; }

uint32_t Decoder::AddRow(Type type) {
  const uint32_t bytes = RowBytes(type);
  const uint32_t align = type == Type::kPred ? 4 : 64;
  const uint32_t at = (frame_bytes_ + align - 1) / align * align;
  frame_bytes_ = at + bytes;
  return at;
}

uint32_t Decoder::AddLocal(uint32_t bytes, uint32_t align) {
  const uint32_t at = (local_bytes_ + align - 1) / align * align;
  local_bytes_ = at + bytes;
  return at;
}

Ref Decoder::Temporary(Type type) {
  size_t i = temporaries_used_;
  while (i < temporaries_.size() && temporaries_[i].first != type) ++i;
  if (i == temporaries_.size()) temporaries_.emplace_back(type, AddRow(type));
  std::swap(temporaries_[i], temporaries_[temporaries_used_]);
  return Written(temporaries_[temporaries_used_++].second, type);
}

Ref Decoder::Written(Ref row, Type type) {
  program_->written.push_back({row, RowBytes(type)});
  program_->sources.back().written_end = static_cast<uint32_t>(program_->written.size());
  return row;
}

const Symbol* Decoder::Find(const std::string& name) {
  for (int s = scope_; s >= 0; s = scopes_[s].parent) {
    const auto it = scopes_[s].symbols.find(name);
    if (it != scopes_[s].symbols.end()) return &it->second;
  }
  if (const Symbol* shared = find_shared_(name)) return shared;
  const auto it = module_symbols_->find(name);
  return it == module_symbols_->end() ? nullptr : &it->second;
}

int32_t Decoder::FindFunction(const std::string& name) const {
  const auto it = function_indices_->find(name);
  return it == function_indices_->end() ? -1 : it->second;
}

bool Decoder::UseLabel(const std::string& label) {
  fixups_.push_back(
      {static_cast<uint32_t>(program_->code.size()), scope_, &label, -1, in_->pos.line});
  return true;
}

bool Decoder::UseTargets(const std::string& label, uint32_t* list, uint32_t* count) {
  for (int s = scope_; s >= 0; s = scopes_[s].parent) {
    const auto it = scopes_[s].targets.find(label);
    if (it == scopes_[s].targets.end()) continue;
    *list = static_cast<uint32_t>(program_->lists.size());
    *count = static_cast<uint32_t>(it->second->targets.size());
    for (const std::string& target : it->second->targets) {
      fixups_.push_back(
          {0, scope_, &target, static_cast<int64_t>(program_->lists.size()), in_->pos.line});
      program_->lists.push_back(0);
    }
    return true;
  }
  return false;
}

uint32_t Decoder::AddList(const std::vector<uint32_t>& values) {
  const uint32_t at = static_cast<uint32_t>(program_->lists.size());
  program_->lists.insert(program_->lists.end(), values.begin(), values.end());
  return at;
}

uint32_t Decoder::AddCallSite(CallSite site) {
  program_->call_sites.push_back(std::move(site));
  return static_cast<uint32_t>(program_->call_sites.size() - 1);
}

void Decoder::DeclareRegisters(const ptx::Variable& variable) {
  const Type type = ParseType(variable.type);
  auto& symbols = scopes_[scope_].symbols;
  if (variable.range != 0) {
    for (uint32_t i = 0; i < variable.range; ++i) {
      symbols[variable.name + std::to_string(i)] = {Symbol::Kind::kRegister, type, AddRow(type), 0};
    }
    return;
  }
  // A vector register is declared as its elements: %v.x, %v.y, %v.z, %v.w.
  if (variable.vector > 1) {
    static constexpr const char* kElements[] = {".x", ".y", ".z", ".w"};
    for (uint32_t i = 0; i < variable.vector; ++i) {
      symbols[variable.name + kElements[i]] = {Symbol::Kind::kRegister, type, AddRow(type), 0};
    }
    return;
  }
  symbols[variable.name] = {Symbol::Kind::kRegister, type, AddRow(type), 0};
}

void Decoder::DecodeVariable(const ptx::Variable& variable) {
  using Kind = Symbol::Kind;
  const Type type = ParseType(variable.type);
  const uint32_t bytes = static_cast<uint32_t>(BytesInMemory(variable));
  Symbol symbol{Kind::kLocal, type, 0, bytes};
  switch (variable.space) {
    case ptx::StateSpace::kReg:
      DeclareRegisters(variable);
      return;
    case ptx::StateSpace::kLocal:
      symbol.at = AddLocal(bytes, VariableAlign(variable));
      break;
    case ptx::StateSpace::kParam:
      symbol.kind = Kind::kFunctionParam;
      symbol.at = AddLocal(bytes, std::max(VariableAlign(variable), 8u));
      break;
    case ptx::StateSpace::kShared:
      if (variable.linking == "extern" || bytes == 0) {
        symbol.kind = Kind::kDynamicShared;
      } else {
        symbol.kind = Kind::kShared;
        symbol.at = place_shared_(variable);
      }
      break;
    default:
      return;  // .global and .const variables of a body were placed with those of the module
  }
  scopes_[scope_].symbols[variable.name] = symbol;
}

void Decoder::DecodeBlock(const ptx::Block& block) {
  const int outer = scope_;
  scopes_.emplace_back();
  scopes_.back().parent = outer;
  scope_ = static_cast<int>(scopes_.size()) - 1;
  // A list of branch targets may come after its use, so all lists of the block are collected first.
  for (const ptx::Statement& statement : block.statements) {
    if (const auto* targets = std::get_if<ptx::TargetList>(&statement.node)) {
      scopes_[scope_].targets[targets->label] = targets;
    }
  }
  for (const ptx::Statement& statement : block.statements) {
    if (const auto* instruction = std::get_if<ptx::Instruction>(&statement.node)) {
      DecodeInstruction(*instruction);
    } else if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
      scopes_[scope_].labels[label->name] = static_cast<uint32_t>(program_->code.size());
    } else if (const auto* variable = std::get_if<ptx::Variable>(&statement.node)) {
      DecodeVariable(*variable);
    } else if (const auto* inner = std::get_if<ptx::Block>(&statement.node)) {
      DecodeBlock(*inner);
    }
  }
  scope_ = outer;
}

bool Decoder::SetGuard() {
  if (!in_->guard) return true;
  const Symbol* symbol = Find(in_->guard->predicate);
  if (symbol == nullptr || symbol->type != Type::kPred) {
    Undeclared(in_->guard->predicate);
    return false;
  }
  out.guard = static_cast<Ref>(symbol->at);
  out.guard_negated = in_->guard->negated;
  return true;
}

bool Decoder::Has(std::string_view modifier) const {
  bool has = false;
  for (size_t i = 0; i < in_->modifiers.size(); ++i) {
    if (in_->modifiers[i] != modifier) continue;
    has = true;
    asked_ |= 1ull << (i & 63);
  }
  return has;
}

namespace {

/// Whether the modifier changes nothing here: order and scope of an access (all are the strongest),
/// hints to caches, state spaces (SpaceOf reads them), and modifiers that repeat the default.
bool IsHarmless(std::string_view opcode, std::string_view modifier) {
  static const std::set<std::string_view> everywhere = {
      "sync", "aligned", "weak",     "relaxed", "acquire", "release", "acq_rel", "sc",
      "cta",  "cluster", "gpu",      "sys",     "ca",      "cg",      "cs",      "lu",
      "cv",   "wb",      "wt",       "nc",      "uni",     "noftz",   "rn",      "clamp",
      "v2",   "v4",      "v8",       "global",  "shared",  "local",   "param",   "const",
      "full", "approx",  "volatile", "b32",     "pred"};
  static const std::set<std::string_view> hints = {
      "fence",        "membar",         "prefetch",   "prefetchu", "discard",   "applypriority",
      "createpolicy", "griddepcontrol", "setmaxnreg", "pmevent",   "nanosleep", "nop"};
  static const std::set<std::pair<std::string_view, std::string_view>> own = {
      {"dp2a", "lo"},
      {"shfl", "idx"},
      {"vote", "uni"},
      {"match", "all"},
      {"redux", "xor"},
      {"mul24", "lo"},
      {"mad24", "lo"},
      {"mad", "lo"},
      {"madc", "lo"},
      {"bar", "u32"},
      {"barrier", "u32"},
      {"bar", "or"},
      {"barrier", "or"},
      {"mbarrier", "b64"},
      {"mbarrier", "noComplete"},
      {"cp", "bulk_group"},
      {"cp", "b64"},
      {"cp", "read"},
      {"cp", "arrive"},
      {"cp", "bulk"},
      {"shf", "r"},
      {"barrier", "arrive"},
      {"cp", "mbarrier::complete_tx::bytes"}};
  if (everywhere.contains(modifier) || hints.contains(opcode)) return true;
  for (const std::string_view prefix : {"L1::", "L2::", "level::", "shared::", "param::"}) {
    if (modifier.starts_with(prefix)) return true;
  }
  return own.contains({opcode, modifier});
}

Effect EffectOf(const ptx::Instruction& instruction) {
  static const std::set<std::string_view> visible = {
      "atom", "red",  "membar", "fence", "bar",   "barrier", "mbarrier",
      "cp",   "shfl", "vote",   "match", "redux", "elect",   "activemask",
      "st",   "ld",   "ldu",    "call",  "trap",  "brkpt",   "nanosleep"};
  static const std::set<std::string_view> collective = {"mma", "wmma", "ldmatrix", "stmatrix",
                                                        "movmatrix"};
  if (collective.contains(instruction.opcode)) return Effect::kCollective;
  if (!visible.contains(instruction.opcode)) return Effect::kNone;
  if (instruction.opcode != "ld" && instruction.opcode != "st") return Effect::kVisible;
  const bool own = std::ranges::any_of(instruction.modifiers, [](const std::string& modifier) {
    return modifier.starts_with("param") || modifier == "local" || modifier == "const";
  });
  return own ? Effect::kNone : Effect::kVisible;
}

bool Says(const ptx::Instruction& instruction, std::string_view modifier) {
  return std::ranges::find(instruction.modifiers, modifier) != instruction.modifiers.end();
}

/// The memory order that the modifiers name. A fence between proxies orders nothing among threads
/// here, so it is kWeak.
Order OrderOf(const ptx::Instruction& in) {
  const bool fence = in.opcode == "fence" || in.opcode == "membar";
  for (const std::string& modifier : in.modifiers) {
    if (fence && modifier.starts_with("proxy")) return Order::kWeak;
  }
  if (Says(in, "acquire")) return Order::kAcquire;
  if (Says(in, "release")) return Order::kRelease;
  if (Says(in, "acq_rel")) return Order::kAcquireRelease;
  if (fence) return Order::kSc;
  if (in.opcode == "atom" || in.opcode == "red") return Order::kRelaxed;
  if (Says(in, "relaxed") || Says(in, "volatile") || Says(in, "mmio")) return Order::kRelaxed;
  if (in.opcode == "cp" && Says(in, "mbarrier")) return Order::kRelease;
  if (in.opcode != "mbarrier") return Order::kWeak;
  if (Says(in, "test_wait") || Says(in, "try_wait")) return Order::kAcquire;
  return Says(in, "init") || Says(in, "inval") ? Order::kWeak : Order::kRelease;
}

Scope ScopeOf(const ptx::Instruction& in) {
  if (Says(in, "sys") || Says(in, "volatile") || Says(in, "mmio")) return Scope::kSys;
  if (Says(in, "cta") || Says(in, "cluster") || Says(in, "mbarrier") || in.opcode == "mbarrier")
    return Scope::kCta;
  return Scope::kGpu;
}

}  // namespace

bool Decoder::KnowsModifiers() const {
  for (size_t i = 0; i < in_->modifiers.size(); ++i) {
    if ((asked_ >> (i & 63) & 1) == 0 && !IsHarmless(in_->opcode, in_->modifiers[i])) return false;
  }
  return true;
}

void Decoder::DecodeInstruction(const ptx::Instruction& instruction) {
  if (error_) return;
  in_ = &instruction;
  asked_ = 0;
  out = Insn{};
  after_.clear();
  temporaries_used_ = 0;
  source_ = static_cast<uint32_t>(program_->sources.size());
  const auto written = static_cast<uint32_t>(program_->written.size());
  program_->sources.push_back({&instruction, function_index_, written, written});
  const size_t first = program_->code.size();
  const size_t fixups = fixups_.size();
  const auto it = Opcodes().find(instruction.opcode);
  const bool known = it != Opcodes().end() && it->second(*this) && KnowsModifiers();
  if (!known) {
    program_->code.resize(first);
    fixups_.resize(fixups);
    out = Insn{};
    out.run = RunUnsupported;
    after_.clear();
  }
  out.effect = EffectOf(instruction);
  out.order = OrderOf(instruction);
  out.scope = ScopeOf(instruction);
  if (!SetGuard()) return;
  // Instructions that were emitted before this one moved it. The fix-ups that it asked for must
  // refer to its place now.
  for (size_t i = fixups; i < fixups_.size(); ++i) {
    if (fixups_[i].list_at < 0) fixups_[i].pc = static_cast<uint32_t>(program_->code.size());
  }
  Append(out);
  for (Insn after : after_) {
    after.guard = out.guard;
    after.guard_negated = out.guard_negated;
    after.effect = out.effect;
    Append(after);
  }
}

void Decoder::DeclareFormals(const ptx::Function& function) {
  FunctionCode& code = program_->functions[function_index_];
  scopes_.emplace_back();
  scope_ = 0;
  if (function.is_entry) {
    const std::vector<ParamInfo>* infos = nullptr;
    for (size_t k = 0; k < program_->kernel_functions.size(); ++k) {
      if (program_->kernel_functions[k] == function_index_)
        infos = &program_->kernel_infos[k].params;
    }
    for (size_t i = 0; infos != nullptr && i < function.params.size(); ++i) {
      const ptx::Variable& param = function.params[i];
      scopes_[0].symbols[param.name] = {Symbol::Kind::kKernelParam, ParseType(param.type),
                                        kParameterBase + (*infos)[i].offset, (*infos)[i].size};
    }
    return;
  }
  for (const auto& [formals, slots] :
       {std::pair{&function.returns, &code.returns}, std::pair{&function.params, &code.params}}) {
    for (const ptx::Variable& formal : *formals) {
      DecodeVariable(formal);
      const Symbol& symbol = scopes_[0].symbols[formal.name];
      const bool in_memory = symbol.kind != Symbol::Kind::kRegister;
      slots->push_back(
          {in_memory, static_cast<uint32_t>(symbol.at),
           in_memory ? symbol.bytes : (symbol.type == Type::kPred ? 0 : CellBytes(symbol.type))});
    }
  }
}

Status Decoder::ResolveLabels() {
  for (const Fixup& fixup : fixups_) {
    const uint32_t* pc = nullptr;
    for (int s = fixup.scope; s >= 0 && pc == nullptr; s = scopes_[s].parent) {
      const auto it = scopes_[s].labels.find(*fixup.label);
      if (it != scopes_[s].labels.end()) pc = &it->second;
    }
    if (pc == nullptr) {
      return MakeError(ErrorCode::kDamaged,
                       fmt::format("label \"{}\" is not defined", *fixup.label),
                       {program_->module.name, fixup.line, 0, {}});
    }
    if (fixup.list_at >= 0) {
      program_->lists[static_cast<size_t>(fixup.list_at)] = *pc;
    } else {
      program_->code[fixup.pc].imm = *pc;
    }
  }
  return {};
}

Status Decoder::DecodeFunction(const ptx::Function& function, uint32_t index,
                               std::function<uint64_t(const ptx::Variable&)> place_shared,
                               std::function<const Symbol*(const std::string&)> find_shared) {
  place_shared_ = std::move(place_shared);
  find_shared_ = std::move(find_shared);
  function_index_ = index;
  scopes_.clear();
  fixups_.clear();
  temporaries_.clear();
  temporaries_used_ = 0;
  frame_bytes_ = 0;
  local_bytes_ = 0;
  in_ = nullptr;
  program_->functions[index].entry_pc = static_cast<uint32_t>(program_->code.size());
  DeclareFormals(function);
  DecodeBlock(*function.body);
  Insn end;
  end.run = RunEndOfFunction;
  Append(end);
  if (error_) return *error_;
  FunctionCode& code = program_->functions[index];
  code.has_body = true;
  code.end_pc = static_cast<uint32_t>(program_->code.size());
  code.frame_bytes = (frame_bytes_ + 63) & ~63u;
  code.local_bytes = (local_bytes_ + 15) & ~15u;
  return ResolveLabels();
}

}  // namespace cupola::sim
