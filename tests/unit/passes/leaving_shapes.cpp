#include "tests/unit/passes/leaving_shapes.h"

#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"
#include "tests/paths.h"

namespace cupola::passes {
namespace {

constexpr uint32_t kPatterns = 10, kThreads = 160;  // of shapes.cu

// Of a pattern and a warp of the block, the lanes that leave, as shapes.cu has them.
uint32_t Mask(uint32_t pattern, uint32_t warp) {
  constexpr std::array kMasks = {0u,          1u,          0x80000000u, 0x0000FFFFu,
                                 0xFFFF0000u, 0xFFFFFFFEu, 0xAAAAAAAAu, 0x000FFF00u};
  if (pattern < kMasks.size()) return kMasks[pattern];
  if (pattern == kMasks.size()) return warp == 2 ? ~0u : warp == 4 ? 0xFFu : 0u;
  return kMasks[(warp + 3) % kMasks.size()];
}

// The PTX of each kernel, in a module of its own.
const std::map<std::string, std::string>& Texts() {
  static const auto texts = [] {
    std::map<std::string, std::string> made;
#ifdef CUPOLA_NVCC_KERNELS
    std::ifstream file(CUPOLA_LEAVING_SHAPES);
    std::stringstream text;
    text << file.rdbuf();
    const auto module = ptx::Parse(text.str(), "shapes.ptx");
    if (!module) return made;
    ptx::Module alone = *module;
    for (const auto& item : module->items) {
      const auto* function = std::get_if<ptx::Function>(&item);
      if (function == nullptr || !function->is_entry) continue;
      alone.items.clear();
      alone.items.push_back(*function);
      made.emplace(function->name, ptx::Write(alone));
    }
#endif
    return made;
  }();
  return texts;
}

template <typename T>
void Add(sim::KernelSpec& spec, const std::vector<T>& values, bool is_buffer) {
  sim::ArgSpec arg;
  arg.is_buffer = is_buffer;
  arg.bytes.resize(values.size() * sizeof(T));
  std::memcpy(arg.bytes.data(), values.data(), arg.bytes.size());
  spec.args.push_back(std::move(arg));
}

}  // namespace

std::vector<std::string> LeavingShapes() {
  std::vector<std::string> names;
  for (const auto& [name, text] : Texts()) names.push_back(name);
  return names;
}

Result<sim::GoldenKernel> MakeLeavingShape(const std::string& kernel) {
  const auto text = Texts().find(kernel);
  if (text == Texts().end()) return MakeError(ErrorCode::kNotFound, "no PTX of " + kernel);
  sim::GoldenKernel made;
  made.name = kernel;
  made.input = text->second;
  made.spec.kernel = kernel;
  made.spec.grid = {kPatterns, 1, 1};
  made.spec.block = {kThreads, 1, 1};
  std::vector<uint32_t> masks;
  for (uint32_t i = 0; i < kPatterns * 8; ++i) masks.push_back(Mask(i / 8, i % 8));
  Add(made.spec, masks, true);
  Add<uint32_t>(made.spec, {0}, false);
  Add<uint32_t>(made.spec, std::vector<uint32_t>(kPatterns * kThreads, ~0u), true);
  Add<uint32_t>(made.spec, std::vector<uint32_t>(kPatterns * kThreads, ~0u), true);
  Add<uint32_t>(made.spec, {3}, false);
  return made;
}

}  // namespace cupola::passes
