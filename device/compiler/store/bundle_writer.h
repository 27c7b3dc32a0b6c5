// BundleWriter: collects the contents of a bundle and lays them out as bundle.h says. `cupola
// build` uses one for each image. It owns copies of all that it is given. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/store/bundle.h"

namespace cupola::store {

/// A kernel to be written. Finish() fills in the offsets of `entry` that lead to texts and
/// parameters.
struct BundleKernel {
  std::string name;          ///< mangled
  std::string refusal;       ///< why a variant is missing; "": nothing to say
  std::string differences;   ///< how opcode counts differ from the original's SASS; "": they do not
  std::string task_refusal;  ///< why it cannot be a task; "": it can
  std::vector<ParameterEntry> parameters;
  KernelEntry entry{};
};

class BundleWriter {
 public:
  /// `arch` is 90 for sm_90; `flags` are BundleFlag bits.
  explicit BundleWriter(uint32_t arch, uint32_t flags = 0) : arch_(arch), flags_(flags) {}

  void AddKernel(BundleKernel kernel) { kernels_.push_back(std::move(kernel)); }
  /// The variables of an image get numbers in the order in which they are added.
  void AddVariable(ImageKind kind, std::string name, uint64_t bytes, uint32_t flags = 0) {
    Of(kind).variables.push_back({std::move(name), bytes, flags});
  }
  void SetCode(ImageKind kind, std::span<const std::byte> cubin, std::string ptx) {
    Of(kind).cubin.assign(cubin.begin(), cubin.end());
    Of(kind).ptx = std::move(ptx);
  }
  void SetTaskRegisters(uint32_t registers) { task_registers_ = registers; }

  /// The bytes of the bundle, which BundleView::Open accepts. Errors: kInvalidArgument for two
  /// kernels of one name or a name with a NUL in it; kExhausted where the bundle would grow beyond
  /// 4 GiB.
  Result<std::vector<std::byte>> Finish();

 private:
  struct Variable {
    std::string name;
    uint64_t bytes;
    uint32_t flags;
  };

  struct Image {
    std::vector<Variable> variables;
    std::vector<std::byte> cubin;
    std::string ptx;
  };
  Image& Of(ImageKind kind) { return images_[static_cast<size_t>(kind)]; }

  uint32_t arch_;
  uint32_t flags_;
  uint32_t task_registers_ = 0;
  std::vector<BundleKernel> kernels_;
  std::array<Image, kImageKinds> images_;
};

}  // namespace cupola::store
