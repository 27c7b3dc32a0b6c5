#include "device/compiler/passes/read_only_loads.h"
#include "device/compiler/passes/rewrite.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>


namespace cupola::passes {

void ReadCoherently(ptx::Function& function) {
  if (!function.body) return;
  RewriteInstructions(*function.body,
                      [](ptx::Instruction instruction, std::vector<ptx::Statement>& out) {
                        if (instruction.opcode == "ldu") instruction.opcode = "ld";
                        if (instruction.opcode == "ld") std::erase(instruction.modifiers, "nc");
                        out.push_back({.node = std::move(instruction)});
                        return true;
                      });
}

bool UsesTexture(const ptx::Instruction& instruction) {
  static constexpr std::array<std::string_view, 7> kOpcodes = {"tex",  "tld4",  "txq", "suld",
                                                               "sust", "sured", "suq"};
  return std::find(kOpcodes.begin(), kOpcodes.end(), instruction.opcode) != kOpcodes.end();
}

}  // namespace cupola::passes
