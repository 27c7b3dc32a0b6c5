// pagoda_forms_<app>: an application in all its forms by turns, one process. PAGODA_HEADER and
// PAGODA_APP say which. README.md lists the forms.
#include PAGODA_HEADER
#include "cpu_form.h"
#include "fused_forms.cuh"
#include "graph_form.cuh"
#include "streams_form.cuh"
#include "task_forms.cuh"

namespace pagoda {
namespace {

using App = PAGODA_APP;

struct Row {
  const char* name;
  std::vector<Copies> copies;  // the ways it can do them, the usual one first
  std::unique_ptr<Form> (*make)(const Bed&, Copies, const Options&);
};

template <Fusion kFusion>
std::unique_ptr<Form> MakeFused(const Bed& bed, Copies copies, const Options&) {
  return std::make_unique<FusedForm<App>>(bed, copies, kFusion);
}

template <unsigned kHostThreads>
std::unique_ptr<Form> MakeStreams(const Bed& bed, Copies copies, const Options&) {
  return std::make_unique<StreamsForm<App>>(bed, copies, kHostThreads);
}

std::unique_ptr<Form> MakeGraph(const Bed& bed, Copies copies, const Options&) {
  return std::make_unique<GraphForm<App>>(bed, copies);
}

std::unique_ptr<Form> MakeTasks(const Bed& bed, Copies copies, const Options& options) {
  return std::make_unique<TasksForm<App>>(bed, copies, 0, options.latency);
}

std::unique_ptr<Form> MakeTasksBatched(const Bed& bed, Copies copies, const Options&) {
  return std::make_unique<TasksForm<App>>(bed, copies, bed.config().batch, false);
}

std::unique_ptr<Form> MakeCpu(const Bed& bed, Copies, const Options&) {
  return std::make_unique<CpuForm<App>>(bed);
}

const Row kRows[] = {
    {"cpu", {Copies::kCalls}, MakeCpu},
    {"streams", {Copies::kCalls}, MakeStreams<1>},
    {"streams8", {Copies::kCalls}, MakeStreams<8>},
    {"graph", {Copies::kCalls}, MakeGraph},
    {"fused", {Copies::kBulk, Copies::kInside}, MakeFused<Fusion::kFused>},
    {"persistent", {Copies::kBulk, Copies::kInside}, MakeFused<Fusion::kPersistent>},
    {"batched", {Copies::kBulk, Copies::kInside}, MakeFused<Fusion::kBatched>},
    {"tasks", {Copies::kInside, Copies::kBulk}, MakeTasks},
    {"tasks-batched", {Copies::kInside}, MakeTasksBatched},
};

const std::pair<const char*, Copies> kCopies[] = {{"none", Copies::kNone},
                                                  {"calls", Copies::kCalls},
                                                  {"bulk", Copies::kBulk},
                                                  {"inside", Copies::kInside}};

/// `word` is a form, or form:copies.
NamedForm Find(const std::string& word, const Bed& bed, const Options& options) {
  const size_t colon = word.find(':');
  for (const Row& row : kRows) {
    if (word.substr(0, colon) != row.name) continue;
    Copies copies = bed.config().copies ? row.copies[0] : Copies::kNone;
    bool is_possible = colon == std::string::npos;
    for (const auto& [name, which] : kCopies) {
      if (colon == std::string::npos || word.substr(colon + 1) != name) continue;
      copies = which;
      is_possible = which == Copies::kNone ||
                    std::find(row.copies.begin(), row.copies.end(), which) != row.copies.end();
    }
    if (is_possible) return {word, copies, row.make(bed, copies, options)};
  }
  std::fprintf(stderr, "no form \"%s\"\n", word.c_str());
  std::exit(2);
}

bool Run(Bed& bed, const Options& options) {
  std::vector<NamedForm> forms;
  for (size_t at = 0; at <= options.forms.size();) {
    const size_t end = std::min(options.forms.find(',', at), options.forms.size());
    forms.push_back(Find(options.forms.substr(at, end - at), bed, options));
    at = end + 1;
  }
  return Measure(App::kName, options, bed, forms, App::FirstWrongTask);
}

}  // namespace
}  // namespace pagoda

int main(int argc, char** argv) {
  const pagoda::Options options = pagoda::ReadOptions(argc, argv);
  const bool good = pagoda::ForEachConfig<pagoda::App>(
      options, [&](pagoda::Bed& bed) { return pagoda::Run(bed, options); });
  return good ? 0 : 1;
}
