// The JSON of profiles/profile_file.h. Reading checks every type and range itself, so that a
// message can say where the text is wrong. Nothing here throws.
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "profiles/profile_file.h"

namespace cupola::profiles {
namespace {

using Json = nlohmann::ordered_json;

/// Reads values out of a document and keeps the first error. A value that cannot be read is 0 or
/// empty, and reading goes on; the caller asks ok() at the end. `where` is the path of a value in
/// the document, as "kernels[2].launches[0]", for messages.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  bool ok() const { return !error_.has_value(); }
  Error error() const { return *error_; }

  void Fail(const std::string& where, const char* what) {
    if (error_) return;
    const std::string text = where.empty() ? what : where + ": " + what;
    error_ = MakeError(ErrorCode::kDamaged, text, {.file = file_});
  }

  /// The member `key` of an object; null where it is absent or `object` is no object.
  const Json* Find(const Json& object, const char* key, const std::string& where) {
    if (!object.is_object()) {
      Fail(where, "expected an object");
      return nullptr;
    }
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }

  /// A whole number from 0 to the largest one that Number can hold.
  template <typename Number>
  Number Whole(const Json& value, const std::string& where) {
    if (!value.is_number_unsigned() ||
        value.get<uint64_t>() > uint64_t{std::numeric_limits<Number>::max()}) {
      Fail(where, "expected a whole number");
      return 0;
    }
    return static_cast<Number>(value.get<uint64_t>());
  }

  /// Reads a member that must be there, or that may be absent where `fallback` is given.
  template <typename Number>
  Number Whole(const Json& object, const char* key, const std::string& where,
               std::optional<Number> fallback = {}) {
    const Json* value = Find(object, key, where);
    if (value != nullptr) return Whole<Number>(*value, where + "." + key);
    if (!fallback) Fail(where, (std::string("lacks \"") + key + "\"").c_str());
    return fallback.value_or(0);
  }

  /// A whole number that may be below 0. This member and those of the next three must be there.
  int64_t Signed(const Json& object, const char* key, const std::string& where) {
    const Json* value = Find(object, key, where);
    if (value == nullptr) {
      Fail(where, (std::string("lacks \"") + key + "\"").c_str());
    } else if (value->is_number_integer() &&
               (!value->is_number_unsigned() || value->get<uint64_t>() <= INT64_MAX)) {
      return value->get<int64_t>();
    } else {
      Fail(where + "." + key, "expected a whole number, perhaps below 0");
    }
    return 0;
  }

  double Real(const Json& object, const char* key, const std::string& where) {
    const Json* value = Find(object, key, where);
    if (value != nullptr && value->is_number()) return value->get<double>();
    Fail(where + "." + key, "expected a number");
    return 0;
  }

  std::string Text(const Json& object, const char* key, const std::string& where) {
    const Json* value = Find(object, key, where);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    Fail(where + "." + key, "expected a text");
    return "";
  }

  void Dimensions(const Json& object, const char* key, const std::string& where,
                  uint32_t (&out)[3]) {
    const Json* value = Find(object, key, where);
    const std::string here = where + "." + key;
    if (value == nullptr || !value->is_array() || value->size() != 3) {
      Fail(here, "expected three whole numbers");
      return;
    }
    for (size_t i = 0; i < 3; ++i) out[i] = Whole<uint32_t>((*value)[i], here);
  }

  /// Calls `read(element, where)` for each element of an array that may be absent.
  template <typename Read>
  void Each(const Json& object, const char* key, const std::string& where, const Read& read) {
    const Json* list = Find(object, key, where);
    if (list == nullptr) return;
    const std::string here = where.empty() ? key : where + "." + key;
    if (!list->is_array()) return Fail(here, "expected a list");
    for (size_t i = 0; i < list->size() && ok(); ++i) {
      read((*list)[i], fmt::format("{}[{}]", here, i));
    }
  }

