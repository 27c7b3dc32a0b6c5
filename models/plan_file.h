// PlanFile: finds and maps the plan of a GPU. It needs only libc. A process opens it once, off the
// launch path, and owns it; the mapping lasts as long as the object. Any thread may predict from
// it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "models/plan.h"

namespace cupola::models {

/// The name of a GPU's files, such as "nvidia-h200" for "NVIDIA H200": lower case, digits and
/// single dashes.
std::string GpuFileName(std::string_view device_name);

/// The folder of profiles and plans: $CUPOLA_PROFILES, else $XDG_DATA_HOME/cupola/profiles, else
/// $HOME/.local/share/cupola/profiles; "" where none of them is set to an absolute path.
std::string ProfilesFolder();

/// $CUPOLA_PLAN where it is set (set to "" it means no plan), else <ProfilesFolder>/<gpu>.plan.
std::string PlanPath(std::string_view gpu_file_name);

class PlanFile {
 public:
  /// Maps the plan at `path`. Errors: kNotFound: there is no such file; kIo; kDamaged where the
  /// checksum does not hold; else those of PlanView::Open.
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
