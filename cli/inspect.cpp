#include "cli/inspect.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <thread>
#include <unordered_map>

#include "device/compiler/ptx/parse.h"

namespace cupola {
namespace {

using fatbin::Image;
using fatbin::ImageKind;

// The result of reading one image. Several threads read images; the damages are merged afterwards,
// in the order of the images.
struct Reading {
  InspectedImage image;
  std::vector<Error> damages;
};

Error DamageOf(const std::string& path, const Image& image, uint32_t index, uint64_t offset,
               const Error& cause) {
  Error error = cause;
  error.message = "image " + std::to_string(index) + " (" + ToString(image.kind) + " " +
                  image.ArchName() + "): ";
  if (cause.where.line != 0) error.message += cause.where.ToString() + ": ";
  error.message += cause.message;
  error.where = Location{.file = path};
  error.where.offset = offset;
  return error;
}

void ReadCubinImage(const std::string& path, const Image& image, fatbin::Bytes bytes,
                    Reading& reading) {
  const uint32_t index = reading.image.index;
  Result<fatbin::Cubin> cubin = fatbin::ReadCubin(bytes);
  if (!cubin) {
    reading.image.readable = false;
    reading.damages.push_back(DamageOf(path, image, index, image.offset, cubin.error()));
    return;
  }
  for (const Error& damage : cubin->damages) {
    // An offset inside a compressed image has no meaning in the file, so the offset of the image is
    // given instead.
    const bool stored = image.compression == fatbin::Compression::kStored;
    const uint64_t inside = stored ? damage.where.offset.value_or(0) : 0;
    reading.damages.push_back(DamageOf(path, image, index, image.offset + inside, damage));
  }
  reading.image.kernel_count = static_cast<uint32_t>(cubin->kernels.size());
  reading.image.version = "CUDA " + std::to_string(cubin->style);
  reading.image.unit = reading.image.unit || cubin->relocatable;
  if (image.arch == 0) reading.image.arch = "sm_" + std::to_string(cubin->arch);
  reading.image.cubin = *std::move(cubin);
}

void ReadPtxImage(const std::string& path, const Image& image, std::string_view text,
                  Reading& reading) {
  const uint32_t index = reading.image.index;
  const Result<ptx::Module> module = ptx::Parse(text, "line of its text");
  if (!module) {
    reading.image.readable = false;
    // For a file that is only PTX text, the line says more than an offset.
    if (image.arch == 0) {
      Error error = module.error();
      error.where.file = path;
      reading.damages.push_back(std::move(error));
    } else {
      reading.damages.push_back(DamageOf(path, image, index, image.offset, module.error()));
    }
    return;
  }
  reading.image.version =
      std::to_string(module->version_major) + "." + std::to_string(module->version_minor);
  if (image.arch == 0 && !module->targets.empty()) {
    std::string target = module->targets[0];
    if (target.starts_with("sm_")) target.replace(0, 3, "compute_");
    reading.image.arch = target;
  }
  reading.image.ptx_kernels = ptx::AnalyzeKernels(*module);
  reading.image.refusals = passes::FindRefusals(*module);
  reading.image.kernel_count = static_cast<uint32_t>(reading.image.ptx_kernels.size());
}

Reading ReadOne(const fatbin::ImageFile& file, uint32_t index) {
  const Image& image = file.images.images[index];
  Reading reading;
  reading.image.index = index;
  reading.image.arch = image.ArchName();
  reading.image.unit = image.relocatable;
  if (image.kind != ImageKind::kPtx && image.kind != ImageKind::kCubin) return reading;
  const Result<fatbin::ImageBytes> contents = ReadImage(file, index);
  if (!contents) {
    reading.image.readable = false;
    reading.damages.push_back(
        DamageOf(file.file.path(), image, index, image.offset, contents.error()));
  } else if (image.kind == ImageKind::kCubin) {
    ReadCubinImage(file.file.path(), image, contents->bytes(), reading);
  } else {
    ReadPtxImage(file.file.path(), image, contents->text(), reading);
  }
  return reading;
}

// One result per wanted image, in the order of `wanted`, whichever thread read it.
std::vector<Reading> ReadImages(const fatbin::ImageFile& file,
                                const std::vector<uint32_t>& wanted) {
  std::vector<Reading> readings(wanted.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < wanted.size();) {
      readings[i] = ReadOne(file, wanted[i]);
    }
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(cores, wanted.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return readings;
}

uint32_t SmOf(const std::string& arch) {
  const size_t at = arch.find('_');
  uint32_t sm = 0;
  if (at != std::string::npos) {
    std::from_chars(arch.data() + at + 1, arch.data() + arch.size(), sm);
  }
  return sm;
}

class KernelTable {
 public:
  explicit KernelTable(const std::string& filter) : filter_(filter) {}

  void Add(const InspectedImage& image) {
    if (image.cubin) {
      for (const fatbin::CubinKernel& facts : image.cubin->kernels) {
        InspectedKernel* kernel = Find(facts.name);
        if (kernel == nullptr) continue;
        kernel->code.push_back({image.index, SmOf(image.arch), image.arch, image.unit, facts});
      }
    }
    std::unordered_map<std::string_view, const passes::KernelRefusals*> refusals;
    for (const passes::KernelRefusals& refusal : image.refusals) {
      refusals.emplace(refusal.kernel, &refusal);
    }
    for (const ptx::KernelFeatures& features : image.ptx_kernels) {
      InspectedKernel* kernel = Find(features.kernel);
      if (kernel == nullptr) continue;
      kernel->linked_together = kernel->linked_together || image.unit;
      KernelPtx ptx{image.index, SmOf(image.arch), image.arch, features.notes, {}, {}};
      if (const auto at = refusals.find(features.kernel); at != refusals.end()) {
        ptx.preemptible_refusal = at->second->preemptible;
        ptx.sliced_refusal = at->second->sliced;
      }
      kernel->ptx.push_back(std::move(ptx));
    }
  }

  std::vector<InspectedKernel> Take() {
    for (InspectedKernel& kernel : kernels_) {
      std::stable_sort(kernel.code.begin(), kernel.code.end(),
                       [](const KernelCode& a, const KernelCode& b) {
                         return a.sm != b.sm       ? a.sm < b.sm
                                : a.arch != b.arch ? a.arch < b.arch
                                                   : a.unit < b.unit;
                       });
      std::stable_sort(kernel.ptx.begin(), kernel.ptx.end(),
                       [](const KernelPtx& a, const KernelPtx& b) {
                         return a.sm != b.sm ? a.sm < b.sm : a.arch < b.arch;
                       });
      KeepFirstPerArch(kernel.code);
      KeepFirstPerArch(kernel.ptx);
    }
    return std::move(kernels_);
  }

 private:
  template <typename Entry>
  static void KeepFirstPerArch(std::vector<Entry>& entries) {
    const auto same = [](const Entry& a, const Entry& b) { return a.arch == b.arch; };
    entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
  }

  // The row of the kernel with this name; null if the filter leaves it out.
  InspectedKernel* Find(const std::string& name) {
    const auto [at, fresh] = rows_.try_emplace(name, kLeftOut);
    if (!fresh) return at->second == kLeftOut ? nullptr : &kernels_[at->second];
    std::string demangled = Demangle(name);
    const bool wanted = filter_.empty() || name.find(filter_) != std::string::npos ||
                        demangled.find(filter_) != std::string::npos;
    if (!wanted) return nullptr;
    at->second = kernels_.size();
    kernels_.push_back(InspectedKernel{.name = name, .demangled = std::move(demangled)});
    return &kernels_.back();
  }

  static constexpr size_t kLeftOut = SIZE_MAX;
  const std::string& filter_;
  std::vector<InspectedKernel> kernels_;
  std::unordered_map<std::string, size_t> rows_;
};

// The last entry whose architecture is not above `sm`, else the first. The entries are in order of
// architecture.
template <typename Entry>
const Entry* EntryFor(const std::vector<Entry>& entries, uint32_t sm) {
  const Entry* best = nullptr;
  for (const Entry& entry : entries) {
    if (best == nullptr || entry.sm <= sm) best = &entry;
  }
  return best;
}

}  // namespace

const KernelCode* InspectedKernel::CodeFor(uint32_t sm) const { return EntryFor(code, sm); }

const KernelPtx* InspectedKernel::PtxFor(uint32_t sm) const { return EntryFor(ptx, sm); }

std::string Demangle(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? std::string(text.get()) : name;
}

Result<fatbin::ImageBytes> ReadImage(const fatbin::ImageFile& file, uint32_t index) {
  if (index >= file.images.images.size()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "there is no image " + std::to_string(index) + "; this file has " +
                         std::to_string(file.images.images.size()) + ", counted from 0",
                     Location{.file = file.file.path()});
  }
  Result<fatbin::ImageBytes> contents = file.images.images[index].Contents();
  if (!contents) contents.error().where.file = file.file.path();
  return contents;
}

Result<Inspection> Inspect(const std::string& path, const InspectOptions& options) {
  Result<fatbin::ImageFile> file = fatbin::OpenImageFile(path);
  if (!file) return file.error();
  const size_t count = file->images.images.size();
  std::vector<uint32_t> wanted;
  for (uint32_t i = 0; i < count; ++i) {
    if (!options.image || *options.image == i) wanted.push_back(i);
  }
  if (options.image && wanted.empty()) return ReadImage(*file, *options.image).error();
  Inspection inspection;
  inspection.damages = file->images.damages;
  KernelTable table(options.kernels);
  for (Reading& reading : ReadImages(*file, wanted)) {
    table.Add(reading.image);
    reading.image.cubin.reset();  // the table has its facts now
    reading.image.ptx_kernels.clear();
    reading.image.refusals.clear();
    for (Error& damage : reading.damages) inspection.damages.push_back(std::move(damage));
    inspection.images.push_back(std::move(reading.image));
  }
  inspection.kernels = table.Take();
  inspection.file = *std::move(file);
  return inspection;
}

}  // namespace cupola