 private:
  std::string file_;
  std::optional<Error> error_;
};

GpuFacts ReadGpu(Reader& in, const Json& gpu) {
  GpuFacts facts;
  facts.when = in.Whole<uint64_t>(gpu, "when", "gpu");
  facts.name = in.Text(gpu, "name", "gpu");
  facts.driver = in.Text(gpu, "driver", "gpu");
  facts.arch = in.Whole<uint32_t>(gpu, "arch", "gpu");
  facts.sms = in.Whole<uint32_t>(gpu, "sms", "gpu");
  facts.threads_per_sm = in.Whole<uint32_t>(gpu, "threads_per_sm", "gpu");
  facts.blocks_per_sm = in.Whole<uint32_t>(gpu, "blocks_per_sm", "gpu");
  facts.registers_per_sm = in.Whole<uint32_t>(gpu, "registers_per_sm", "gpu");
  facts.shared_per_sm = in.Whole<uint32_t>(gpu, "shared_per_sm", "gpu");
  return facts;
}

LaunchSample ReadLaunch(Reader& in, const Json& launch, const std::string& where) {
  LaunchSample sample;
  sample.when = in.Whole<uint64_t>(launch, "when", where);
  sample.ns = in.Whole<uint64_t>(launch, "ns", where);
  in.Dimensions(launch, "grid", where, sample.grid);
  in.Dimensions(launch, "block", where, sample.block);
  sample.dynamic_shared = in.Whole<uint32_t>(launch, "dynamic_shared", where, 0);
  if (const Json* bytes = in.Find(launch, "input_bytes", where)) {
    sample.input_bytes = in.Whole<uint64_t>(*bytes, where + ".input_bytes");
  }
  in.Each(launch, "arguments", where, [&](const Json& value, const std::string& here) {
    sample.arguments.emplace_back();
    if (!value.is_null()) sample.arguments.back() = in.Whole<uint64_t>(value, here);
  });
  return sample;
}

/// Reads a claim word (claim_word.h) from "batch", which is L, "in_grid_order", "one_worker_less"
/// and "worker_eighths" of an object.
uint32_t ReadClaims(Reader& in, const Json& object, const std::string& where) {
  const auto batch = in.Whole<uint32_t>(object, "batch", where);
  if (batch == 0 || batch > kMostClaimBatch) {
    in.Fail(where + ".batch", "expected at least 1 and less than 2^27");
  }
  const auto eighths = in.Whole<uint32_t>(object, "worker_eighths", where, kAllEighths);
  if (eighths == 0 || eighths > kAllEighths) {
    in.Fail(where + ".worker_eighths", "expected 1 to 8");
  }
  const auto is_set = [&](const char* name) {
    const Json* flag = in.Find(object, name, where);
    if (flag != nullptr && !flag->is_boolean()) {
      in.Fail(where + "." + name, "expected true or false");
    }
    return flag != nullptr && flag->is_boolean() && flag->get<bool>();
  };
  return batch | WorkerEighths(eighths) | (is_set("in_grid_order") ? kClaimsInGridOrder : 0) |
         (is_set("one_worker_less") ? kOneWorkerLess : 0);
}

/// Writes a claim word as ReadClaims reads it, with the overhead that was measured for it. Members
/// that have their usual value are left out.
void AddClaims(uint32_t word, double overhead_percent, Json* json) {
  (*json)["batch"] = ClaimBatch(word);
  if (IsInGridOrder(word)) (*json)["in_grid_order"] = true;
  if (HasOneWorkerLess(word)) (*json)["one_worker_less"] = true;
  if (EighthsOf(word) != kAllEighths) (*json)["worker_eighths"] = EighthsOf(word);
  (*json)["overhead_percent"] = overhead_percent;
}

TunedBatch ReadTuned(Reader& in, const Json& tuned, const std::string& where) {
  TunedBatch result;
  result.when = in.Whole<uint64_t>(tuned, "when", where);
  result.batch = ReadClaims(in, tuned, where);
  result.overhead_percent = in.Real(tuned, "overhead_percent", where);
  result.bound_percent = in.Real(tuned, "bound_percent", where);
  result.block_ns = in.Whole<uint64_t>(tuned, "block_ns", where, 0);
  const Json* met = in.Find(tuned, "met", where);
  if (met == nullptr || !met->is_boolean()) {
    in.Fail(where + ".met", "expected true or false");
  } else {
    result.met = met->get<bool>();
  }
  in.Each(tuned, "tried", where, [&](const Json& one, const std::string& here) {
    result.tried[ReadClaims(in, one, here)] = in.Real(one, "overhead_percent", here);
  });
  return result;
}

PreemptionSample ReadPreemption(Reader& in, const Json& preemption, const std::string& where) {
  PreemptionSample sample;
  sample.when = in.Whole<uint64_t>(preemption, "when", where);
  sample.ns = in.Signed(preemption, "ns", where);
  sample.count = in.Whole<uint32_t>(preemption, "count", where, 1);
  if (sample.count == 0) in.Fail(where + ".count", "expected at least 1");
  return sample;
}

void ReadKernel(Reader& in, const Json& kernel, uint32_t version, const std::string& where,
                Profile* profile) {
  KernelProfile read;
  const std::string name = in.Text(kernel, "name", where);
  const std::string image = in.Text(kernel, "image", where);
  read.registers = in.Whole<uint32_t>(kernel, "registers", where);
  read.static_shared = in.Whole<uint32_t>(kernel, "static_shared", where);
  in.Each(kernel, "parameters", where, [&](const Json& one, const std::string& here) {
    const Json* pointer = in.Find(one, "pointer", here);
    read.parameters.push_back({in.Whole<uint32_t>(one, "offset", here),
                               in.Whole<uint32_t>(one, "bytes", here),
                               pointer != nullptr && pointer->is_boolean() &&
                                   pointer->get<bool>()});
  });
  in.Each(kernel, "launches", where, [&](const Json& one, const std::string& here) {
    read.launches.push_back(ReadLaunch(in, one, here));
  });
  // Preemptions of version 1 are left out: they are too short by the time for which the launch
  // drained, and never below 0.
  if (version > 1) {
    in.Each(kernel, "preemptions", where, [&](const Json& one, const std::string& here) {
      read.preemptions.push_back(ReadPreemption(in, one, here));
    });
  }
  if (const Json* tuned = in.Find(kernel, "tuned", where)) {
    read.tuned = ReadTuned(in, *tuned, where + ".tuned");
  }
  if (name.empty()) in.Fail(where + ".name", "expected a kernel's name");
  if (!profile->kernels.emplace(KernelKey(name, image), std::move(read)).second) {
    in.Fail(where, "the same kernel twice");
  }
}

Json Dimensions(const uint32_t (&v)[3]) { return Json::array({v[0], v[1], v[2]}); }

Json LaunchToJson(const LaunchSample& sample) {
  Json launch{{"when", sample.when}, {"ns", sample.ns}, {"grid", Dimensions(sample.grid)},
              {"block", Dimensions(sample.block)}};
  if (sample.dynamic_shared != 0) launch["dynamic_shared"] = sample.dynamic_shared;
  if (sample.input_bytes) launch["input_bytes"] = *sample.input_bytes;
  Json arguments = Json::array();
  for (const auto& argument : sample.arguments) {
    arguments.push_back(argument ? Json(*argument) : Json());
  }
  if (!arguments.empty()) launch["arguments"] = std::move(arguments);
  return launch;
}

Json TunedToJson(const TunedBatch& tuned) {
  Json tried = Json::array();
  for (const auto& [word, overhead] : tuned.tried) {
    AddClaims(word, overhead, &tried.emplace_back(Json::object()));
  }
  Json json{{"when", tuned.when}};
  AddClaims(tuned.batch, tuned.overhead_percent, &json);
  json["bound_percent"] = tuned.bound_percent;
  json["met"] = tuned.met;
  json["block_ns"] = tuned.block_ns;
  json["tried"] = std::move(tried);
  return json;
}

/// Writes "key": [ ... ] with each element on a line of its own.
template <typename Samples, typename Convert>
std::string List(const char* key, const Samples& samples, const Convert& convert) {
  std::string text = fmt::format("   \"{}\": [", key);
  const char* separator = "\n    ";
  for (const auto& sample : samples) {
    text += separator + convert(sample).dump(-1, ' ', false, Json::error_handler_t::replace);
    separator = ",\n    ";
  }
  return text + "]";
}

/// The text of a kernel. It is put together by hand around List, because the JSON library cannot
/// write one launch a line. Bytes of a text that are no UTF-8 are replaced.
std::string KernelToJson(const KernelKey& key, const KernelProfile& kernel) {
  const auto quoted = [](const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text = fmt::format(
      "  {{\n   \"name\": {}, \"image\": {}, \"registers\": {}, \"static_shared\": {},\n",
      quoted(key.first), quoted(key.second), kernel.registers, kernel.static_shared);
  text += List("parameters", kernel.parameters, [](const Parameter& one) {
    Json parameter{{"offset", one.offset}, {"bytes", one.bytes}};
    if (one.pointer) parameter["pointer"] = true;
    return parameter;
  });
  text += ",\n" + List("launches", kernel.launches, LaunchToJson);
  text += ",\n" + List("preemptions", kernel.preemptions, [](const PreemptionSample& one) {
    Json preemption{{"when", one.when}, {"ns", one.ns}};
    if (one.count != 1) preemption["count"] = one.count;
    return preemption;
  });
  if (kernel.tuned) text += ",\n   \"tuned\": " + TunedToJson(*kernel.tuned).dump();
  return text + "\n  }";
}

}  // namespace

std::string ToJson(const Profile& given) {
  Profile profile = given;
  Normalize(&profile);
  const GpuFacts& gpu = profile.gpu;
  const Json facts{{"when", gpu.when}, {"name", gpu.name}, {"driver", gpu.driver},
                   {"arch", gpu.arch}, {"sms", gpu.sms}, {"threads_per_sm", gpu.threads_per_sm},
                   {"blocks_per_sm", gpu.blocks_per_sm},
                   {"registers_per_sm", gpu.registers_per_sm},
                   {"shared_per_sm", gpu.shared_per_sm}};
  std::string text = fmt::format("{{\n \"cupola_profile\": {},\n \"gpu\": {},\n \"kernels\": [",
                                 kProfileVersion,
                                 facts.dump(-1, ' ', false, Json::error_handler_t::replace));
  const char* separator = "\n";
  for (const auto& [key, kernel] : profile.kernels) {
    text += separator + KernelToJson(key, kernel);
    separator = ",\n";
  }
  return text + "]\n}\n";
}

Result<Profile> FromJson(std::string_view text, const std::string& file) {
  const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return MakeError(ErrorCode::kDamaged, "not JSON: cut short or damaged", {.file = file});
  }
  Reader in(file);
  const Json* version = document.is_object() ? in.Find(document, "cupola_profile", "") : nullptr;
  if (version == nullptr) {
    return MakeError(ErrorCode::kDamaged, "not a profile of Cupola (no \"cupola_profile\")",
                     {.file = file});
  }
  const auto number = in.Whole<uint32_t>(*version, "cupola_profile");
  if (in.ok() && (number == 0 || number > kProfileVersion)) {
    return MakeError(ErrorCode::kUnsupported,
                     fmt::format("a profile of version {}; this Cupola reads versions 1 to {}",
                                 number, kProfileVersion),
                     {.file = file});
  }
  Profile profile;
  if (const Json* gpu = in.Find(document, "gpu", "")) {
    profile.gpu = ReadGpu(in, *gpu);
  } else {
    in.Fail("", "lacks \"gpu\"");
  }
  in.Each(document, "kernels", "", [&](const Json& kernel, const std::string& where) {
    ReadKernel(in, kernel, number, where, &profile);
  });
  if (!in.ok()) return in.error();
  Normalize(&profile);
  return profile;
}

}  // namespace cupola::profiles
