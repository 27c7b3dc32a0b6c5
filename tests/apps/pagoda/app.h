// An application: the kinds of tasks it has, and how many of which. Host code; a kind's body is the
// only device code. A kind is a structure with
//   Args         arguments, Io first, 64 bytes at most
//   Run          the body, over a Block
//   Reference    the same on the host, by one thread
//   Arguments, OutBytes      of a task
//   Output, kTolerance       type of the results, and how far the CPU's may be from the GPU's
//   kSize, kQuantum          size of a problem, and what it is a multiple of
// and what KindDefaults has, where it wants it otherwise.
#pragma once

#include <cmath>
#include <cstring>

#include "options.h"
#include "parallel.h"
#include "workload.h"

namespace pagoda {

struct KindDefaults {
  static constexpr bool kBarrier = false;
  static constexpr size_t kTableBytes = 0;  // constants that all tasks read
  static void FillTable(char*) {}
  static unsigned SizeOf(const Item&, unsigned size) { return size; }
  static size_t InBytes(unsigned) { return 0; }
  static void FillInput(const Item&, char*) {}
  static unsigned SharedBytes(unsigned /*threads*/, unsigned /*size*/) { return 0; }
};

template <class Kind>
struct KindTag {
  using Type = Kind;
};

template <class... K>
struct KindList {
  static constexpr bool HasBarriers() { return (K::kBarrier || ...); }

  /// Calls call(KindTag<the kind of that index>{}).
  template <class Call>
  static void With(unsigned kind, const Call& call) {
    unsigned index = 0;
    ((index++ == kind ? call(KindTag<K>{}) : void()), ...);
  }
};

inline size_t RoundUp(size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Results that are too far apart: the first one's index, or -1.
template <class Output>
long FirstWrong(const char* got, const char* expected, size_t bytes, double tolerance) {
  const auto *a = reinterpret_cast<const Output*>(got),
             *b = reinterpret_cast<const Output*>(expected);
  for (size_t i = 0; i < bytes / sizeof(Output); ++i) {
    const double error = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(error <= tolerance * std::fmax(1.0, std::fabs(static_cast<double>(b[i]))))) {
      return static_cast<long>(i);
    }
  }
  return -1;
}

/// Tasks that do not depend on each other. `App::KindOf(config, number)` chooses each one's kind;
/// by default they take turns.
template <class App, class... K>
struct Independent {
  using Kinds = KindList<K...>;

  static unsigned KindOf(const Config&, unsigned number) { return number % sizeof...(K); }

  static Workload Make(const Config& config) {
    Workload load;
    load.tasks.reserve(config.tasks);
    for (unsigned i = 0; i < config.tasks; ++i) {
      const unsigned kind = App::KindOf(config, i);
      Kinds::With(kind,
                  [&](auto tag) { AddTask<typename decltype(tag)::Type>(config, kind, &load); });
    }
    load.wave_ends = {load.tasks.size()};
    return load;
  }

  static size_t TableBytes() { return (RoundUp(K::kTableBytes) + ... + 0); }

  static void FillTable(char* table) {
    ((K::FillTable(table), table += RoundUp(K::kTableBytes)), ...);
  }

  static void FillInput(const Workload& load, const Config& config, char* in) {
    ParallelFor(load.tasks.size(), [&](size_t i) {
      const Task& task = load.tasks[i];
      Kinds::With(task.kind, [&](auto tag) {
        decltype(tag)::Type::FillInput(ItemOf(task, config, i), in + task.in);
      });
    });
  }

  static void Describe(const Workload& load, const Config& config, size_t i, const Base& base,
                       void* arguments) {
    const Task& task = load.tasks[i];
    const char* table = base.table;
    unsigned index = 0;
    const auto one = [&](auto tag) {
      using Kind = typename decltype(tag)::Type;
      if (index++ == task.kind) {
        const Io io{base.in + task.in, base.out + task.out, task.in_bytes, task.out_bytes};
        static_assert(sizeof(typename Kind::Args) <= sizeof(Record::arguments));
        const auto found = Kind::Arguments(ItemOf(task, config, i), io, table);
        std::memcpy(arguments, &found, sizeof found);
      }
      table += RoundUp(Kind::kTableBytes);
    };
    (one(KindTag<K>{}), ...);
  }

  /// The first task whose results are too far from the expected ones, or -1.
  static long FirstWrongTask(const Workload& load, const char* got, const char* expected) {
    std::atomic<long> wrong{-1};
    ParallelFor(load.tasks.size(), [&](size_t i) {
      const Task& task = load.tasks[i];
      Kinds::With(task.kind, [&](auto tag) {
        using Kind = typename decltype(tag)::Type;
        if (FirstWrong<typename Kind::Output>(got + task.out, expected + task.out, task.out_bytes,
                                              Kind::kTolerance) >= 0) {
          wrong = static_cast<long>(i);
        }
      });
    });
    return wrong;
  }

 private:
  static Item ItemOf(const Task& task, const Config& config, size_t i) {
    return {static_cast<unsigned>(i), config.seed, task.size};
  }

  template <class Kind>
  static void AddTask(const Config& config, unsigned kind, Workload* load) {
    const unsigned number = static_cast<unsigned>(load->tasks.size());
    const Item item{number, config.seed, 0};
    const unsigned wanted = config.size > 0 ? config.size : Kind::kSize;
    const unsigned most = std::max(1u, wanted / Kind::kQuantum) * Kind::kQuantum;
    unsigned size = Kind::SizeOf(item, most), threads = config.threads;
    if (config.irregular) {
      const unsigned steps = most / Kind::kQuantum, part = 1 + item.Random(100) % steps;
      size = part * Kind::kQuantum;
      threads = 32 * std::max(1u, 8 * part / steps);
    }
    const Task task{kind,
                    threads,
                    size,
                    load->in_bytes,
                    load->out_bytes,
                    static_cast<unsigned>(Kind::InBytes(size)),
                    static_cast<unsigned>(Kind::OutBytes(size))};
    load->in_bytes += RoundUp(task.in_bytes);
    load->out_bytes += RoundUp(task.out_bytes);
    load->tasks.push_back(task);
  }
};

}  // namespace pagoda
