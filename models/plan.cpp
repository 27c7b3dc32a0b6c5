#include "models/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cupola::models {
namespace {

Error Damaged(const char* what) {
  return MakeError(ErrorCode::kDamaged, std::string("damaged plan: ") + what);
}

template <typename Entry>
bool Fits(const PlanHeader& header, uint32_t count, uint32_t offset) {
  return offset >= sizeof(PlanHeader) && offset % 8 == 0 &&
         uint64_t{offset} + uint64_t{count} * sizeof(Entry) <= header.total_bytes;
}

bool IsSound(const PlanHeader& header, const PlanKernel& kernel) {
  if (kernel.name_offset >= header.names_bytes || kernel.arguments > kMostIntegers ||
      kernel.batch == 0 || static_cast<uint32_t>(kernel.mode) > 2 ||
      kernel.model > header.models || kernel.model_input > header.models ||
      kernel.first_configuration > header.configurations ||
      kernel.configurations > header.configurations - kernel.first_configuration) {
    return false;
  }
  return std::all_of(kernel.argument, kernel.argument + kernel.arguments, [](const auto& one) {
    return one.bytes == 1 || one.bytes == 2 || one.bytes == 4 || one.bytes == 8;
  });
}

bool IsSound(const PlanHeader& header, const PlanModel& model) {
  return model.first_term <= header.terms && model.terms <= header.terms - model.first_term &&
         std::isfinite(model.intercept_ns) && std::isfinite(model.spread) && model.spread >= 0 &&
         std::isfinite(model.floor_ns) && model.floor_ns > 0;
}

bool IsSound(const PlanTerm& term) {
  return std::isfinite(term.coefficient) && std::isfinite(term.knot) &&
         std::all_of(term.variable, term.variable + 4, [](uint8_t v) { return v < kVariables; });
}

bool IsSound(const PlanConfiguration& configuration) {
  return configuration.ns > 0 && configuration.ns < 1e15f && configuration.spread >= 0 &&
         configuration.spread < 1e3f;  // NaN fails this test too
}

}  // namespace

Result<PlanView> PlanView::Open(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(PlanHeader)) return Damaged("too short");
  PlanView view;
  view.bytes_ = bytes;
  view.header_ = reinterpret_cast<const PlanHeader*>(bytes.data());
  const PlanHeader& header = *view.header_;
  if (header.magic != kPlanMagic) return Damaged("not a plan");
  if (header.version != kPlanVersion) {
    return MakeError(ErrorCode::kUnsupported,
                     "a plan of version " + std::to_string(header.version) +
                         "; this Cupola reads version " + std::to_string(kPlanVersion) +
                         ": run `cupola train` again");
  }
  if (header.bytes_of_header != sizeof(PlanHeader) || header.total_bytes != bytes.size()) {
    return Damaged("cut short");
  }
  if (!Fits<PlanKernel>(header, header.kernels, header.kernels_offset) ||
      !Fits<PlanModel>(header, header.models, header.models_offset) ||
      !Fits<PlanTerm>(header, header.terms, header.terms_offset) ||
      !Fits<PlanConfiguration>(header, header.configurations, header.configurations_offset) ||
      !Fits<char>(header, header.names_bytes, header.names_offset)) {
    return Damaged("a part lies outside of the file");
  }
  if (memchr(header.gpu, '\0', sizeof(header.gpu)) == nullptr || header.names_bytes == 0 ||
      static_cast<char>(*view.At(header.names_offset + header.names_bytes - 1)) != '\0') {
    return Damaged("a name without an end");
  }
  const auto* models = reinterpret_cast<const PlanModel*>(view.At(header.models_offset));
  const auto* terms = reinterpret_cast<const PlanTerm*>(view.At(header.terms_offset));
  for (uint32_t i = 0; i < header.models; ++i) {
    if (!IsSound(header, models[i])) return Damaged("a model");
  }
  for (uint32_t i = 0; i < header.terms; ++i) {
    if (!IsSound(terms[i])) return Damaged("a term");
  }
  const auto* known =
      reinterpret_cast<const PlanConfiguration*>(view.At(header.configurations_offset));
  for (uint32_t i = 0; i < header.configurations; ++i) {
    if (!IsSound(known[i])) return Damaged("a configuration");
  }
  const PlanKernel* before = nullptr;
  for (const PlanKernel& kernel : view.kernels()) {
    if (!IsSound(header, kernel)) return Damaged("a kernel");
    if (before != nullptr) {
      const int order = strcmp(view.Name(*before), view.Name(kernel));
      if (order > 0 || (order == 0 && before->image >= kernel.image)) return Damaged("the order");
    }
    before = &kernel;
  }
  return view;
}

std::span<const PlanKernel> PlanView::kernels() const {
  return {reinterpret_cast<const PlanKernel*>(At(header_->kernels_offset)), header_->kernels};
}

const PlanModel& PlanView::Model(uint32_t index) const {
  return reinterpret_cast<const PlanModel*>(At(header_->models_offset))[index];
}

std::span<const PlanTerm> PlanView::Terms(const PlanModel& model) const {
  return {reinterpret_cast<const PlanTerm*>(At(header_->terms_offset)) + model.first_term,
          model.terms};
}

std::span<const PlanConfiguration> PlanView::Configurations(const PlanKernel& kernel) const {
  return {reinterpret_cast<const PlanConfiguration*>(At(header_->configurations_offset)) +
              kernel.first_configuration,
          kernel.configurations};
}

const char* PlanView::Name(const PlanKernel& kernel) const {
  return reinterpret_cast<const char*>(At(header_->names_offset)) + kernel.name_offset;
}

const PlanKernel* PlanView::Find(std::string_view name, uint64_t image) const noexcept {
  const auto all = kernels();
  const auto first = std::lower_bound(
      all.begin(), all.end(), name,
      [this](const PlanKernel& kernel, std::string_view wanted) { return Name(kernel) < wanted; });
  const PlanKernel* best = nullptr;
  for (auto at = first; at != all.end() && name == Name(*at); ++at) {
    if (at->image == image) return &*at;
    if (best == nullptr) best = &*at;  // an entry for any image has image 0 and is sorted first
  }
  return best;
}

bool PlanView::ChecksumHolds() const {
  return header_->checksum == HashBytes(reinterpret_cast<const char*>(At(sizeof(PlanHeader))),
                                        bytes_.size() - sizeof(PlanHeader));
}

uint32_t BatchFor(uint64_t block_ns) noexcept {
  constexpr uint64_t kWorkOfAClaim = 40'000;
  constexpr uint64_t kMostBatch = 64;
  // Not known: a value that does no harm with blocks of any measured length.
  if (block_ns == 0) return 4;
  return static_cast<uint32_t>(std::clamp<uint64_t>(kWorkOfAClaim / block_ns, 1, kMostBatch));
}

bool IsTunedFor(const PlanKernel& kernel, uint64_t block_ns) noexcept {
  constexpr uint64_t kAsLong = 4;
  if ((kernel.flags & kTuned) == 0) return false;
  if (block_ns == 0 || kernel.block_ns == 0) return true;
  return block_ns / kAsLong <= kernel.block_ns && kernel.block_ns / kAsLong <= block_ns;
}

}  // namespace cupola::models
