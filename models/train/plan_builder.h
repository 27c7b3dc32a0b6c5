// PlanBuilder: puts a plan (models/plan.h) together and gives its bytes. One thread.
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
  /// `gpu` as of GpuFileName; cut at 63 bytes.
  PlanBuilder(std::string_view gpu, const Machine& machine);

  /// Adds a model and returns what PlanKernel::model is to be.
  uint32_t AddModel(const TrainedModel& trained);

  /// Adds a kernel. `configurations` may come in any order, each number once. Of the same name and
  /// image the last one counts. `kernel`: name_offset and the configurations' place are filled in
  /// here.
  void AddKernel(std::string_view name, PlanKernel kernel,
                 std::vector<PlanConfiguration> configurations);

  /// The file.
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
