// make_bundle VARIANTS.ptx OUT VARIABLE...: a bundle of hand-written variants. The layout of each
// kernel's parameters is read from its variant's: the last one is the PreemptParams, or SliceParams.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "device/compiler/store/bundle_writer.h"
#include "device/runtime/preempt_control.h"

namespace {

using namespace cupola;  // NOLINT

/// The number behind `word` in `text`, or `fallback`.
uint32_t NumberBehind(const std::string& text, const std::string& word, uint32_t fallback) {
  const size_t at = text.find(word);
  return at == std::string::npos ? fallback
                                 : static_cast<uint32_t>(std::stoul(text.substr(at + word.size())));
}

/// ".param .u64 name" or ".param .align 8 .b8 name[96]".
store::ParameterEntry ParameterOf(const std::string& line, uint32_t at) {
  uint32_t bytes = 8;
  for (const char* type : {".u32", ".s32", ".b32", ".f32"}) {
    if (line.find(type) != std::string::npos) bytes = 4;
  }
  bytes = NumberBehind(line, "[", bytes);
  const uint32_t align = NumberBehind(line, ".align ", bytes);
  return {(at + align - 1) / align * align, bytes, 0};
}

store::BundleKernel KernelOf(const std::string& name, const std::string& parameters,
                             uint32_t form) {
  store::BundleKernel kernel;
  kernel.name = name;
  std::istringstream lines(parameters);
  uint32_t at = 0;
  for (std::string line; std::getline(lines, line, ',');) {
    kernel.parameters.push_back(ParameterOf(line, at));
    at = kernel.parameters.back().offset + kernel.parameters.back().bytes;
  }
  const store::ParameterEntry launch = kernel.parameters.back();
  kernel.parameters.pop_back();
  kernel.entry.flags = form;
  if (name == "Await" || name == "Meet") kernel.entry.flags |= store::kMayWaitOnBlocks;
  kernel.entry.launch_offset = launch.offset;
  if (!kernel.parameters.empty()) {
    kernel.entry.parameter_bytes =
        kernel.parameters.back().offset + kernel.parameters.back().bytes;
  }
  return kernel;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::ifstream file(argv[1]);
  const std::string ptx{std::istreambuf_iterator<char>(file), {}};
  store::BundleWriter writer(90);
  const std::string entry = ".entry ", before_form = "__cupola_";
  for (size_t at = ptx.find(entry); at != std::string::npos; at = ptx.find(entry, at + 1)) {
    const size_t begin = at + entry.size(), end = ptx.find(before_form, begin);
    const size_t form = end + before_form.size(), parameters = ptx.find('(', form) + 1;
    const bool is_sliced = ptx.compare(form, parameters - form, "sliced(") == 0;
    writer.AddKernel(KernelOf(ptx.substr(begin, end - begin),
                              ptx.substr(parameters, ptx.find(')', parameters) - parameters),
                              is_sliced ? store::kSliced : store::kPreemptible));
  }
  for (int i = 3; i < argc; ++i) writer.AddVariable(store::ImageKind::kSide, argv[i], 0);
  writer.SetCode(store::ImageKind::kSide, {}, ptx);
  auto bundle = writer.Finish();
  if (!bundle) {
    std::fprintf(stderr, "make_bundle: %s\n", bundle.error().ToString().c_str());
    return 1;
  }
  std::ofstream out(argv[2], std::ios::binary);
  out.write(reinterpret_cast<const char*>(bundle->data()), static_cast<long>(bundle->size()));
  return out ? 0 : 1;
}
