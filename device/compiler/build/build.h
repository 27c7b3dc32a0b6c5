// `cupola build` without its command line: makes a bundle in the variant store for every device
// image of some files, with as many compilers at a time as there are cores. It does not build again
// what the store already has. Synchronous; meant for one call at a time in a process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/compiler/build/compiler.h"
#include "device/compiler/build/occupancy.h"
#include "device/compiler/store/store_writer.h"

namespace cupola::build {

struct BuildOptions {
  uint32_t arch = 90;                                ///< architecture of the device: 90 for sm_90
  std::string kernels;                               ///< which kernels: see NamePattern; "": all
  uint32_t jobs = 0;                                 ///< compilers at a time; 0: one per core
  bool rebuild = false;                              ///< also build what the store already has
  uint64_t store_limit = store::kDefaultStoreLimit;  ///< bytes
  std::chrono::milliseconds limit{120'000};          ///< for one compilation of a module
};

enum class ImageState : uint8_t {
  kBuilt,
  kInStore,  ///< the store has the bundle: nothing to do
  kRefused,  ///< nothing can be built from the image: `reason`
  kFailed,   ///< something went wrong: `reason`
};

/// The lower-case words for a state ("built", "in store" ...).
const char* ToString(ImageState state);

/// One kernel of an image, as its bundle describes it. Members without a prefix are of the original
/// kernel, variant_ ones of the preemptible variant.
struct KernelReport {
  std::string name;          ///< mangled
  uint32_t flags = 0;        ///< store::VariantFlag
  std::string refusal;       ///< why variants are missing
  std::string differences;   ///< how variants' floating-point operations differ
  std::string task_refusal;  ///< why it cannot be a task of a MasterKernel; "": it can
  uint32_t registers = 0;    ///< per thread
  uint32_t variant_registers = 0;
  uint32_t sliced_registers = 0;  ///< of the sliced variant
  uint32_t static_shared = 0;     ///< bytes
  uint32_t variant_static_shared = 0;
  uint32_t local_bytes = 0;  ///< per thread
  uint32_t variant_local_bytes = 0;
  uint32_t threads = 0;  ///< threads of the block for which the occupancies are
  Occupancy before;      ///< of the original, without dynamic shared memory
  Occupancy after;       ///< of the preemptible variant, without dynamic shared memory
};

struct ImageReport {
  std::string file;
  uint64_t offset = 0;  ///< of the container in the file, in bytes
  std::string section;
  ImageState state = ImageState::kFailed;
  std::string reason;  ///< for kRefused and kFailed
  std::vector<KernelReport> kernels;
  uint32_t compilations = 0;  ///< runs of the compiler
  uint64_t bundle_bytes = 0;  ///< size of the bundle
  double seconds = 0;         ///< time that the image took
};

struct BuildReport {
  std::vector<ImageReport> images;  ///< in the order of files and of their offsets
  std::vector<Error> problems;      ///< damaged images, store entries that could not be used ...
  store::Eviction evicted;
};

/// Called for each image when it is done, one call at a time: `done` of `total` images are done.
using BuildProgress = std::function<void(const ImageReport& image, size_t done, size_t total)>;

/// Builds all images of `files`. Errors: kInvalidArgument for a bad regular expression. A file that
/// cannot be read and a store that cannot be written are problems in the report.
Result<BuildReport> BuildFiles(const std::vector<std::string>& files, const BuildOptions& options,
                               const Compiler& compiler, const store::StoreWriter& store,
                               const BuildProgress& progress = {});

/// A kernel that BuildFiles would build.
struct ListedKernel {
  std::string file;
  std::string name;     ///< mangled
  std::string refusal;  ///< why it cannot have any preemptible or sliced variant; "": it can have one
  /// Why it cannot have this form, as far as is known before compiling; "": it can.
  std::string preemptible_refusal, sliced_refusal, task_refusal;
  bool has_ptx = false;  ///< from which variants are built
};

/// The kernels of `files` for which `options` ask, with what the passes say of them. Compiles
/// nothing. Skips files and images that cannot be read. Errors: kInvalidArgument.
Result<std::vector<ListedKernel>> ListKernels(const std::vector<std::string>& files,
                                              const BuildOptions& options);

}  // namespace cupola::build
