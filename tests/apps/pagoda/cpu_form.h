// Tasks on the host's processors, one thread a task (the paper's PThreads). Host code.
#pragma once

#include <cstring>

#include "form.h"

namespace pagoda {

template <class App>
class CpuForm : public Form {
 public:
  explicit CpuForm(const Bed& bed) : bed_(bed), records_(bed.task_count()) {}

  void Prepare() override {
    ParallelFor(records_.size(), [&](size_t i) {
      App::Describe(bed_.load(), bed_.config(), i, bed_.host(), records_[i].arguments);
    });
  }

  void Run() override {
    if (bed_.load().in_place) {
      std::memcpy(bed_.host().out, bed_.host().in, bed_.load().out_bytes);
    }
    size_t first = 0;
    for (const size_t last : bed_.load().wave_ends) {
      ParallelFor(last - first, [&](size_t i) { RunOne(first + i); });
      first = last;
    }
  }

  bool is_cpu() const override { return true; }

 private:
  void RunOne(size_t i) const {
    App::Kinds::With(bed_.load().tasks[i].kind, [&](auto tag) {
      using Kind = typename decltype(tag)::Type;
      Kind::Reference(*reinterpret_cast<const typename Kind::Args*>(records_[i].arguments));
    });
  }

  const Bed& bed_;
  std::vector<Record> records_;
};

}  // namespace pagoda
