#include "profiles/report/launch_report.h"

#include <cstdio>

#include "base/utf8.h"
#include "profiles/kernel_name.h"

namespace cupola {
namespace {

std::string CountText(uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string DurationText(uint64_t ns) {
  char text[40];
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) {
    std::snprintf(text, sizeof text, "%.1f us", value / 1e3);
  } else if (ns < 1'000'000'000) {
    std::snprintf(text, sizeof text, "%.1f ms", value / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.2f s", value / 1e9);
  }
  return text;
}

std::string TimeText(const WayUse& use) {
  if (use.source == TimeSource::kNone) return "GPU time unknown";
  return DurationText(use.gpu_ns) + " of GPU time, " + std::string(kTimeSourceWords[static_cast<size_t>(use.source)]);
}

std::string FileName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// As a JSON string. Bytes that are not UTF-8 are replaced.
void AppendString(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    uint32_t point = 0;
    const size_t bytes = DecodeUtf8(text, &point);
    if (bytes == 0) {
      out += "\\ufffd";
    } else if (point == '"' || point == '\\') {
      out += {'\\', text[0]};
    } else if (point < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", point);
      out += escaped;
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  out += '"';
}

void AppendMember(std::string& out, std::string_view key, std::string_view text) {
  AppendString(out, key);
  out += ':';
  AppendString(out, text);
  out += ',';
}

void AppendMember(std::string& out, std::string_view key, uint64_t number) {
  AppendString(out, key);
  out += ':' + std::to_string(number) + ',';
}

/// Ends an object or array: the comma behind its last element becomes `end`.
void Close(std::string& out, char end) {
  if (out.back() == ',') out.pop_back();
  out += end;
}

void AppendUse(std::string& out, const WayUse& use) {
  AppendMember(out, "launches", use.launches);
  AppendMember(out, "gpu_ns", use.gpu_ns);
  AppendMember(out, "gpu_time", kTimeSourceWords[static_cast<size_t>(use.source)]);
}

void AppendReason(std::string& out, const ReasonUse& use) {
  const ReasonText& text = TextOf(use.reason);
  out += '{';
  AppendMember(out, "better", kWayWords[static_cast<size_t>(use.better)]);
  AppendMember(out, "reason", text.words);
  AppendMember(out, "launches", use.launches);
  AppendMember(out, "sentence", text.sentence);
  AppendMember(out, "remedy", text.remedy);
  AppendMember(out, "detail", use.detail);
  Close(out, '}');
}

void AppendKernel(std::string& out, const KernelUse& kernel) {
  out += '{';
  AppendMember(out, "name", kernel.name);
  AppendMember(out, "demangled", KernelDisplayName(kernel.name));
  AppendUse(out, TotalOf(kernel));
  AppendMember(out, "failed", kernel.failed);
  out += "\"ways\":{";
  for (size_t i = 0; i < kWays; ++i) {
    if (kernel.ways[i].launches == 0) continue;
    AppendString(out, kWayWords[i]);
    out += ":{";
    AppendUse(out, kernel.ways[i]);
    Close(out, '}');
    out += ',';
  }
  Close(out, '}');
  out += ",\"reasons\":[";
  for (const ReasonUse& use : kernel.reasons) {
    AppendReason(out, use);
    out += ',';
  }
  Close(out, ']');
  out += '}';
}

// "Step(int*)": names hold what the program put there, so nothing but visible characters is shown, and no end of a line.
std::string Shown(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    uint32_t point = 0;
    const size_t bytes = DecodeUtf8(text, &point);
    shown += bytes != 0 && IsVisible(point) ? text.substr(0, bytes) : "?";
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return shown;
}

}  // namespace

WayUse TotalOf(const KernelUse& kernel) {
  WayUse total{.source = TimeSource::kMeasured};
  for (size_t i = 0; i < kWays; ++i) {
    const WayUse& use = kernel.ways[i];
    total.launches += use.launches;
    if (use.launches == 0 || static_cast<Way>(i) == Way::kCaptured) continue;
    total.gpu_ns += use.gpu_ns;
    if (use.source < total.source) total.source = use.source;
  }
  if (total.launches == kernel.ways[static_cast<size_t>(Way::kCaptured)].launches) total.source = TimeSource::kNone;
  if (total.source == TimeSource::kNone) total.gpu_ns = 0;
  return total;
}

std::string KernelUseText(const KernelUse& kernel, std::string_view indent) {
  const WayUse total = TotalOf(kernel);
  const std::string begin(indent);
  std::string out = begin + Shown(KernelDisplayName(kernel.name)) + ": " +
                    CountText(total.launches, "launch", "launches") + ", " + TimeText(total) + "\n";
  for (size_t i = 0; i < kWays; ++i) {
    const WayUse& use = kernel.ways[i];
    if (use.launches == 0) continue;
    out += begin + "  " + std::to_string(use.launches) + " " + std::string(kWayWords[i]);
    out += static_cast<Way>(i) == Way::kCaptured ? "\n" : ": " + TimeText(use) + "\n";
  }
  if (kernel.failed != 0) out += begin + "  " + std::to_string(kernel.failed) + " failed\n";
  for (const ReasonUse& use : kernel.reasons) {
    const ReasonText& text = TextOf(use.reason);
    out += begin + "  " + std::to_string(use.launches) +
           (use.better == Way::kTask ? " no task: " : " not preemptible: ") + std::string(text.words) + ". " +
           std::string(text.sentence) + "\n";
    if (!use.detail.empty()) out += begin + "    " + Shown(use.detail) + "\n";
    out += begin + "    remedy: " + std::string(text.remedy) + "\n";
  }
  return out;
}

std::string ReportText(const LaunchReport& report) {
  const std::string label = "cupola " + std::to_string(report.pid) + ": ";
  uint64_t launches = 0;
  for (const KernelUse& kernel : report.kernels) launches += TotalOf(kernel).launches;
  std::string out = label + Shown(FileName(report.program)) + ": " + CountText(report.kernels.size(), "kernel", "kernels") + ", " +
                    CountText(launches, "launch", "launches") + "\n";
  for (const KernelUse& kernel : report.kernels) out += KernelUseText(kernel, label);
  return out;
}

std::string ReportJson(const LaunchReport& report) {
  std::string out = "{";
  AppendMember(out, "pid", static_cast<uint64_t>(report.pid));
  AppendMember(out, "program", report.program);
  out += "\"kernels\":[";
  for (const KernelUse& kernel : report.kernels) {
    AppendKernel(out, kernel);
    out += ',';
  }
  Close(out, ']');
  out += '}';
  return out;
}

}  // namespace cupola
