#include "cli/inspect_print.h"

#include <fmt/format.h>

#include <map>

namespace cupola {
namespace {

using fatbin::ContainerPlace;
using fatbin::Image;

// More images than this are shown in groups.
constexpr size_t kManyImages = 64;

std::string Plural(size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

// A size such as "12345 B", "123 KB" or "12.3 MB".
std::string Size(uint64_t bytes) {
  if (bytes < 100'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{} KB", bytes / 1000);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

const ContainerPlace* PlaceOf(const fatbin::FileImages& file, const Image& image) {
  return image.container < file.containers.size() ? &file.containers[image.container] : nullptr;
}

std::string WhereOf(const fatbin::FileImages& file, const Image& image) {
  const ContainerPlace* place = PlaceOf(file, image);
  return place == nullptr || place->section.empty() ? "-" : place->section;
}

std::string KindOf(const InspectedImage& inspected, const Image& image) {
  const bool ptx = image.kind == fatbin::ImageKind::kPtx;
  return ToString(image.kind) + (ptx && !inspected.version.empty() ? " " + inspected.version : "");
}

std::string RemarksOf(const InspectedImage& inspected, const Image& image) {
  std::string text;
  const auto add = [&text](const std::string& remark) {
    if (!remark.empty()) text += (text.empty() ? "" : "; ") + remark;
  };
  if (!inspected.readable) add("DAMAGED");
  if (inspected.unit) add("-rdc unit, linked together with the others");
  if ((image.flags & fatbin::kFlagDebug) != 0) add("debug");
  if (!image.name.empty()) add("from " + std::string(image.name));
  std::string options(image.options);
  while (!options.empty() && options.back() == ' ') options.pop_back();
  while (!options.empty() && options.front() == ' ') options.erase(0, 1);
  if (!options.empty()) add("options " + options);
  return text;
}

std::string ImageRows(const Inspection& inspection) {
  const fatbin::FileImages& file = inspection.file.images;
  std::string out = fmt::format("{:>5}  {:<9} {:<13} {:>9} {:>9}  {:<7} {:>7}  {:<15} {:>12}  {}\n",
                                "IMAGE", "KIND", "ARCH", "SIZE", "IN FILE", "PACKED", "KERNELS",
                                "SECTION", "OFFSET", "REMARKS");
  for (const InspectedImage& inspected : inspection.images) {
    const Image& image = file.images[inspected.index];
    out += fmt::format("{:>5}  {:<9} {:<13} {:>9} {:>9}  {:<7} {:>7}  {:<15} {:>#12x}  {}\n",
                       inspected.index, KindOf(inspected, image), inspected.arch,
                       Size(image.uncompressed_size), Size(image.payload.size()),
                       ToString(image.compression), inspected.kernel_count, WhereOf(file, image),
                       image.offset, RemarksOf(inspected, image));
  }
  return out;
}

std::string ImageGroups(const Inspection& inspection) {
  struct Group {
    size_t images = 0, kernels = 0;
    uint64_t size = 0, packed = 0;
  };
  const fatbin::FileImages& file = inspection.file.images;
  std::map<std::array<std::string, 4>, Group> groups;
  for (const InspectedImage& inspected : inspection.images) {
    const Image& image = file.images[inspected.index];
    Group& group = groups[{WhereOf(file, image), KindOf(inspected, image), inspected.arch,
                           ToString(image.compression)}];
    ++group.images;
    group.kernels += inspected.kernel_count;
    group.size += image.uncompressed_size;
    group.packed += image.payload.size();
  }
  std::string out = fmt::format("{:>6}  {:<9} {:<13} {:>9} {:>9}  {:<7} {:>7}  {}\n", "IMAGES",
                                "KIND", "ARCH", "SIZE", "IN FILE", "PACKED", "KERNELS", "SECTION");
  for (const auto& [key, group] : groups) {
    out += fmt::format("{:>6}  {:<9} {:<13} {:>9} {:>9}  {:<7} {:>7}  {}\n", group.images, key[1],
                       key[2], Size(group.size), Size(group.packed), key[3], group.kernels, key[0]);
  }
  return out + "(grouped; --images lists each)\n";
}

std::string ExtentsText(const fatbin::Extents& extents) {
  return fmt::format("{}x{}x{}", extents[0], extents[1], extents[2]);
}

// What the row says besides numbers: launch bounds, and features of the PTX.
std::string KernelNotes(const InspectedKernel& kernel, uint32_t sm) {
  std::string text;
  const auto add = [&text](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  if (const KernelCode* code = kernel.CodeFor(sm)) {
    const fatbin::CubinKernel& facts = code->facts;
    if (facts.required_threads) add("exactly " + ExtentsText(*facts.required_threads) + " threads");
    if (facts.max_threads) add("at most " + ExtentsText(*facts.max_threads) + " threads");
    if (facts.cluster) add("clusters of " + ExtentsText(*facts.cluster) + " blocks");
    if (kernel.ptx.empty()) {
      if (facts.barriers != 0) add(Plural(facts.barriers, "barrier"));
      if (facts.mbarriers != 0) add(Plural(facts.mbarriers, "mbarrier"));
      if (facts.explicit_cluster && !facts.cluster) add("clusters");
    }
  }
  if (const KernelPtx* ptx = kernel.PtxFor(sm)) {
    for (const ptx::FeatureNote& note : ptx->features) {
      const std::string words = ptx::ToString(note.feature);
      add(note.detail.empty() ? words : words + " (" + note.detail + ")");
    }
  }
  if (kernel.linked_together) add("in a -rdc unit");
  return text;
}

// Which variants `cupola build` makes of a kernel, and why it does not make the others.
struct VariantText {
  bool preemptible = false, sliced = false;
  std::string text;
};

VariantText VariantsOf(const InspectedKernel& kernel, uint32_t sm) {
  const KernelPtx* ptx = kernel.PtxFor(sm);
  if (ptx == nullptr) return {.text = "none: no PTX"};
  if (ptx->sm > sm) return {.text = fmt::format("none: its PTX is for {}", ptx->arch)};
  if (kernel.linked_together) return {.text = "none: separately compiled (-rdc); compile without"};
  VariantText variants{ptx->preemptible_refusal.empty(), ptx->sliced_refusal.empty(), {}};
  if (!variants.preemptible && !variants.sliced &&
      ptx->preemptible_refusal == ptx->sliced_refusal) {
    variants.text = "none: " + ptx->preemptible_refusal;
    return variants;
  }
  variants.text = variants.preemptible ? "preemptible" : "";
  if (variants.sliced) variants.text += variants.preemptible ? ", sliced" : "sliced";
  if (variants.text.empty()) variants.text = "none";
  if (!variants.preemptible) variants.text += "; not preemptible: " + ptx->preemptible_refusal;
  if (!variants.sliced) variants.text += "; not sliced: " + ptx->sliced_refusal;
  return variants;
}

template <typename Entry>
std::string Archs(const std::vector<Entry>& entries, const Entry* shown, std::string_view none) {
  std::string text;
  for (const Entry& entry : entries) {
    const std::string_view full = entry.arch;
    const std::string_view number = full.substr(full.find('_') + 1);
    text += text.empty() ? "" : " ";
    if (shown == &entry && entries.size() > 1) text += '*';
    text += number;
  }
  return text.empty() ? std::string(none) : text;
}

std::string KernelRows(const Inspection& inspection, const InspectPrintOptions& options,
                       uint32_t sm) {
  std::string out = fmt::format("{:>4} {:>7} {:>6} {:>7}  {:<28} {:<8}  {}\n", "REGS", "SHARED",
                                "LOCAL", "PARAMS", "CODE FOR SM", "PTX FOR", "KERNEL");
  for (const InspectedKernel& kernel : inspection.kernels) {
    const KernelCode* code = kernel.CodeFor(sm);
    const std::string codes = Archs(kernel.code, code, "none");
    const std::string ptx = Archs<KernelPtx>(kernel.ptx, nullptr, "no PTX");
    const std::string& name = options.mangled ? kernel.name : kernel.demangled;
    if (code != nullptr) {
      const fatbin::CubinKernel& facts = code->facts;
      out +=
          fmt::format("{:>4} {:>7} {:>6} {:>7}  {:<28} {:<8}  {}\n", facts.registers,
                      facts.shared_bytes, facts.frame_bytes, facts.param_bytes, codes, ptx, name);
    } else {
      out += fmt::format("{:>4} {:>7} {:>6} {:>7}  {:<28} {:<8}  {}\n", "-", "-", "-", "-", codes,
                         ptx, name);
    }
    const std::string notes = KernelNotes(kernel, sm);
    if (!notes.empty()) out += fmt::format("{:>29}{}\n", "", notes);
    out += fmt::format("{:>29}variants: {}\n", "", VariantsOf(kernel, sm).text);
  }
  return out;
}

std::string Conclusion(const Inspection& inspection, uint32_t sm) {
  size_t without = 0, preemptible = 0, sliced = 0;
  for (const InspectedKernel& kernel : inspection.kernels) {
    without += kernel.ptx.empty();
    const VariantText variants = VariantsOf(kernel, sm);
    preemptible += variants.preemptible;
    sliced += variants.sliced;
  }
  std::string out = "\n" + Plural(inspection.kernels.size(), "kernel");
  if (without == 0) {
    out += ", each with PTX.\n";
  } else {
    out += fmt::format(
        ", {} without PTX: those run as they are, and can be ordered and gated, "
        "but not transformed.\n",
        without);
  }
  return out + fmt::format("For sm_{}, {} can be preemptible and {} sliced (cupola build).\n", sm,
                           preemptible, sliced);
}

}  // namespace

std::string InspectionText(const Inspection& inspection, const InspectPrintOptions& options,
                           uint32_t sm) {
  const fatbin::FileImages& file = inspection.file.images;
  const std::string& path = inspection.file.file.path();
  if (file.images.empty()) {
    if (!inspection.damages.empty()) return fmt::format("{}: no readable device images\n", path);
    return fmt::format(
        "{}: {} without device images: it has no kernels of its own. Kernels that it launches "
        "come\n"
        "from the libraries that it loads (inspect those; `ldd {}` lists them) or are compiled "
        "while\n"
        "it runs.\n",
        path, ToString(file.form), path);
  }
  std::string out = fmt::format("{}: {}, {}", path, ToString(file.form),
                                Plural(file.images.size(), "device image"));
  if (!file.containers.empty()) out += " in " + Plural(file.containers.size(), "container");
  if (!file.build_id.empty()) out += ", build id " + file.build_id;
  out += "\n\n";
  const bool rows = options.all_images || inspection.images.size() <= kManyImages;
  out += rows ? ImageRows(inspection) : ImageGroups(inspection);
  if (inspection.kernels.empty()) return out + "\nNo kernels.\n";
  out += "\n" + KernelRows(inspection, options, sm);
  return out + Conclusion(inspection, sm);
}

}  // namespace cupola
