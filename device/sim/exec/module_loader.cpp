// Loads a module: gives its variables addresses, and its kernels a parameter layout and shared
// memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <unordered_set>

#include "device/compiler/ptx/walk.h"
#include "device/sim/exec/decode.h"
#include "device/sim/exec/families.h"

namespace cupola::sim {
namespace {

/// Calls `visit(name)` for every name in an operand.
template <typename Visit>
void ForEachName(const ptx::Block& body, Visit visit) {
  ptx::ForEachInstruction(body, [&](const ptx::Instruction& instruction) {
    ptx::ForEachOperandOf(instruction, [&](const ptx::Operand& operand) {
      if (!operand.text.empty()) visit(operand.text);
    });
  });
}

uint32_t Place(uint32_t* end, const ptx::Variable& variable) {
  const uint32_t align = VariableAlign(variable);
  const uint32_t at = (*end + align - 1) / align * align;
  *end = at + static_cast<uint32_t>(BytesInMemory(variable));
  return at;
}

/// The numbers in a directive such as ".maxntid 8, 4, 1"; those that are missing are 1.
Dim3 ExtentsOf(const std::string& text) {
  uint32_t numbers[3] = {1, 1, 1};
  size_t count = 0;
  for (size_t at = 0; at < text.size() && count < 3;) {
    if (text[at] < '0' || text[at] > '9') {
      ++at;
      continue;
    }
    uint64_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(text[at] - '0'), UINT32_MAX);
    }
    numbers[count++] = static_cast<uint32_t>(value);
  }
  return {numbers[0], numbers[1], numbers[2]};
}

class Loader {
 public:
  Loader(ptx::Module module, std::shared_ptr<AddressSpace> memory)
      : memory_(memory), program_(std::make_shared<Program>(memory)) {
    program_->module = std::move(module);
  }

  Result<std::shared_ptr<Program>> Load() {
    for (const auto& item : program_->module.items) {
      if (const auto* variable = std::get_if<ptx::Variable>(&item)) {
        if (Status s = Declare(*variable); !s) return s.error();
      } else if (const auto* function = std::get_if<ptx::Function>(&item)) {
        if (Status s = Declare(*function); !s) return s.error();
      }
    }
    MarkCommonShared();
    Decoder decoder(program_.get(), &symbols_, &function_indices_);
    for (const bool entries : {false, true}) {
      for (size_t i = 0; i < bodies_.size(); ++i) {
        if (bodies_[i] == nullptr || bodies_[i]->is_entry != entries) continue;
        if (Status s = DecodeBody(decoder, static_cast<uint32_t>(i)); !s) return s.error();
      }
    }
    FinishConstants();
    FinishKernels();
    for (const auto& [variable, address] : initialised_) {
      if (Status s = Initialise(*variable, address); !s) return s.error();
    }
    return program_;
  }

 private:
  Status Declare(const ptx::Variable& variable) {
    const Type type = ParseType(variable.type);
    const uint32_t bytes = static_cast<uint32_t>(BytesInMemory(variable));
    Symbol symbol{Symbol::Kind::kGlobal, type, 0, bytes};
    if (variable.space == ptx::StateSpace::kShared) {
      symbol.kind = variable.linking == "extern" || bytes == 0 ? Symbol::Kind::kDynamicShared
                                                               : Symbol::Kind::kShared;
      if (symbol.kind == Symbol::Kind::kShared) {
        shared_[variable.name] = &variable;
        return {};
      }
      dynamic_align_ = std::max(dynamic_align_, VariableAlign(variable));
    } else if (variable.linking == "extern") {
      const auto known = symbols_.find(variable.name);
      if (known != symbols_.end()) return {};
      symbol.kind = Symbol::Kind::kUnresolved;
    } else {
      symbol.at = memory_->Allocate(std::max(bytes, 1u));
      if (symbol.at == 0) {
        return MakeError(ErrorCode::kExhausted,
                         fmt::format("no device memory for variable \"{}\"", variable.name),
                         {program_->module.name, variable.pos.line, variable.pos.column, {}});
      }
      std::memset(reinterpret_cast<void*>(symbol.at), 0, bytes);
      program_->global_infos.push_back(
          {variable.name, symbol.at, bytes, variable.space == ptx::StateSpace::kConst});
      if (variable.init) initialised_.emplace_back(&variable, symbol.at);
    }
    symbols_[variable.name] = symbol;
    return {};
  }

