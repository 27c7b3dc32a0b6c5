// PlanBuilder: puts a plan (models/plan.h) together and returns its bytes. TrainProfile makes one.
// One thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/plan.h"
#include "models/train/select.h"

namespace cupola::models {

class PlanBuilder {
 public:
  /// `gpu` is a name as GpuFileName makes it, cut to 63 bytes.
  PlanBuilder(std::string_view gpu, const Machine& machine);

  /// Adds a model. Returns the value for PlanKernel::model.
  uint32_t AddModel(const TrainedModel& trained);

  /// Adds a kernel; of two with the same name and image the later one counts. `configurations` may
  /// come in any order, each number once. In `kernel`, the builder itself fills in name_offset and
  /// the configurations' place.
  void AddKernel(std::string_view name, PlanKernel kernel,
                 std::vector<PlanConfiguration> configurations);

  /// The bytes of the plan's file.
  std::string Bytes() const;

 private:
  struct Entry {
    PlanKernel kernel;
    std::vector<PlanConfiguration> configurations;
  };
  PlanHeader header_{};
  std::map<std::pair<std::string, uint64_t>, Entry> kernels_;
  std::vector<PlanModel> models_;
  std::vector<PlanTerm> terms_;
};

}  // namespace cupola::models
