#include <nlohmann/json.hpp>

#include "cli/inspect_print.h"

namespace cupola {
namespace {

using Json = nlohmann::ordered_json;

Json ContainerJson(const fatbin::ContainerPlace& place) {
  return {{"section", place.section},   {"offset", place.offset},
          {"address", place.address},   {"bytes", place.size},
          {"unit", place.is_unit},      {"first_image", place.first_image},
          {"images", place.image_count}};
}

Json ImageJson(const InspectedImage& inspected, const fatbin::Image& image, bool in_container) {
  Json json = {{"image", inspected.index},
               {"kind", ToString(image.kind)},
               {"arch", inspected.arch},
               {"version", inspected.version},
               {"offset", image.offset},
               {"bytes", image.uncompressed_size},
               {"packed_bytes", image.payload.size()},
               {"compression", ToString(image.compression)},
               {"flags", image.flags},
               {"name", std::string(image.name)},
               {"options", std::string(image.options)},
               {"unit", inspected.unit},
               {"kernels", inspected.kernel_count},
               {"readable", inspected.readable}};
  if (in_container) json["container"] = image.container;
  return json;
}

Json CodeJson(const KernelCode& code) {
  const fatbin::CubinKernel& facts = code.facts;
  Json json = {{"image", code.image},
               {"arch", code.arch},
               {"unit", code.unit},
               {"registers", facts.registers},
               {"shared_bytes", facts.shared_bytes},
               {"local_bytes", facts.frame_bytes},
               {"stack_bytes", facts.stack_bytes},
               {"param_bytes", facts.param_bytes},
               {"barriers", facts.barriers},
               {"mbarriers", facts.mbarriers},
               {"code_bytes", facts.code_bytes}};
  for (const fatbin::CubinParam& param : facts.params) {
    json["params"].push_back({{"offset", param.offset}, {"bytes", param.size}});
  }
  if (facts.max_threads) json["max_threads"] = *facts.max_threads;
  if (facts.required_threads) json["required_threads"] = *facts.required_threads;
  if (facts.cluster) json["cluster"] = *facts.cluster;
  return json;
}

Json ImagePtxJson(const KernelPtx& ptx) {
  Json json = {{"image", ptx.image}, {"arch", ptx.arch}, {"features", Json::array()}};
  for (const ptx::FeatureNote& note : ptx.features) {
    Json feature = {{"feature", ptx::ToString(note.feature)}};
    if (!note.detail.empty()) feature["detail"] = note.detail;
    json["features"].push_back(std::move(feature));
  }
  json["preemptible_refusal"] = ptx.preemptible_refusal;
  json["sliced_refusal"] = ptx.sliced_refusal;
  return json;
}

Json KernelJson(const InspectedKernel& kernel) {
  Json json = {{"name", kernel.name},
               {"demangled", kernel.demangled},
               {"has_ptx", !kernel.ptx.empty()},
               {"linked_together", kernel.linked_together},
               {"code", Json::array()},
               {"ptx", Json::array()}};
  for (const KernelCode& code : kernel.code) json["code"].push_back(CodeJson(code));
  for (const KernelPtx& ptx : kernel.ptx) json["ptx"].push_back(ImagePtxJson(ptx));
  return json;
}

}  // namespace

std::string InspectionJson(const Inspection& inspection) {
  const fatbin::FileImages& file = inspection.file.images;
  Json json = {{"file", inspection.file.file.path()},
               {"form", ToString(file.form)},
               {"build_id", file.build_id},
               {"containers", Json::array()},
               {"images", Json::array()},
               {"kernels", Json::array()},
               {"damages", Json::array()}};
  for (const fatbin::ContainerPlace& place : file.containers) {
    json["containers"].push_back(ContainerJson(place));
  }
  for (const InspectedImage& inspected : inspection.images) {
    json["images"].push_back(
        ImageJson(inspected, file.images[inspected.index], !file.containers.empty()));
  }
  for (const InspectedKernel& kernel : inspection.kernels) {
    json["kernels"].push_back(KernelJson(kernel));
  }
  for (const Error& damage : inspection.damages) {
    Json entry = {{"message", damage.message}};
    if (damage.where.offset) entry["offset"] = *damage.where.offset;
    if (damage.where.line != 0) entry["line"] = damage.where.line;
    json["damages"].push_back(std::move(entry));
  }
  // A damaged file may contain names that are not UTF-8; their wrong bytes are replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cupola