  Status Declare(const ptx::Function& function) {
    const auto [it, fresh] = function_indices_.try_emplace(
        function.name, static_cast<int32_t>(program_->functions.size()));
    if (fresh) {
      program_->functions.emplace_back();
      bodies_.push_back(nullptr);
    }
    FunctionCode& code = program_->functions[static_cast<size_t>(it->second)];
    code.name = function.name;
    code.is_entry = function.is_entry;
    if (!function.body) {
      code.builtin = FindBuiltin(function.name);
      return {};
    }
    bodies_[static_cast<size_t>(it->second)] = &function;
    if (function.is_entry) DeclareKernel(function, static_cast<uint32_t>(it->second));
    Status status;
    ptx::ForEachStatement(*function.body, [&](const ptx::Statement& statement) {
      const auto* variable = std::get_if<ptx::Variable>(&statement.node);
      if (variable == nullptr) return;
      if (variable->space == ptx::StateSpace::kGlobal || variable->space == ptx::StateSpace::kConst) {
        if (status) status = Declare(*variable);
      } else if (variable->space == ptx::StateSpace::kShared && variable->linking == "extern") {
        dynamic_align_ = std::max(dynamic_align_, VariableAlign(*variable));
      }
    });
    return status;
  }

  void DeclareKernel(const ptx::Function& function, uint32_t index) {
    KernelInfo info;
    info.name = function.name;
    // As the compiler does for this GPU, parameters are aligned by their absolute address in the
    // constant bank.
    uint32_t end = kParameterBase;
    for (const ptx::Variable& param : function.params) {
      const uint32_t at = Place(&end, param);
      info.params.push_back({at - kParameterBase, end - at, VariableAlign(param)});
    }
    info.param_bytes = end - kParameterBase;
    for (const ptx::Directive& attribute : function.attributes) {
      const Dim3 extents = ExtentsOf(attribute.text);
      if (attribute.name == "reqntid") info.required_threads = extents;
      if (attribute.name == "reqnctapercluster") info.cluster = extents;
      if (attribute.name != "maxntid" && attribute.name != "reqntid") continue;
      const uint64_t product = uint64_t{extents.x} * extents.y * extents.z;
      info.max_threads_per_block =
          static_cast<uint32_t>(std::clamp<uint64_t>(product, 1, info.max_threads_per_block));
    }
    program_->kernel_infos.push_back(std::move(info));
    program_->kernel_functions.push_back(index);
  }

  /// Places the shared variables of module scope that device functions name. They have the same
  /// address in all kernels.
  void MarkCommonShared() {
    for (const ptx::Function* body : bodies_) {
      if (body == nullptr || body->is_entry) continue;
      ForEachName(*body->body, [&](const std::string& name) {
        const auto it = shared_.find(name);
        if (it == shared_.end() || common_.count(name) != 0) return;
        const ptx::Variable& variable = *it->second;
        common_[name] = {Symbol::Kind::kShared, ParseType(variable.type),
                         kSharedBase + Place(&common_end_, variable),
                         static_cast<uint32_t>(BytesInMemory(variable))};
      });
    }
  }

