// PlanFile: the plan of a GPU, found and mapped. Needs libc only; once a process, off the launch
// path. The mapping is kept until the object goes; predictions from it are for any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "models/plan.h"

namespace cupola::models {

/// The name of a GPU's files: "nvidia-h200" for "NVIDIA H200"; lower case, digits and single
/// dashes.
std::string GpuFileName(std::string_view device_name);

/// The folder of profiles and plans: $CUPOLA_PROFILES, else $XDG_DATA_HOME/cupola/profiles, else
/// $HOME/.local/share/cupola/profiles; "" where none of them is set to an absolute path.
std::string ProfilesFolder();

/// $CUPOLA_PLAN where it is set (also to ""; that means no plan), else <ProfilesFolder>/<gpu>.plan.
std::string PlanPath(std::string_view gpu_file_name);

class PlanFile {
 public:
  /// Maps the plan at `path`. kNotFound: no such file; kIo; else as PlanView::Open. A damaged
  /// checksum is kDamaged.
  static Result<PlanFile> Open(const std::string& path);

  PlanFile(PlanFile&& other) noexcept;
  PlanFile& operator=(PlanFile&& other) noexcept;
  ~PlanFile();

  const PlanView& view() const { return view_; }

 private:
  PlanFile(void* memory, size_t bytes, PlanView view)
      : memory_(memory), bytes_(bytes), view_(view) {}

  void* memory_;
  size_t bytes_;
  PlanView view_;
};

}  // namespace cupola::models
