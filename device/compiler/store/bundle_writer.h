// BundleWriter: collects what a bundle holds and lays it out as bundle.h says. Owns copies of all
// it is given. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/compiler/store/bundle.h"

namespace cupola::store {

/// A kernel to be written; offsets of its entry that point to texts and parameters are filled in.
struct BundleKernel {
  std::string name;         ///< mangled
  std::string refusal;      ///< why a variant is missing; "" = nothing to say
  std::string differences;  ///< from the original's SASS; "" = none
  std::vector<ParameterEntry> parameters;
  KernelEntry entry{};
};

class BundleWriter {
 public:
  /// `arch` is 90 for sm_90, `flags` are BundleFlag bits.
  explicit BundleWriter(uint32_t arch, uint32_t flags = 0) : arch_(arch), flags_(flags) {}

  void AddKernel(BundleKernel kernel) { kernels_.push_back(std::move(kernel)); }
  /// Variables are numbered in the order in which they are added.
  void AddVariable(std::string name, uint64_t bytes, uint32_t flags = 0) {
    variables_.push_back({std::move(name), bytes, flags});
  }
  void SetCubin(std::span<const std::byte> cubin) { cubin_.assign(cubin.begin(), cubin.end()); }
  void SetPtx(std::string ptx) { ptx_ = std::move(ptx); }

  /// The bytes of the bundle; BundleView::Open accepts them. Errors: kInvalidArgument for two
  /// kernels of one name or a name with a NUL in it; kExhausted where it would grow beyond 4 GiB.
  Result<std::vector<std::byte>> Finish();

 private:
  struct Variable {
    std::string name;
    uint64_t bytes;
    uint32_t flags;
  };

  uint32_t arch_;
  uint32_t flags_;
  std::vector<BundleKernel> kernels_;
  std::vector<Variable> variables_;
  std::vector<std::byte> cubin_;
  std::string ptx_;
};

}  // namespace cupola::store