  /// Whether a kernel needs the common part of shared memory, because it calls a device function or
  /// names a variable of that part. `calls` becomes true in the first case.
  bool NeedsCommon(const ptx::Function& function, bool* calls) {
    bool needs = false;
    ForEachName(*function.body, [&](const std::string& name) { needs |= common_.count(name) != 0; });
    ptx::ForEachInstruction(*function.body, [&](const ptx::Instruction& instruction) {
      if (instruction.opcode != "call") return;
      bool device_function = true;
      for (const ptx::Operand& operand : instruction.operands) {
        const auto it = function_indices_.find(operand.text);
        if (it != function_indices_.end()) {
          device_function = bodies_[static_cast<size_t>(it->second)] != nullptr;
        }
      }
      *calls |= device_function;
    });
    return needs || *calls;
  }

  Status DecodeBody(Decoder& decoder, uint32_t index) {
    const ptx::Function& function = *bodies_[index];
    FunctionCode& code = program_->functions[index];
    uint32_t own_end = 0;
    uint32_t* end = &common_end_;
    if (function.is_entry) {
      own_end = NeedsCommon(function, &code.calls) ? common_end_ : 0;
      end = &own_end;
    }
    std::unordered_map<std::string, Symbol> own;
    const Status status = decoder.DecodeFunction(
        function, index,
        [&](const ptx::Variable& variable) { return uint64_t{kSharedBase} + Place(end, variable); },
        [&](const std::string& name) -> const Symbol* {
          if (const auto it = common_.find(name); it != common_.end()) return &it->second;
          if (const auto it = own.find(name); it != own.end()) return &it->second;
          const auto it = shared_.find(name);
          if (it == shared_.end()) return nullptr;
          const ptx::Variable& variable = *it->second;
          own[name] = {Symbol::Kind::kShared, ParseType(variable.type),
                       kSharedBase + Place(end, variable),
                       static_cast<uint32_t>(BytesInMemory(variable))};
          return &own[name];
        });
    if (!status) return status;
    if (function.is_entry) {
      FunctionCode& done = program_->functions[index];
      done.shared_bytes = own_end;
      done.dynamic_shared_at = (own_end + dynamic_align_ - 1) / dynamic_align_ * dynamic_align_;
    }
    return {};
  }

  void FinishConstants() {
    const size_t used = program_->constants.size();
    program_->constants.resize(used + 64);
    auto* raw = reinterpret_cast<uint8_t*>(program_->constants.data());
    auto* aligned = reinterpret_cast<uint8_t*>((reinterpret_cast<uint64_t>(raw) + 63) & ~63ull);
    std::memmove(aligned, raw, used);
    program_->constants_base = aligned;
  }

  void FinishKernels() {
    for (size_t k = 0; k < program_->kernel_infos.size(); ++k) {
      const FunctionCode& code = program_->functions[program_->kernel_functions[k]];
      KernelInfo& info = program_->kernel_infos[k];
      info.static_shared_bytes = code.shared_bytes;
      info.local_bytes = code.local_bytes;
      // An estimate: the number that ptxas would need is unknown, and the number of declared
      // virtual registers is many times higher.
      info.registers = std::clamp(code.frame_bytes / (4 * kLanes) / 3 + 8, 8u, 64u);
    }
  }

  uint64_t AddressOf(const std::string& name, bool* known) {
    *known = true;
    if (const auto it = symbols_.find(name); it != symbols_.end()) return it->second.at;
    if (const auto it = function_indices_.find(name); it != function_indices_.end()) {
      return kCodeBase + 16 * (static_cast<uint64_t>(it->second) + 1);
    }
    *known = false;
    return 0;
  }

  Status Initialise(const ptx::Variable& variable, uint64_t address) {
    std::vector<uint64_t> strides;  // bytes of one element, for each depth of nesting
    const Type type = ParseType(variable.type);
    const uint64_t element = std::max(TypeBytes(type), 1u);
    uint64_t bytes = BytesInMemory(variable);
    for (const uint64_t dim : variable.dims) {
      const uint64_t count = dim != 0 ? dim : std::max<uint64_t>(variable.init->elements.size(), 1);
      bytes /= std::max<uint64_t>(count, 1);
      strides.push_back(bytes);
    }
    return Fill(*variable.init, variable, address, address + BytesInMemory(variable), strides, 0,
                element);
  }

