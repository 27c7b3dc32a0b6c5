#include "device/compiler/build/build.h"
#include "device/compiler/build/image_choice.h"
#include "device/compiler/build/name_pattern.h"
#include "device/compiler/passes/refusals.h"
#include "device/compiler/ptx/parse.h"

namespace cupola::build {
namespace {

// The reason why a kernel has no variant at all; both reasons where they differ. "": it can have
// one.
std::string Together(const passes::KernelRefusals& refusals) {
  if (refusals.preemptible.empty() || refusals.sliced.empty()) return {};
  if (refusals.preemptible == refusals.sliced) return refusals.preemptible;
  return refusals.preemptible + "; sliced: " + refusals.sliced;
}

ListedKernel WithoutPtx(const std::string& file, const std::string& kernel, const std::string& refusal) {
  return {.file = file,
          .name = kernel,
          .refusal = refusal,
          .preemptible_refusal = refusal,
          .sliced_refusal = refusal,
          .task_refusal = refusal};
}

void ListChoice(const ImageChoice& choice, const std::string& file, const NamePattern& pattern,
                uint32_t arch, std::vector<ListedKernel>& kernels) {
  for (const std::string& kernel : choice.kernels_without_ptx) {
    if (pattern.Matches(kernel)) kernels.push_back(WithoutPtx(file, kernel, choice.refusal));
  }
  if (choice.ptx == nullptr) return;
  const Result<fatbin::ImageBytes> text = choice.ptx->Contents();
  if (!text) return;
  const Result<ptx::Module> module = ptx::Parse(text->text(), file);
  if (!module) return;
  for (const passes::KernelRefusals& refusals : passes::FindRefusals(*module, arch)) {
    if (!pattern.Matches(refusals.kernel)) continue;
    kernels.push_back({.file = file,
                       .name = refusals.kernel,
                       .refusal = Together(refusals),
                       .preemptible_refusal = refusals.preemptible,
                       .sliced_refusal = refusals.sliced,
                       .task_refusal = refusals.task,
                       .has_ptx = true});
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
    const Result<std::unique_ptr<fatbin::ImageFile>> beside = OpenPtxBeside(*file, path);
    for (const ImageChoice& choice : ChooseImages(*file, options.arch, beside ? beside->get() : nullptr)) {
      ListChoice(choice, path, *pattern, options.arch, kernels);
    }
  }
  return kernels;
}

}  // namespace cupola::build
