// make_bundle VARIANTS.ptx OUT VARIABLE...: a bundle of hand-written variants. The layout of each
// kernel's parameters is read from its variant's: the last one is the PreemptParams.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "device/compiler/store/bundle_writer.h"
#include "device/runtime/preempt_control.h"

namespace {

using namespace cupola;  // NOLINT

uint32_t BytesOf(const std::string& type) { return static_cast<uint32_t>(std::stoul(type) / 8); }

store::BundleKernel KernelOf(const std::string& name, const std::string& parameters) {
  static const std::regex kParameter(
      R"(\.param\s+(?:\.align\s+(\d+)\s+)?\.[a-z](\d+)\s+(?:\.ptr\s+\S+\s+\d+\s+)?[\w$]+(?:\[(\d+)\])?)");
  store::BundleKernel kernel;
  kernel.name = name;
  uint32_t at = 0;
  for (std::sregex_iterator it(parameters.begin(), parameters.end(), kParameter), end; it != end;
       ++it) {
    const std::smatch& match = *it;
    const bool array = match[3].matched;
    const uint32_t bytes = array ? static_cast<uint32_t>(std::stoul(match[3])) : BytesOf(match[2]);
    const uint32_t align = match[1].matched ? static_cast<uint32_t>(std::stoul(match[1])) : bytes;
    at = (at + align - 1) / align * align;
    kernel.parameters.push_back({at, bytes, 0});
    at += bytes;
  }
  const store::ParameterEntry launch = kernel.parameters.back();
  kernel.parameters.pop_back();
  kernel.entry.flags = store::kPreemptible;
  if (name == "Await") kernel.entry.flags |= store::kMayWaitOnBlocks;
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
  static const std::regex kEntry(R"(\.entry\s+(\w+)__cupola_preemptible\(([^)]*)\))");
  for (std::sregex_iterator it(ptx.begin(), ptx.end(), kEntry), end; it != end; ++it) {
    writer.AddKernel(KernelOf((*it)[1], (*it)[2]));
  }
  for (int i = 3; i < argc; ++i) writer.AddVariable(argv[i], 0);
  writer.SetPtx(ptx);
  auto bundle = writer.Finish();
  if (!bundle) {
    std::fprintf(stderr, "make_bundle: %s\n", bundle.error().ToString().c_str());
    return 1;
  }
  std::ofstream out(argv[2], std::ios::binary);
  out.write(reinterpret_cast<const char*>(bundle->data()), static_cast<long>(bundle->size()));
  return out ? 0 : 1;
}
