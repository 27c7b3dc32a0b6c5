#include "device/compiler/build/build.h"
#include "device/compiler/build/image_choice.h"
#include "device/compiler/build/name_pattern.h"
#include "device/compiler/passes/preemptible.h"
#include "device/compiler/ptx/parse.h"

namespace cupola::build {
namespace {

using passes::Variant;

// Both reasons where they differ.
std::string RefusalOf(const ptx::Module& module, const std::string& kernel) {
  const passes::Applicability preemptible =
      passes::IsApplicable(module, kernel, Variant::kPreemptible);
  const passes::Applicability sliced = passes::IsApplicable(module, kernel, Variant::kSliced);
  if (preemptible || sliced) return {};
  if (preemptible.refusal == sliced.refusal) return preemptible.refusal;
  return preemptible.refusal + "; sliced: " + sliced.refusal;
}

void ListChoice(const ImageChoice& choice, const std::string& file, const NamePattern& pattern,
                std::vector<ListedKernel>& kernels) {
  for (const std::string& kernel : choice.kernels_without_ptx) {
    if (pattern.Matches(kernel)) kernels.push_back({file, kernel, choice.refusal});
  }
  if (choice.ptx == nullptr) return;
  const Result<fatbin::ImageBytes> text = choice.ptx->Contents();
  if (!text) return;
  const Result<ptx::Module> module = ptx::Parse(text->text(), file);
  if (!module) return;
  for (const auto& item : module->items) {
    const auto* function = std::get_if<ptx::Function>(&item);
    if (function == nullptr || !function->is_entry || !function->body) continue;
    if (!pattern.Matches(function->name)) continue;
    kernels.push_back({file, function->name, RefusalOf(*module, function->name)});
  }
}

}  // namespace

Result<std::vector<ListedKernel>> ListKernels(const std::vector<std::string>& files,
                                              const BuildOptions& options) {
  Result<NamePattern> pattern = NamePattern::Make(options.kernels);
  if (!pattern) return pattern.error();
  std::vector<ListedKernel> kernels;
  for (const std::string& path : files) {
    const Result<fatbin::ImageFile> file = fatbin::OpenImageFile(path);
    if (!file) continue;
    for (const ImageChoice& choice : ChooseImages(*file, options.arch)) {
      ListChoice(choice, path, *pattern, kernels);
    }
  }
  return kernels;
}

}  // namespace cupola::build
