#include "device/compiler/build/image_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "device/compiler/fatbin/cubin.h"
#include "device/compiler/fatbin/loaded_image.h"

namespace cupola::build {
namespace {

using fatbin::Image;
using fatbin::ImageKind;

bool IsUnit(const Image& image) {
  return image.relocatable || image.options.find("--compile-only") != std::string_view::npos;
}

// The cubin that a device of `arch` runs: that of its own architecture, with the form of `suffix`
// before others; else the nearest lower one with the same major number.
const Image* BestCubin(std::span<const Image> images, uint32_t arch, char suffix) {
  const Image* best = nullptr;
  const auto better = [&](const Image& image) {
    if (best == nullptr || image.arch != best->arch) {
      return best == nullptr || image.arch > best->arch;
    }
    return image.arch_suffix == suffix && best->arch_suffix != suffix;
  };
  for (const Image& image : images) {
    const bool fits = image.arch <= arch && image.arch / 10 == arch / 10 &&
                      (image.arch == arch || image.arch_suffix == 0);
    if (image.kind == ImageKind::kCubin && fits && better(image)) best = &image;
  }
  return best;
}

std::string WhyNoPtx(std::span<const Image> images, uint32_t arch) {
  std::string newer;
  bool lto = false;
  for (const Image& image : images) {
    lto = lto || image.kind == ImageKind::kLtoIr;
    if (image.kind == ImageKind::kPtx && newer.empty()) newer = image.ArchName();
  }
  if (!newer.empty()) return fmt::format("its PTX is for {}, not for sm_{}", newer, arch);
  return lto ? "no PTX: link-time intermediate code only"
             : fmt::format(
                   "no PTX: machine code only; compile with -gencode arch=compute_{0},"
                   "code=compute_{0} too",
                   arch);
}

constexpr char kUnit[] =
    "separately compiled (-rdc): its units are linked only in the program; compile without -rdc";
constexpr char kLinkedUnits[] =
    "linked of separately compiled units (-rdc): no PTX; compile without -rdc";

std::vector<std::string> KernelsOf(const Image* cubin) {
  std::vector<std::string> names;
  if (cubin == nullptr) return names;
  const Result<fatbin::ImageBytes> bytes = cubin->Contents();
  if (!bytes) return names;
  const Result<fatbin::Cubin> facts = fatbin::ReadCubin(bytes->bytes());
  if (!facts) return names;
  for (const fatbin::CubinKernel& kernel : facts->kernels) names.push_back(kernel.name);
  return names;
}

void Choose(ImageChoice& choice, std::span<const Image> images, uint32_t arch, bool is_unit) {
  const std::optional<size_t> ptx = fatbin::BestPtx(images, arch);
  const char suffix = ptx && images[*ptx].arch == arch ? images[*ptx].arch_suffix : 0;
  choice.cubin = BestCubin(images, arch, suffix);
  if (!ptx) {
    choice.refusal = WhyNoPtx(images, arch);
  } else if (is_unit || IsUnit(images[*ptx])) {
    choice.refusal = kUnit;
  } else {
    choice.ptx = &images[*ptx];
  }
  if (choice.ptx == nullptr) choice.kernels_without_ptx = KernelsOf(choice.cubin);
}

void Identify(ImageChoice& choice, fatbin::Bytes bytes) {
  choice.identity = std::as_bytes(bytes);
  choice.digest = store::Sha256Of(choice.identity);
}

}  // namespace

std::vector<ImageChoice> ChooseImages(const fatbin::ImageFile& file, uint32_t arch,
                                      const fatbin::ImageFile* ptx_of_cubin) {
  std::vector<ImageChoice> choices;
  const fatbin::Bytes bytes = file.file.bytes();
  const std::span<const Image> images = file.images.images;
  const auto& containers = file.images.containers;
  const bool has_units = std::any_of(containers.begin(), containers.end(),
                                     [](const auto& each) { return each.is_unit; });
  for (const fatbin::ContainerPlace& place : file.images.containers) {
    ImageChoice choice;
    choice.offset = place.offset;
    choice.section = place.section;
    Choose(choice, images.subspan(place.first_image, place.image_count), arch, place.is_unit);
    if (choice.ptx == nullptr && choice.kernels_without_ptx.empty()) continue;
    const bool has_ptx =
        fatbin::BestPtx(images.subspan(place.first_image, place.image_count), arch).has_value();
    if (has_units && !place.is_unit && !has_ptx) choice.refusal = kLinkedUnits;
    const auto own = fatbin::SliceAt(bytes, place.offset, place.size);
    if (!own) continue;
    if (choice.ptx != nullptr) Identify(choice, *own);
    choices.push_back(std::move(choice));
  }
  if (file.images.containers.empty() && !images.empty()) {
    ImageChoice choice;
    Choose(choice, images, arch, false);
    if (images.front().kind == ImageKind::kCubin) {  // its architecture is unknown so far
      choice.cubin = &images.front();
      choice.kernels_without_ptx = KernelsOf(choice.cubin);
      if (IsUnit(images.front())) choice.refusal = kUnit;
    }
    fatbin::Bytes identity = bytes.first(static_cast<size_t>(std::find(bytes.begin(), bytes.end(), 0) - bytes.begin()));
    if (ptx_of_cubin != nullptr && choice.cubin != nullptr && choice.refusal != kUnit) {
      ImageChoice of_ptx;
      Choose(of_ptx, ptx_of_cubin->images.images, arch, false);
      choice.ptx = of_ptx.ptx;
      choice.refusal = of_ptx.refusal;
      identity = bytes.first(std::min<size_t>(fatbin::ElfSize(bytes.data()), bytes.size()));
      if (choice.ptx != nullptr) choice.kernels_without_ptx.clear();
    }
    if (choice.ptx == nullptr && choice.kernels_without_ptx.empty()) return choices;
    if (choice.ptx != nullptr) Identify(choice, identity);
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::string PtxBeside(const std::string& path) {
  std::error_code error;
  const std::filesystem::path ptx = std::filesystem::path(path).replace_extension(".ptx");
  return std::filesystem::is_regular_file(ptx, error) ? ptx.string() : std::string();
}

Result<std::unique_ptr<fatbin::ImageFile>> OpenPtxBeside(const fatbin::ImageFile& file, const std::string& path) {
  const std::string ptx = file.images.form == fatbin::FileForm::kCubin ? PtxBeside(path) : std::string();
  if (ptx.empty()) return std::unique_ptr<fatbin::ImageFile>();
  Result<fatbin::ImageFile> opened = fatbin::OpenImageFile(ptx);
  if (!opened) return opened.error();
  return std::make_unique<fatbin::ImageFile>(*std::move(opened));
}

std::vector<uint8_t> BytesOfHex(std::string_view hex) {
  std::vector<uint8_t> bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  if (hex.size() % 2 != 0 || hex.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return bytes;
  }
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  }
  return bytes;
}

}  // namespace cupola::build
