#include "cli/why_command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/reasons.h"
#include "cli/commands.h"
#include "cli/inspect.h"
#include "cli/launch_report_file.h"
#include "device/compiler/build/build.h"
#include "device/compiler/store/store_writer.h"

namespace cupola {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// The options on the command line of `cupola why`.
struct WhyOptions {
  std::string what;
  std::string report;  ///< "": the last one
  bool json = false;
  bool list = false;
};

constexpr char kWhyFooter[] =
    "\nWHAT is the path of a program, library, fatbin or PTX text: then each of its kernels is listed with the forms that "
    "`cupola build` can make of it, and for others the reason and a remedy. Nothing is compiled, so what only the compiler "
    "refuses is not known.\n"
    "\nElse WHAT is the name of a kernel, mangled or not, or a part of it: then its launches in the last launch report are "
    "listed by the way in which they went out, and why they went no better one; and which forms of it the variant store "
    "has.\nThe launch report is what `cupola run --report` prints (not the page that `cupola report` makes); the last one "
    "is kept as last-report.json in CUPOLA_PROFILES.\n"
    "\nExamples:\n"
    "  cupola why ./app                        what can be built from a program, and why not\n"
    "  cupola run --report -- ./app; cupola why reduce\n"
    "  cupola why --list                       all reasons, each with a remedy\n"
    "\nExit codes: 0 done, 1 the kernel or file is not known or cannot be read, 2 wrong usage.\n";

constexpr std::string_view kPtxRemedy =
    "Compile it with PTX for this GPU, such as nvcc -gencode arch=compute_90,code=[sm_90,compute_90].";
constexpr std::string_view kKernelRemedy =
    "Change the kernel so that it does without that; docs/limits.md lists what each form cannot have.";

/// A form of a kernel: whether it can be, or is, built, and why not.
struct FormFacts {
  std::string_view form;
  bool is_possible = false;
  bool is_exact = true;
  std::string refusal;
  std::string_view remedy;  ///< "" where it is possible
};

struct KernelFacts {
  std::string where;  ///< the file, or the key of the bundle
  std::string name;   ///< mangled
  std::vector<FormFacts> forms;
};

void SetRemedy(FormFacts* form, bool has_ptx) {
  if (!form->is_possible) form->remedy = has_ptx ? kKernelRemedy : kPtxRemedy;
  if (form->is_possible && !form->is_exact) form->remedy = TextOf(Reason::kInexact).remedy;
}

KernelFacts FactsOf(const build::ListedKernel& kernel) {
  KernelFacts facts{.where = kernel.file, .name = kernel.name};
  const auto add = [&](std::string_view form, const std::string& refusal) {
    FormFacts one{.form = form, .is_possible = refusal.empty(), .refusal = refusal};
    SetRemedy(&one, kernel.has_ptx);
    facts.forms.push_back(std::move(one));
  };
  add("task", kernel.task_refusal);
  add("preemptible", kernel.preemptible_refusal);
  add("sliced", kernel.sliced_refusal);
  return facts;
}

KernelFacts FactsOf(const std::string& key, const store::BundleView& bundle, const store::KernelEntry& entry) {
  KernelFacts facts{.where = key, .name = bundle.Text(entry.name_offset)};
  const std::string refusal = bundle.Text(entry.refusal_offset), task_refusal = bundle.Text(entry.task_refusal_offset);
  const auto add = [&](std::string_view form, uint32_t made, uint32_t inexact, const std::string& why) {
    FormFacts one{.form = form, .is_possible = (entry.flags & made) != 0, .is_exact = (entry.flags & inexact) == 0};
    if (!one.is_possible) one.refusal = why;
    SetRemedy(&one, /*has_ptx=*/true);
    facts.forms.push_back(std::move(one));
  };
  add("task", store::kTask, store::kTaskNotBitExact, task_refusal.empty() ? refusal : task_refusal);
  add("preemptible", store::kPreemptible, store::kNotBitExact, refusal);
  add("sliced", store::kSliced, store::kSlicedNotBitExact, refusal);
  return facts;
}

std::string FactsText(const KernelFacts& facts) {
  std::string out = fmt::format("{}: {}\n", facts.where, Demangle(facts.name));
  for (const FormFacts& form : facts.forms) {
    const char* const state = form.is_possible ? form.is_exact ? "yes" : "not bit-exact" : "no";
    out += fmt::format("  {:<11} {}{}\n", form.form, state, form.refusal.empty() ? "" : ": " + form.refusal);
    if (!form.remedy.empty()) out += fmt::format("              remedy: {}\n", form.remedy);
  }
  return out;
}

OrderedJson FactsJson(const std::vector<KernelFacts>& all) {
  OrderedJson kernels = OrderedJson::array();
  for (const KernelFacts& facts : all) {
    OrderedJson forms = OrderedJson::object();
    for (const FormFacts& form : facts.forms) {
      forms[std::string(form.form)] = {{"possible", form.is_possible},
                                       {"bit_exact", form.is_possible && form.is_exact},
                                       {"refusal", form.refusal},
                                       {"remedy", form.remedy}};
    }
    kernels.push_back({{"where", facts.where}, {"name", facts.name}, {"demangled", Demangle(facts.name)}, {"forms", forms}});
  }
  return kernels;
}

void Print(const OrderedJson& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, OrderedJson::error_handler_t::replace));
}