  Status Fill(const ptx::Initializer& init, const ptx::Variable& variable, uint64_t at,
              uint64_t end, const std::vector<uint64_t>& strides, size_t depth, uint64_t element) {
    if (init.kind == ptx::Initializer::Kind::kAggregate) {
      for (const ptx::Initializer& child : init.elements) {
        const bool nested = child.kind == ptx::Initializer::Kind::kAggregate;
        if (Status s = Fill(child, variable, at, end, strides, depth + 1, element); !s) return s;
        at += nested && depth < strides.size() ? strides[depth] : element;
      }
      return {};
    }
    uint64_t bits = static_cast<uint64_t>(init.integer);
    if (init.kind == ptx::Initializer::Kind::kFloat && element == 4 && init.width == 64) {
      bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    } else if (init.kind == ptx::Initializer::Kind::kFloat && element == 8 && init.width == 32) {
      bits = std::bit_cast<uint64_t>(
          static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
    } else if (init.kind == ptx::Initializer::Kind::kAddress ||
               init.kind == ptx::Initializer::Kind::kMaskedAddress) {
      bool known = false;
      bits += AddressOf(init.text, &known);
      if (!known) return Bad(variable, fmt::format("\"{}\" is not declared", init.text));
      if (init.kind == ptx::Initializer::Kind::kMaskedAddress && init.mask != 0) {
        bits = (bits & init.mask) >> std::countr_zero(init.mask);
      }
    }
    if (at + element > end) return Bad(variable, "the initializer is longer than the variable");
    std::memcpy(reinterpret_cast<void*>(at), &bits, std::min<uint64_t>(element, 8));
    return {};
  }

  Status Bad(const ptx::Variable& variable, const std::string& what) {
    return MakeError(ErrorCode::kDamaged, what,
                     {program_->module.name, variable.pos.line, variable.pos.column, {}});
  }

  std::shared_ptr<AddressSpace> memory_;
  std::shared_ptr<Program> program_;
  std::unordered_map<std::string, Symbol> symbols_;
  std::unordered_map<std::string, const ptx::Variable*> shared_;
  std::unordered_map<std::string, Symbol> common_;
  uint32_t common_end_ = 0;
  uint32_t dynamic_align_ = 16;
  std::unordered_map<std::string, int32_t> function_indices_;
  std::vector<const ptx::Function*> bodies_;
  std::vector<std::pair<const ptx::Variable*, uint64_t>> initialised_;
};

}  // namespace

Program::~Program() {
  for (const GlobalInfo& global : global_infos) memory_->Free(global.address);
}

namespace {
std::string FormOf(const ptx::Instruction& instruction) {
  std::string text = instruction.opcode;
  for (const std::string& modifier : instruction.modifiers) text += "." + modifier;
  return text;
}
}  // namespace

std::string Program::Describe(uint32_t pc) const {
  if (pc >= code.size() || code[pc].source >= sources.size()) return "";
  const ptx::Instruction& instruction = *sources[code[pc].source].instruction;
  return fmt::format("{} at line {}", FormOf(instruction), instruction.pos.line);
}

std::vector<LackedForm> Program::Lacks() const {
  std::map<std::string, LackedForm> forms;
  for (const Insn& insn : code) {
    if (insn.run != RunUnsupported) continue;
    const ptx::Instruction& instruction = *sources[insn.source].instruction;
    LackedForm& form = forms[FormOf(instruction)];
    if (form.count++ == 0) form.line = instruction.pos.line;
  }
  std::vector<LackedForm> list;
  for (auto& [text, form] : forms) {
    form.form = text;
    list.push_back(std::move(form));
  }
  return list;
}

Result<std::shared_ptr<Program>> Decode(ptx::Module module, std::shared_ptr<AddressSpace> memory) {
  return Loader(std::move(module), std::move(memory)).Load();
}

}  // namespace cupola::sim
