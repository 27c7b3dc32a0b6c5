#include "device/compiler/store/bundle.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace cupola::store {
namespace {

// No name or sentence of a bundle is longer than this.
constexpr size_t kMaxText = 1 << 16;
constexpr size_t kChecksumAt = offsetof(BundleHeader, checksum);

Error Damaged(const char* what) {
  return MakeError(ErrorCode::kDamaged, std::string("bundle: ") + what);
}

bool LiesInside(uint64_t offset, uint64_t size, uint64_t total) {
  return offset >= sizeof(BundleHeader) && offset <= total && size <= total - offset;
}

// Whether a NUL-terminated text lies at `offset`; 0 stands for "".
bool IsText(std::span<const std::byte> bytes, uint32_t offset) {
  if (offset == 0) return true;
  if (offset < sizeof(BundleHeader) || offset >= bytes.size()) return false;
  return std::memchr(&bytes[offset], 0, std::min(kMaxText, bytes.size() - offset)) != nullptr;
}

template <typename Entry>
bool IsTable(uint32_t offset, uint32_t count, uint64_t total) {
  return count == 0 || (offset % alignof(Entry) == 0 &&
                        LiesInside(offset, uint64_t{count} * sizeof(Entry), total));
}

}  // namespace

uint64_t BundleChecksum(std::span<const std::byte> bytes) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool own = i >= kChecksumAt && i < kChecksumAt + sizeof(uint64_t);
    hash = (hash ^ (own ? 0 : static_cast<uint8_t>(bytes[i]))) * 0x100000001B3ULL;
  }
  return hash;
}

BundleView::BundleView(std::span<const std::byte> bytes)
    : bytes_(bytes), header_(reinterpret_cast<const BundleHeader*>(bytes.data())) {}

Result<BundleView> BundleView::Open(std::span<const std::byte> bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(BundleHeader) != 0) {
    return MakeError(ErrorCode::kInvalidArgument, "bundle: bytes are not aligned");
  }
  if (bytes.size() < sizeof(BundleHeader)) return Damaged("shorter than its header");
  const BundleView view(bytes);
  const BundleHeader& header = view.header();
  if (header.magic != kBundleMagic) return Damaged("not a bundle");
  if (header.bytes_of_header != sizeof(BundleHeader)) {
    return MakeError(ErrorCode::kUnsupported, "bundle: of another version of the format");
  }
  if (header.pass_version != kPassVersion) {
    return MakeError(ErrorCode::kUnsupported, "bundle: made by another version of the passes");
  }
  if (header.total_bytes != bytes.size()) return Damaged("its size is not what its header says");
  if (Status kernels = view.CheckKernels(); !kernels) return kernels.error();
  for (const BundleImage& image : header.images) {
    if (Status checked = view.CheckImage(image); !checked) return checked.error();
  }
  return view;
}

Status BundleView::CheckKernels() const {
  const uint64_t total = bytes_.size();
  if (!IsTable<KernelEntry>(header_->kernels_offset, header_->kernels, total)) {
    return Damaged("its kernels reach beyond it");
  }
  const char* last = nullptr;
  for (const KernelEntry& kernel : kernels()) {
    if (kernel.name_offset == 0 || !IsText(bytes_, kernel.name_offset) ||
        !IsText(bytes_, kernel.refusal_offset) || !IsText(bytes_, kernel.exactness_offset) ||
        !IsText(bytes_, kernel.task_refusal_offset)) {
      return Damaged("a text of a kernel is not in it");
    }
    if (!IsTable<ParameterEntry>(kernel.parameters_offset, kernel.parameters, total)) {
      return Damaged("the parameters of a kernel reach beyond it");
    }
    const char* name = Text(kernel.name_offset);
    if (last != nullptr && std::strcmp(last, name) >= 0) {
      return Damaged("its kernels are not in order");
    }
    last = name;
  }
  return {};
}

Status BundleView::CheckImage(const BundleImage& image) const {
  const uint64_t total = bytes_.size();
  if (!IsTable<VariableEntry>(image.variables_offset, image.variables, total)) {
    return Damaged("its variables reach beyond it");
  }
  for (const VariableEntry& variable :
       Entries<VariableEntry>(image.variables_offset, image.variables)) {
    if (variable.name_offset == 0 || !IsText(bytes_, variable.name_offset)) {
      return Damaged("the name of a variable is not in it");
    }
  }
  if (image.cubin_bytes != 0 && !LiesInside(image.cubin_offset, image.cubin_bytes, total)) {
    return Damaged("its cubin reaches beyond it");
  }
  if (image.ptx_bytes != 0 && (!LiesInside(image.ptx_offset, image.ptx_bytes, total) ||
                               bytes_[image.ptx_offset + image.ptx_bytes - 1] != std::byte{0})) {
    return Damaged("its PTX reaches beyond it or does not end");
  }
  return {};
}

template <typename Entry>
std::span<const Entry> BundleView::Entries(uint32_t offset, uint32_t count) const {
  if (count == 0) return {};
  return {reinterpret_cast<const Entry*>(&bytes_[offset]), count};
}

std::span<const KernelEntry> BundleView::kernels() const {
  return Entries<KernelEntry>(header_->kernels_offset, header_->kernels);
}

std::span<const ParameterEntry> BundleView::parameters(const KernelEntry& kernel) const {
  return Entries<ParameterEntry>(kernel.parameters_offset, kernel.parameters);
}

std::span<const VariableEntry> BundleView::variables(ImageKind kind) const {
  return Entries<VariableEntry>(Image(kind).variables_offset, Image(kind).variables);
}

const char* BundleView::Text(uint32_t offset) const {
  return offset == 0 ? "" : reinterpret_cast<const char*>(&bytes_[offset]);
}

std::span<const std::byte> BundleView::cubin(ImageKind kind) const {
  const BundleImage& image = Image(kind);
  if (image.cubin_bytes == 0) return {};
  return bytes_.subspan(image.cubin_offset, image.cubin_bytes);
}

const char* BundleView::ptx(ImageKind kind) const {
  const BundleImage& image = Image(kind);
  if (image.ptx_bytes == 0) return nullptr;
  return reinterpret_cast<const char*>(&bytes_[image.ptx_offset]);
}

const KernelEntry* BundleView::Find(std::string_view kernel) const {
  const std::span<const KernelEntry> all = kernels();
  const auto at = std::lower_bound(all.begin(), all.end(), kernel,
                                   [this](const KernelEntry& entry, std::string_view name) {
                                     return Text(entry.name_offset) < name;
                                   });
  return at != all.end() && Text(at->name_offset) == kernel ? &*at : nullptr;
}

bool BundleView::ChecksumHolds() const { return BundleChecksum(bytes_) == header_->checksum; }

}  // namespace cupola::store
