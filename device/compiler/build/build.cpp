#include "device/compiler/build/build.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "device/compiler/build/image_choice.h"
#include "device/compiler/build/module_build.h"
#include "device/compiler/build/name_pattern.h"
#include "device/compiler/fatbin/elf_images.h"
#include "device/compiler/store/sha256.h"

namespace cupola::build {
namespace {

using fatbin::Bytes;
using store::VariantFlag;

// One image to build. Its file stays mapped.
struct Job {
  const fatbin::ImageFile* file;
  ImageChoice choice;
  bool ptx_is_beside = false;  ///< the PTX is of another file than the image
};

KernelReport ReportOf(const store::BundleView& view, const store::KernelEntry& entry) {
  KernelReport kernel;
  kernel.name = view.Text(entry.name_offset);
  kernel.flags = entry.flags;
  kernel.refusal = view.Text(entry.refusal_offset);
  kernel.differences = view.Text(entry.exactness_offset);
  kernel.task_refusal = view.Text(entry.task_refusal_offset);
  kernel.registers = entry.registers;
  kernel.variant_registers = entry.variant_registers;
  kernel.sliced_registers = entry.sliced_registers;
  kernel.static_shared = entry.static_shared;
  kernel.variant_static_shared = entry.variant_static_shared;
  kernel.local_bytes = entry.local_bytes;
  kernel.variant_local_bytes = entry.variant_local_bytes;
  kernel.threads = entry.max_threads == 0 ? kAssumedThreads : entry.max_threads;
  const uint32_t arch = view.header().arch;
  kernel.before = OccupancyOf({kernel.threads, entry.registers, entry.static_shared}, arch);
  kernel.after =
      OccupancyOf({kernel.threads, entry.variant_registers, entry.variant_static_shared}, arch);
  return kernel;
}

class Run {
 public:
  Run(const BuildOptions& options, const Compiler& compiler, const store::StoreWriter& store,
      const BuildProgress& progress, NamePattern kernels)
      : options_(options),
        compiler_(compiler),
        store_(store),
        progress_(progress),
        kernels_(std::move(kernels)) {}

  void AddFile(const std::string& path);
  BuildReport Finish();

 private:
  void Work();
  ImageReport Build(const Job& job);
  void BuildInto(ImageReport& report, const Job& job);
  void Compile(ImageReport& report, const Job& job, const std::string& key);
  bool TakeFromStore(ImageReport& report, const std::string& key);
  void Publish(ImageReport& report, const Job& job, const std::string& key,
               std::span<const std::byte> bundle);
  void LinkTo(const Job& job, const std::string& key);
  void Describe(ImageReport& report, const store::BundleView& view) const;
  std::string KeyOf(const Job& job) const;
  void Problem(Error error);

