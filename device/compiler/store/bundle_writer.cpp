#include "device/compiler/store/bundle_writer.h"

#include <algorithm>
#include <cstring>

namespace cupola::store {
namespace {

constexpr size_t kImageAlignment = 64;  // of the cubin, as in the driver's own containers
constexpr uint64_t kMaxBytes = UINT32_MAX;
constexpr size_t kMaxWritten = 60000;  // below BundleView's limit for texts, with room

// The bytes of a bundle while it grows.
class Layout {
 public:
  size_t size() const { return bytes_.size(); }

  // Appends `size` zero bytes at a multiple of `alignment`; returns their offset.
  size_t Reserve(size_t size, size_t alignment) {
    const size_t at = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(at + size);
    return at;
  }

  size_t Append(const void* data, size_t size, size_t alignment = 1) {
    const size_t at = Reserve(size, alignment);
    if (size != 0) std::memcpy(&bytes_[at], data, size);
    return at;
  }

  // Appends a text and returns its offset; 0 for an empty text.
  uint32_t Text(std::string_view text) {
    if (text.empty()) return 0;
    text = text.substr(0, kMaxWritten);
    const size_t at = Append(text.data(), text.size());
    bytes_.push_back(std::byte{0});
    return static_cast<uint32_t>(at);
  }

  void Store(size_t at, const void* data, size_t size) { std::memcpy(&bytes_[at], data, size); }

  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

bool BadName(const std::string& name) {
  return name.empty() || name.size() > kMaxWritten || name.find('\0') != std::string::npos;
}

}  // namespace

Result<std::vector<std::byte>> BundleWriter::Finish() {
  std::sort(kernels_.begin(), kernels_.end(),
            [](const BundleKernel& a, const BundleKernel& b) { return a.name < b.name; });
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (BadName(kernels_[i].name) || (i != 0 && kernels_[i - 1].name == kernels_[i].name)) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "bundle: a kernel's name is no name of its own");
    }
  }
  for (const Image& image : images_) {
    for (const Variable& variable : image.variables) {
      if (BadName(variable.name)) {
        return MakeError(ErrorCode::kInvalidArgument, "bundle: a variable's name is no name");
      }
    }
  }
  BundleHeader header{};
  Layout layout;
  layout.Reserve(sizeof(BundleHeader), 1);
  const size_t kernels_at = layout.Reserve(kernels_.size() * sizeof(KernelEntry), 8);
  for (BundleKernel& kernel : kernels_) {
    kernel.entry.parameters = static_cast<uint32_t>(kernel.parameters.size());
    kernel.entry.parameters_offset = static_cast<uint32_t>(layout.Append(
        kernel.parameters.data(), kernel.parameters.size() * sizeof(ParameterEntry), 8));
  }
  for (size_t i = 0; i < kernels_.size(); ++i) {
    BundleKernel& kernel = kernels_[i];
    kernel.entry.name_offset = layout.Text(kernel.name);
    kernel.entry.refusal_offset = layout.Text(kernel.refusal);
    kernel.entry.exactness_offset = layout.Text(kernel.differences);
    kernel.entry.task_refusal_offset = layout.Text(kernel.task_refusal);
    layout.Store(kernels_at + i * sizeof(KernelEntry), &kernel.entry, sizeof(KernelEntry));
  }
  for (size_t kind = 0; kind < kImageKinds; ++kind) {
    const Image& image = images_[kind];
    BundleImage& entry = header.images[kind];
    if (image.variables.empty() && image.cubin.empty() && image.ptx.empty()) continue;
    entry.variables = static_cast<uint32_t>(image.variables.size());
    const size_t at = layout.Reserve(image.variables.size() * sizeof(VariableEntry), 8);
    entry.variables_offset = static_cast<uint32_t>(at);
    for (size_t i = 0; i < image.variables.size(); ++i) {
      const Variable& variable = image.variables[i];
      const VariableEntry described{layout.Text(variable.name), variable.flags, variable.bytes};
      layout.Store(at + i * sizeof(described), &described, sizeof(described));
    }
    entry.cubin_bytes = image.cubin.size();
    entry.cubin_offset = layout.Append(image.cubin.data(), image.cubin.size(), kImageAlignment);
    entry.ptx_bytes = image.ptx.empty() ? 0 : image.ptx.size() + 1;
    entry.ptx_offset = layout.Append(image.ptx.c_str(), entry.ptx_bytes);
  }
  if (layout.size() > kMaxBytes) {
    return MakeError(ErrorCode::kExhausted, "bundle: it would have more than 4 GiB");
  }
  header.magic = kBundleMagic;
  header.bytes_of_header = sizeof(BundleHeader);
  header.pass_version = kPassVersion;
  header.total_bytes = layout.size();
  header.arch = arch_;
  header.flags = flags_;
  header.kernels = static_cast<uint32_t>(kernels_.size());
  header.kernels_offset = static_cast<uint32_t>(kernels_at);
  header.task_registers = task_registers_;
  layout.Store(0, &header, sizeof(header));
  std::vector<std::byte> bytes = layout.Take();
  header.checksum = BundleChecksum(bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

}  // namespace cupola::store
