#include "cli/launch_report_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "models/plan_file.h"
#include "profiles/profile_file.h"

namespace cupola {
namespace {

using Object = nlohmann::json;

std::string TextOfMember(const Object& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

uint64_t NumberOfMember(const Object& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_number_unsigned() ? at->get<uint64_t>() : 0;
}

/// The elements of an array that are objects.
template <typename Visit>
void ForEachObject(const Object& object, const char* name, Visit visit) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_array()) return;
  for (const Object& element : *at) {
    if (element.is_object()) visit(element);
  }
}

template <size_t kWords>
size_t IndexOf(const std::string_view (&words)[kWords], const std::string& word) {
  return static_cast<size_t>(std::find(std::begin(words), std::end(words), word) - std::begin(words));
}

WayUse WayUseOf(const Object& object) {
  const size_t source = IndexOf(kTimeSourceWords, TextOfMember(object, "gpu_time"));
  return {.launches = NumberOfMember(object, "launches"),
          .gpu_ns = NumberOfMember(object, "gpu_ns"),
          .source = source < static_cast<size_t>(TimeSource::kCount) ? static_cast<TimeSource>(source) : TimeSource::kNone};
}

KernelUse KernelUseOf(const Object& object) {
  KernelUse kernel{.name = TextOfMember(object, "name"), .failed = NumberOfMember(object, "failed")};
  const auto ways = object.find("ways");
  for (size_t i = 0; ways != object.end() && ways->is_object() && i < kWays; ++i) {
    const auto way = ways->find(std::string(kWayWords[i]));
    if (way != ways->end() && way->is_object()) kernel.ways[i] = WayUseOf(*way);
  }
  ForEachObject(object, "reasons", [&](const Object& reason) {
    const size_t better = IndexOf(kWayWords, TextOfMember(reason, "better"));
    const ReasonUse use{.better = static_cast<Way>(better),
                        .reason = ReasonOf(TextOfMember(reason, "reason")),
                        .launches = NumberOfMember(reason, "launches"),
                        .detail = TextOfMember(reason, "detail")};
    if (better < kWays && use.reason != Reason::kNone) kernel.reasons.push_back(use);
  });
  return kernel;
}

LaunchReport ReportOf(const Object& object) {
  LaunchReport report{.pid = static_cast<int64_t>(NumberOfMember(object, "pid")), .program = TextOfMember(object, "program")};
  ForEachObject(object, "kernels", [&](const Object& kernel) { report.kernels.push_back(KernelUseOf(kernel)); });
  return report;
}

Object Parse(std::string_view text) { return Object::parse(text, nullptr, /*allow_exceptions=*/false); }

Error FileError(const std::string& path) {
  const int error = errno;
  return MakeError(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, std::strerror(error), Location{.file = path});
}

}  // namespace

Result<std::vector<LaunchReport>> ReadReports(const std::string& path) {
  std::ifstream file(path);
  if (!file) return FileError(path);
  std::ostringstream whole;
  whole << file.rdbuf();
  std::vector<LaunchReport> reports;
  const auto add = [&](const Object& object) {
    if (object.is_object() && object.contains("kernels")) reports.push_back(ReportOf(object));
  };
  if (const Object object = Parse(whole.str()); object.is_object() && object.contains("processes")) {
    ForEachObject(object, "processes", add);
    return reports;
  }
  std::istringstream lines(whole.str());
  for (std::string line; std::getline(lines, line);) add(Parse(line));
  if (reports.empty()) return MakeError(ErrorCode::kDamaged, "is no report", Location{.file = path});
  return reports;
}

std::string ReportsJson(const std::vector<LaunchReport>& reports) {
  std::string json = "{\"processes\":[";
  for (const LaunchReport& report : reports) json += (json.back() == '[' ? "" : ",") + ReportJson(report);
  return json + "]}";
}

std::string LastReportPath() {
  const std::string folder = models::ProfilesFolder();
  return folder.empty() ? "" : folder + "/last-report.json";
}

Status KeepLastReport(const std::string& json) {
  const std::string path = LastReportPath();
  if (path.empty()) return MakeError(ErrorCode::kIo, "no folder for profiles: set CUPOLA_PROFILES or HOME");
  return profiles::WriteFileWhole(path, json);
}

}  // namespace cupola