  const BuildOptions& options_;
  const Compiler& compiler_;
  const store::StoreWriter& store_;
  const BuildProgress& progress_;
  NamePattern kernels_;
  std::vector<std::unique_ptr<fatbin::ImageFile>> files_;
  std::vector<Job> jobs_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;  // guards all members below
  size_t done_ = 0;
  BuildReport report_;
};

void Run::Problem(Error error) {
  const std::lock_guard lock(mutex_);
  report_.problems.push_back(std::move(error));
}

void Run::AddFile(const std::string& path) {
  Result<fatbin::ImageFile> file = fatbin::OpenImageFile(path);
  if (!file) {
    if (file.error().where.file.empty()) file.error().where.file = path;
    return Problem(file.error());
  }
  for (const Error& damage : file->images.damages) Problem(damage);
  files_.push_back(std::make_unique<fatbin::ImageFile>(*std::move(file)));
  const fatbin::ImageFile& own = *files_.back();
  Result<std::unique_ptr<fatbin::ImageFile>> beside = OpenPtxBeside(own, path);
  if (!beside) Problem(beside.error());
  const fatbin::ImageFile* const ptx = beside ? beside->get() : nullptr;
  for (ImageChoice& choice : ChooseImages(own, options_.arch, ptx)) {
    const bool is_beside = ptx != nullptr && choice.ptx != nullptr;
    jobs_.push_back({&own, std::move(choice), is_beside});
  }
  if (ptx != nullptr) files_.push_back(*std::move(beside));
}

// The key of a bundle: a digest of all on which the bundle depends.
std::string Run::KeyOf(const Job& job) const {
  store::Sha256 hash;
  hash.Add(fmt::format("cupola {} {} {} {}\n{}\n{}\n", store::kPassVersion, CUPOLA_PASS_DIGEST,
                       sizeof(store::BundleHeader) + sizeof(store::KernelEntry), options_.arch,
                       compiler_.version(), options_.kernels));
  hash.Add(store::HexOf(job.choice.digest));
  if (job.ptx_is_beside) {  // else the PTX is a part of what the digest is of
    if (const auto ptx = job.choice.ptx->Contents()) hash.Add(ptx->text());
  }
  return store::HexOf(hash.Finish());
}

void Run::Describe(ImageReport& report, const store::BundleView& view) const {
  for (const store::KernelEntry& entry : view.kernels()) {
    report.kernels.push_back(ReportOf(view, entry));
  }
  report.bundle_bytes = view.header().total_bytes;
}

bool Run::TakeFromStore(ImageReport& report, const std::string& key) {
  const Result<store::MappedBundle> bundle = store_.store().FindByKey(key);
  if (!bundle) {
    if (bundle.error().code != ErrorCode::kNotFound) Problem(bundle.error());
    return false;
  }
  if ((bundle->view().header().flags & store::kIncomplete) != 0) return false;
  Describe(report, bundle->view());
  report.state = ImageState::kInStore;
  return true;
}

// Makes the links by which the preloaded library finds the bundle.
void Run::LinkTo(const Job& job, const std::string& key) {
  const ImageChoice& choice = job.choice;
  std::vector<std::string> links = {
      store::ContentsLink(choice.identity.size(), choice.digest, options_.arch)};
  const std::vector<uint8_t> build_id = BytesOfHex(job.file->images.build_id);
  std::string place = store::PlaceLink(build_id, choice.offset, options_.arch);
  if (!place.empty()) links.push_back(std::move(place));
  for (const std::string& link : links) {
    if (Status done = store_.Link(link, key); !done) Problem(done.error());
  }
}

void Run::Publish(ImageReport& report, const Job& job, const std::string& key,
                  std::span<const std::byte> bundle) {
  if (Status done = store_.Publish(key, bundle); !done) {
    report.state = ImageState::kFailed;
    report.reason = "cannot be stored: " + done.error().ToString();
    return;
  }
  LinkTo(job, key);
}

void Run::Compile(ImageReport& report, const Job& job, const std::string& key) {
  const ImageChoice& choice = job.choice;
  const Result<fatbin::ImageBytes> ptx = choice.ptx->Contents();
  const Result<fatbin::ImageBytes> cubin =
      choice.cubin != nullptr ? choice.cubin->Contents() : fatbin::ImageBytes();
  if (!ptx) {
    report.reason = ptx.error().ToString();
    return;
  }
  ModuleInput input{.name = fmt::format("{}+{:#x}", report.file, report.offset),
                    .ptx = ptx->text(),
                    .options = choice.ptx->options,
                    .arch = options_.arch};
  if (choice.ptx->arch == options_.arch) input.arch_suffix = choice.ptx->arch_suffix;
  if (cubin) input.shipped_cubin = cubin->bytes();
  ModuleOptions options{.wants = [this](const std::string& name) { return kernels_.Matches(name); },
                        .limit = options_.limit};
  Result<BuiltModule> built = BuildModule(input, options, compiler_);
  if (!built) {
    report.reason = built.error().ToString();
    return;
  }
  report.compilations = built->compilations;
  report.state = ImageState::kBuilt;
  if (built->bundle.empty()) {
    report.state = ImageState::kRefused;
    report.reason = kernels_.matches_all() ? "no kernels" : "no kernel of that name";
    return;
  }
  const Result<store::BundleView> view = store::BundleView::Open(built->bundle);
  if (!view) {
    report.state = ImageState::kFailed;
    report.reason = view.error().ToString();
    return;
  }
  Describe(report, *view);
  Publish(report, job, key, built->bundle);
}

void Run::BuildInto(ImageReport& report, const Job& job) {
  if (!job.choice.refusal.empty()) {
    report.state = ImageState::kRefused;
    report.reason = job.choice.refusal;
    for (const std::string& kernel : job.choice.kernels_without_ptx) {
      if (!kernels_.Matches(kernel)) continue;
      report.kernels.push_back({.name = kernel, .refusal = job.choice.refusal});
    }
    return;
  }
  const std::string key = KeyOf(job);
  if (!options_.rebuild && TakeFromStore(report, key)) return LinkTo(job, key);
  const Result<store::KeyLock> lock = store_.Lock(key);
  if (!lock) {
    report.reason = "cannot be stored: " + lock.error().ToString();
    return;
  }
  // Another builder may have built it while this one waited for the lock.
  if (!options_.rebuild && TakeFromStore(report, key)) return LinkTo(job, key);
  Compile(report, job, key);
}

ImageReport Run::Build(const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  ImageReport report;
  report.file = job.file->file.path();
  report.offset = job.choice.offset;
  report.section = job.choice.section;
  BuildInto(report, job);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

void Run::Work() {
  for (size_t at = next_++; at < jobs_.size(); at = next_++) {
    ImageReport report = Build(jobs_[at]);
    const std::lock_guard lock(mutex_);
    report_.images[at] = std::move(report);
    ++done_;
    if (progress_) progress_(report_.images[at], done_, jobs_.size());
  }
}

BuildReport Run::Finish() {
  report_.images.resize(jobs_.size());
  const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t count = std::min<size_t>(options_.jobs == 0 ? cores : options_.jobs, jobs_.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back([this] { Work(); });
  Work();
  for (std::thread& thread : threads) thread.join();
  Result<store::Eviction> evicted = store_.Evict(options_.store_limit);
  if (evicted) {
    report_.evicted = *evicted;
  } else {
    Problem(evicted.error());
  }
  return std::move(report_);
}

}  // namespace

const char* ToString(ImageState state) {
  switch (state) {
    case ImageState::kBuilt:
      return "built";
    case ImageState::kInStore:
      return "in store";
    case ImageState::kRefused:
      return "refused";
    case ImageState::kFailed:
      return "failed";
  }
  return "unknown";
}

Result<BuildReport> BuildFiles(const std::vector<std::string>& files, const BuildOptions& options,
                               const Compiler& compiler, const store::StoreWriter& store,
                               const BuildProgress& progress) {
  Result<NamePattern> kernels = NamePattern::Make(options.kernels);
  if (!kernels) return kernels.error();
  Run run(options, compiler, store, progress, *std::move(kernels));
  std::set<std::string> seen;
  for (const std::string& file : files) {
    if (seen.insert(file).second) run.AddFile(file);
  }
  return run.Finish();
}

}  // namespace cupola::build
