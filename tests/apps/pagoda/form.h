// A way to run an application's tasks, and what measures several of them by turns. Host code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bed.h"
#include "options.h"

namespace pagoda {

class Form {
 public:
  virtual ~Form() = default;
  /// What is made once and not measured: streams, graphs, records. Waits.
  virtual void Prepare() {}
  /// Runs all tasks; returns when all results are where they belong. Measured.
  virtual void Run() = 0;
  virtual bool is_cpu() const { return false; }
  /// Mean time from a task's start on the host to its end as the host sees it; 0: not known.
  virtual double latency_us() const { return 0; }
  /// What else is worth knowing of how it runs.
  virtual std::string note() const { return ""; }
};

struct NamedForm {
  std::string name;
  Copies copies;
  std::unique_ptr<Form> form;
};

/// Compares results on the host with expected ones: the first task that differs, or -1.
using CompareResults = long (*)(const Workload&, const char* got, const char* expected);

/// Runs each form once, then --repeat times by turns; prints a line of JSON for each. False where
/// results differ. `app` is what the lines call it.
bool Measure(const char* app, const Options& options, Bed& bed, std::vector<NamedForm>& forms,
             CompareResults compare);

/// A line for a form that cannot run, with why.
void PrintUnable(const char* app, const std::string& form, const Config& config,
                 const std::string& why);

}  // namespace pagoda