void ExplainBinary(const WhyOptions& options) {
  if (Result<fatbin::ImageFile> file = fatbin::OpenImageFile(options.what); !file) Fail(file.error());
  const Result<std::vector<build::ListedKernel>> listed = build::ListKernels({options.what}, {});
  if (!listed) Fail(listed.error());
  std::vector<KernelFacts> all;
  for (const build::ListedKernel& kernel : *listed) all.push_back(FactsOf(kernel));
  if (options.json) return Print({{"kernels", FactsJson(all)}});
  for (const KernelFacts& facts : all) fmt::print("{}", Printable(FactsText(facts)));
  if (all.empty()) fmt::print("{}: no kernels\n", Printable(options.what));
}

bool Matches(const std::string& name, const std::string& wanted) {
  return name.find(wanted) != std::string::npos || Demangle(name).find(wanted) != std::string::npos;
}

/// The launches of the kernel in the report, one report for each process that has some.
std::vector<LaunchReport> FindInReport(const WhyOptions& options) {
  RequireAbsolute("CUPOLA_PROFILES");
  const std::string path = options.report.empty() ? LastReportPath() : options.report;
  Result<std::vector<LaunchReport>> reports = ReadReports(path);
  if (!reports) {
    const bool is_just_missing = options.report.empty() && reports.error().code == ErrorCode::kNotFound;
    if (!is_just_missing) Fail(reports.error());
    return {};
  }
  std::vector<LaunchReport> found;
  for (LaunchReport& report : *reports) {
    std::erase_if(report.kernels, [&](const KernelUse& kernel) { return !Matches(kernel.name, options.what); });
    if (!report.kernels.empty()) found.push_back(std::move(report));
  }
  return found;
}

std::vector<KernelFacts> FindInStore(const std::string& wanted) {
  std::vector<KernelFacts> found;
  const std::string folder = store::VariantStore::DefaultFolder();
  if (std::error_code ignored; folder.empty() || !std::filesystem::exists(folder, ignored)) return found;
  const Result<store::StoreWriter> writer = store::StoreWriter::Open(folder);
  if (!writer) Fail(writer.error());
  const Result<std::vector<store::StoredBundle>> bundles = writer->List();
  if (!bundles) Fail(bundles.error());
  for (const store::StoredBundle& bundle : *bundles) {
    const Result<store::MappedBundle> mapped = writer->store().FindByKey(bundle.key);
    if (!mapped) continue;
    const store::BundleView& view = mapped->view();
    for (const store::KernelEntry& entry : view.kernels()) {
      if (!Matches(view.Text(entry.name_offset), wanted)) continue;
      found.push_back(FactsOf("bundle " + bundle.key.substr(0, 12), view, entry));
    }
  }
  return found;
}

void ExplainKernel(const WhyOptions& options) {
  const std::vector<LaunchReport> used = FindInReport(options);
  RequireAbsolute("CUPOLA_STORE");
  const std::vector<KernelFacts> stored = FindInStore(options.what);
  if (used.empty() && stored.empty()) {
    Fail(MakeError(ErrorCode::kNotFound,
                   fmt::format("{}: neither a file, nor a kernel of the last report or of the variant store", options.what)));
  }
  if (options.json) {
    const OrderedJson report = OrderedJson::parse(ReportsJson(used));
    return Print({{"processes", report["processes"]}, {"kernels", FactsJson(stored)}});
  }
  for (const LaunchReport& report : used) fmt::print("{}", Printable(ReportText(report)));
  for (const KernelFacts& facts : stored) fmt::print("{}", Printable(FactsText(facts)));
}

void ListReasons(bool json) {
  OrderedJson all = OrderedJson::array();
  for (const ReasonText& text : kReasonTexts) {
    if (json) {
      all.push_back({{"reason", text.words}, {"sentence", text.sentence}, {"remedy", text.remedy}});
    } else {
      fmt::print("{}\n  {}\n  remedy: {}\n", text.words, text.sentence, text.remedy);
    }
  }
  if (json) Print({{"reasons", all}});
}

void RunWhy(const WhyOptions& options) {
  if (options.list) return ListReasons(options.json);
  if (options.what.empty()) {
    Fail(MakeError(ErrorCode::kInvalidArgument, "name a kernel or a file; `cupola why --help` says more"), kExitUsage);
  }
  std::error_code ignored;
  const bool is_file = options.what.find('/') != std::string::npos || std::filesystem::exists(options.what, ignored);
  is_file ? ExplainBinary(options) : ExplainKernel(options);
}

}  // namespace

void AddWhyCommand(CLI::App& app) {
  auto options = std::make_shared<WhyOptions>();
  CLI::App* why = app.add_subcommand("why", "Say why launches of a kernel went out as they did, and what to do");
  why->add_option("WHAT", options->what, "A kernel, or the path of a binary");
  why->add_option("--report", options->report, "A launch report in place of the last one, from cupola run --report=FILE");
  why->add_flag("--list", options->list, "List all reasons, each with a remedy");
  why->add_flag("--json", options->json, "Print one JSON object instead of text");
  why->footer(kWhyFooter);
  why->callback([options] { RunWhy(*options); });
}

}  // namespace cupola
