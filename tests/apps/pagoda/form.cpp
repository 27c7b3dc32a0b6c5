#include "form.h"

#include <chrono>
#include <cstdio>

namespace pagoda {
namespace {

double NowMs() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Result {
  double prepare_ms = 0;
  std::vector<double> ms;
  uint64_t checksum = 0;
  bool is_right = true;
};

const char* Name(Copies copies) {
  switch (copies) {
    case Copies::kNone:
      return "none";
    case Copies::kCalls:
      return "calls";
    case Copies::kBulk:
      return "bulk";
    case Copies::kInside:
      return "inside";
  }
  return "";
}

void PrintHead(const char* app, const std::string& form, const Config& config, size_t tasks) {
  std::printf("{\"app\": \"%s\", \"form\": \"%s\", \"tasks\": %zu, \"threads\": %u", app,
              form.c_str(), tasks, config.threads);
  if (config.blocks > 1) std::printf(", \"blocks\": %u", config.blocks);
  if (config.size > 0) std::printf(", \"size\": %u", config.size);
  if (config.irregular) std::printf(", \"irregular\": true");
  if (!config.shared) std::printf(", \"shared\": false");
}

void Print(const char* app, const Options& options, const Bed& bed, const NamedForm& named,
           const Result& result) {
  PrintHead(app, named.name, bed.config(), bed.task_count());
  std::printf(", \"copies\": \"%s\"", Name(named.copies));
  if (!named.form->note().empty()) std::printf(", \"note\": \"%s\"", named.form->note().c_str());
  if (options.times) {
    std::printf(", \"prepare_ms\": %.3f, \"ms\": [", result.prepare_ms);
    for (size_t i = 0; i < result.ms.size(); ++i) {
      std::printf(i > 0 ? ", %.4f" : "%.4f", result.ms[i]);
    }
    std::printf("]");
    if (named.form->latency_us() > 0)
      std::printf(", \"latency_us\": %.3f", named.form->latency_us());
  }
  std::printf(", \"checksum\": \"%016llx\", \"equal\": %s}\n",
              static_cast<unsigned long long>(result.checksum), result.is_right ? "true" : "false");
  std::fflush(stdout);
}

/// Whether results are those of the forms before: bit by bit among those of the GPU, nearly between
/// these and the CPU.
class Judge {
 public:
  Judge(const Bed& bed, CompareResults compare) : bed_(bed), compare_(compare) {}

  bool IsRight(bool is_cpu, uint64_t checksum) {
    Side& side = is_cpu ? cpu_ : gpu_;
    if (side.is_known) return checksum == side.checksum;
    side = {true, checksum};
    const char* const out = bed_.host().out;
    if (!first_.empty()) return compare_(bed_.load(), out, first_.data()) < 0;
    if (keeps_first_) first_.assign(out, out + bed_.load().out_bytes);
    return true;
  }
  /// The first form's results are kept, to be compared with the other side's.
  void KeepFirst() { keeps_first_ = true; }

 private:
  struct Side {
    bool is_known = false;
    uint64_t checksum = 0;
  };

  const Bed& bed_;
  CompareResults compare_;
  Side cpu_, gpu_;
  bool keeps_first_ = false;
  std::vector<char> first_;
};

}  // namespace

bool Measure(const char* app, const Options& options, Bed& bed, std::vector<NamedForm>& forms,
             CompareResults compare) {
  std::vector<Result> results(forms.size());
  Judge judge(bed, compare);
  for (size_t i = 0; i < forms.size(); ++i) {
    const double start = NowMs();
    forms[i].form->Prepare();
    results[i].prepare_ms = NowMs() - start;
    if (forms[i].form->is_cpu()) judge.KeepFirst();
  }
  for (unsigned round = 0; round <= options.repeat; ++round) {
    const bool is_looked_at = round == 0 || round == options.repeat;
    for (size_t i = 0; i < forms.size(); ++i) {
      Form& form = *forms[i].form;
      const bool copies = forms[i].copies != Copies::kNone;
      if (form.is_cpu() && round > 0) continue;  // slow, and there is nothing to warm up
      if (is_looked_at) bed.Forget(copies && !form.is_cpu());
      if (is_looked_at && !copies) bed.Start(bed.host().table);
      bed.Reset(copies);
      const double start = NowMs();
      form.Run();
      const double ms = NowMs() - start;
      if (round > 0 || form.is_cpu()) results[i].ms.push_back(ms);
      if (!is_looked_at) continue;
      if (!copies && !form.is_cpu()) bed.Fetch();
      results[i].checksum = bed.Checksum();
      results[i].is_right &= judge.IsRight(form.is_cpu(), results[i].checksum);
    }
  }
  bool all_right = true;
  for (size_t i = 0; i < forms.size(); ++i) {
    Print(app, options, bed, forms[i], results[i]);
    all_right &= results[i].is_right;
  }
  return all_right;
}

void PrintUnable(const char* app, const std::string& form, const Config& config,
                 const std::string& why) {
  PrintHead(app, form, config, config.tasks);
  std::printf(", \"unable\": \"%s\"}\n", why.c_str());
  std::fflush(stdout);
}

}  // namespace pagoda
