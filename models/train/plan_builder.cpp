#include "models/train/plan_builder.h"

#include <algorithm>
#include <cstring>

namespace cupola::models {
namespace {

template <typename Entry>
uint32_t Append(const std::vector<Entry>& entries, std::string* bytes) {
  bytes->resize((bytes->size() + 7) / 8 * 8);
  const auto offset = static_cast<uint32_t>(bytes->size());
  bytes->append(reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(Entry));
  return offset;
}

}  // namespace

PlanBuilder::PlanBuilder(std::string_view gpu, const Machine& machine) {
  header_.magic = kPlanMagic;
  header_.version = kPlanVersion;
  header_.bytes_of_header = sizeof(PlanHeader);
  memcpy(header_.gpu, gpu.data(), std::min(gpu.size(), sizeof(header_.gpu) - 1));
  header_.machine = machine;
}

uint32_t PlanBuilder::AddModel(const TrainedModel& trained) {
  PlanModel model = trained.model;
  model.first_term = static_cast<uint32_t>(terms_.size());
  model.terms = static_cast<uint32_t>(trained.terms.size());
  terms_.insert(terms_.end(), trained.terms.begin(), trained.terms.end());
  models_.push_back(model);
  return static_cast<uint32_t>(models_.size());
}

void PlanBuilder::AddKernel(std::string_view name, PlanKernel kernel,
                            std::vector<PlanConfiguration> configurations) {
  std::sort(configurations.begin(), configurations.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  kernels_[{std::string(name), kernel.image}] = {kernel, std::move(configurations)};
}

std::string PlanBuilder::Bytes() const {
  PlanHeader header = header_;
  std::vector<PlanKernel> kernels;
  std::vector<PlanConfiguration> configurations;
  std::vector<char> names;
  for (const auto& [key, entry] : kernels_) {
    PlanKernel kernel = entry.kernel;
    kernel.name_offset = static_cast<uint32_t>(names.size());
    names.insert(names.end(), key.first.begin(), key.first.end());
    names.push_back('\0');
    kernel.first_configuration = static_cast<uint32_t>(configurations.size());
    kernel.configurations = static_cast<uint32_t>(entry.configurations.size());
    configurations.insert(configurations.end(), entry.configurations.begin(),
                          entry.configurations.end());
    kernels.push_back(kernel);
  }
  if (names.empty()) names.push_back('\0');
  std::string bytes(sizeof(PlanHeader), '\0');
  header.kernels = static_cast<uint32_t>(kernels.size());
  header.kernels_offset = Append(kernels, &bytes);
  header.models = static_cast<uint32_t>(models_.size());
  header.models_offset = Append(models_, &bytes);
  header.terms = static_cast<uint32_t>(terms_.size());
  header.terms_offset = Append(terms_, &bytes);
  header.configurations = static_cast<uint32_t>(configurations.size());
  header.configurations_offset = Append(configurations, &bytes);
  header.names_bytes = static_cast<uint32_t>(names.size());
  header.names_offset = Append(names, &bytes);
  header.total_bytes = bytes.size();
  header.checksum =
      HashBytes(bytes.data() + sizeof(PlanHeader), bytes.size() - sizeof(PlanHeader));
  memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

}  // namespace cupola::models
