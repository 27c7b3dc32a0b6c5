#include "device/sim/driver/module.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "device/compiler/fatbin/loaded_image.h"
#include "device/sim/driver/ptx_header.h"

namespace cupola::sim {
namespace {

constexpr uint32_t kDefaultSharedBytes = 48 * 1024;  // CUDA C++ programming guide, table of limits
constexpr uint32_t kComputeCapability = 90;

LoadFailure ImageText(const fatbin::Image& image, std::string* text) {
  Result<fatbin::ImageBytes> contents = image.Contents();
  if (!contents) return {CUDA_ERROR_INVALID_IMAGE, contents.error().ToString()};
  *text = contents->text();
  return {};
}

/// Whether the image is an ELF file for another machine than a GPU. Reads only the ELF header.
bool IsHostObject(const void* image) {
  constexpr uint16_t kCudaMachine = 190;
  Elf64_Ehdr header;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return false;
  std::memcpy(&header, image, sizeof(header));
  return header.e_machine != kCudaMachine;
}

/// Appends the PTX of each unit of an -rdc program, from the image behind its linked wrapper.
LoadFailure UnitTexts(const fatbin::LoadedImage& image, std::vector<std::string>* units) {
  for (uint32_t container = 1; container < image.containers; ++container) {
    std::vector<fatbin::Image> unit;
    for (const fatbin::Image& candidate : image.images) {
      if (candidate.container == container) unit.push_back(candidate);
    }
    const std::optional<size_t> best = fatbin::BestPtx(unit, kComputeCapability);
    if (!best) {
      return {CUDA_ERROR_NO_BINARY_FOR_GPU,
              "unit " + std::to_string(container) + " of the -rdc program has no PTX for sm_90"};
    }
    std::string text;
    if (LoadFailure failure = ImageText(unit[*best], &text); failure.result != CUDA_SUCCESS) {
      return failure;
    }
    units->push_back(std::move(text));
  }
  return {};
}

size_t Count(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) ++count;
  return count;
}

size_t SystemFences(const std::vector<std::string>& units) {
  size_t fences = 0;
  for (const std::string& unit : units) {
    for (const char* word : {"membar.sys", "fence.sc.sys", "fence.acq_rel.sys", "release.sys"}) {
      fences += Count(unit, word);
    }
  }
  return fences;
}

}  // namespace

Function* Module::Find(std::string_view name) const {
  for (const auto& function : functions) {
    if (function->info->name == name) return function.get();
  }
  return nullptr;
}

const GlobalInfo* Module::FindGlobal(std::string_view name) const {
  for (const GlobalInfo& global : loaded->globals()) {
    if (global.name == name) return &global;
  }
  return nullptr;
}

LoadFailure ReadPtx(const void* image, std::vector<std::string>* units) {
  if (image == nullptr) return {CUDA_ERROR_INVALID_VALUE, "the image is null"};
  if (IsHostObject(image)) {
    return {CUDA_ERROR_INVALID_IMAGE, "the image is an object for the host, not for a device"};
  }
  Result<fatbin::LoadedImage> read = fatbin::ReadLoadedImage(image);
  if (!read) return {CUDA_ERROR_INVALID_IMAGE, read.error().ToString()};
  if (read->form == fatbin::LoadedForm::kPtxText) {
    units->emplace_back(reinterpret_cast<const char*>(read->bytes.data()), read->bytes.size());
    return {};
  }
  if (read->form == fatbin::LoadedForm::kLinkedWrapper && read->containers > 1) {
    return UnitTexts(*read, units);
  }
  const std::optional<size_t> best = fatbin::BestPtx(read->images, kComputeCapability);
  if (!best) {
    return {CUDA_ERROR_NO_BINARY_FOR_GPU,
            "the image has no PTX for sm_90, and the simulated device runs nothing but PTX: build "
            "with -arch=sm_90 or add -gencode arch=compute_90,code=compute_90"};
  }
  return ImageText(read->images[*best], &units->emplace_back());
}

LoadFailure LoadModule(Device& device, const std::vector<std::string>& units,
                       std::shared_ptr<Module>* module) {
  for (const std::string& unit : units) {
    if (LoadFailure failure = CheckPtxHeader(unit); failure.result != CUDA_SUCCESS) return failure;
  }
  const std::vector<std::string_view> texts(units.begin(), units.end());
  Result<std::shared_ptr<LoadedModule>> loaded =
      texts.size() == 1 ? device.LoadPtx(texts.front(), "") : device.LoadLinkedPtx(texts, "");
  if (!loaded) {
    const Error& error = loaded.error();
    CUresult result = CUDA_ERROR_INVALID_PTX;
    if (error.code == ErrorCode::kUnsupported) result = CUDA_ERROR_NOT_SUPPORTED;
    if (error.code == ErrorCode::kExhausted) result = CUDA_ERROR_OUT_OF_MEMORY;
    return {result, error.ToString()};
  }
  auto made = std::make_shared<Module>();
  made->loaded = std::move(*loaded);
  std::set<std::string_view> names;
  for (const KernelInfo& kernel : made->loaded->kernels()) {
    if (!names.insert(kernel.name).second) {
      return {CUDA_ERROR_INVALID_PTX, "duplicate definition of function " + kernel.name};
    }
  }
  for (uint32_t i = 0; i < made->loaded->kernels().size(); ++i) {
    auto function = std::make_shared<Function>();
    function->module = made.get();
    function->index = i;
    function->info = &made->loaded->kernels()[i];
    const uint32_t own = function->info->static_shared_bytes;
    function->max_dynamic_shared_bytes = kDefaultSharedBytes - std::min(own, kDefaultSharedBytes);
    made->functions.push_back(std::move(function));
  }
  made->system_fences = SystemFences(units);
  *module = std::move(made);
  return {};
}

}  // namespace cupola::sim
