// `cupola build` without its command line: every device image of some files to a bundle in the
// variant store, with as many compilers at a time as there are cores. What is in the store already
// is not built again. Synchronous; one call at a time in a process is the intended use.
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
  uint32_t arch = 90;                                ///< of the device: 90 for sm_90
  std::string kernels;                               ///< which kernels: see NamePattern; "" = all
  uint32_t jobs = 0;                                 ///< compilers at a time; 0 = one per core
  bool rebuild = false;                              ///< build what the store has too
  uint64_t store_limit = store::kDefaultStoreLimit;  ///< bytes
  std::chrono::milliseconds limit{120'000};          ///< of one compilation of a module
};

enum class ImageState : uint8_t {
  kBuilt,
  kInStore,  ///< nothing to do
  kRefused,  ///< nothing can be built from it: `reason`
  kFailed,   ///< something went wrong: `reason`
};

/// The lower-case words for a state ("built", "in store" ...).
const char* ToString(ImageState state);

/// One kernel of an image, as its bundle has it.
struct KernelReport {
  std::string name;         ///< mangled
  uint32_t flags = 0;       ///< store::VariantFlag
  std::string refusal;      ///< why variants are missing
  std::string differences;  ///< of its floating-point operations from the original's
  std::string task_refusal; ///< why it cannot be a task of a MasterKernel; "" = it can
  uint32_t registers = 0, variant_registers = 0, sliced_registers = 0;
  uint32_t static_shared = 0, variant_static_shared = 0;  ///< bytes
  uint32_t local_bytes = 0, variant_local_bytes = 0;      ///< per thread
  uint32_t threads = 0;     ///< of the block that the occupancies are for
  Occupancy before, after;  ///< without dynamic shared memory
};

struct ImageReport {
  std::string file;
  uint64_t offset = 0;  ///< of the container in the file
  std::string section;
  ImageState state = ImageState::kFailed;
  std::string reason;
  std::vector<KernelReport> kernels;
  uint32_t compilations = 0;
  uint64_t bundle_bytes = 0;
  double seconds = 0;
};

struct BuildReport {
  std::vector<ImageReport> images;  ///< in the order of files and of their offsets
  std::vector<Error> problems;      ///< damaged images, store entries that were not used ...
  store::Eviction evicted;
};

/// Told of each image when it is done, one call at a time: how many are, of how many.
using BuildProgress = std::function<void(const ImageReport& image, size_t done, size_t total)>;

/// Builds all images of `files`. Errors: kInvalidArgument for a bad regular expression. A file that
/// cannot be read is a problem in the report, and so is a store that cannot be written.
Result<BuildReport> BuildFiles(const std::vector<std::string>& files, const BuildOptions& options,
                               const Compiler& compiler, const store::StoreWriter& store,
                               const BuildProgress& progress = {});

/// A kernel that BuildFiles would look at.
struct ListedKernel {
  std::string file;
  std::string name;     ///< mangled
  std::string refusal;  ///< why it cannot have any variant; "" = it can have one
};

/// The kernels of `files` that `options` ask for, with what the passes say of them; compiles
/// nothing. Files and images that cannot be read are passed over. Errors: kInvalidArgument.
Result<std::vector<ListedKernel>> ListKernels(const std::vector<std::string>& files,
                                              const BuildOptions& options);

}  // namespace cupola::build
