// LU decomposition of a sparse matrix of 32 x 32 blocks, without pivots: in each step the diagonal
// block is decomposed (lu0), then the blocks right of it (fwd) and below it (bdiv), then all that
// lie between two of these are updated (bmod), where blocks appear that were empty. Tasks depend on
// each other; how many are in a wave changes from step to step. The number of blocks is the
// largest whose tasks are not more than --tasks. In place: the matrix is copied as a whole.
#pragma once

#include "app.h"
#include "block.cuh"

namespace pagoda {

constexpr unsigned kLuSide = 32;  // of a block

struct LuShape : KindDefaults {
  struct Args {
    Io io;               // nothing of its own
    const float *a, *b;  // what is only read
    float* target;
  };
};

struct Lu0 : LuShape {
  static constexpr bool kBarrier = true;

  template <class Block>
  static __device__ void Run(const Block& block, const Args& args) {
    float* const d = args.target;
    for (unsigned k = 0; k + 1 < kLuSide; ++k) {
      const unsigned width = kLuSide - 1 - k;
      for (unsigned i = k + 1 + block.thread; i < kLuSide; i += block.threads) {
        d[i * kLuSide + k] /= d[k * kLuSide + k];
      }
      block.sync();
      for (unsigned e = block.thread; e < width * width; e += block.threads) {
        const unsigned i = k + 1 + e / width, j = k + 1 + e % width;
        d[i * kLuSide + j] = Fma(-d[i * kLuSide + k], d[k * kLuSide + j], d[i * kLuSide + j]);
      }
      block.sync();
    }
  }

  static void Reference(const Args& args) {
    float* const d = args.target;
    for (unsigned k = 0; k < kLuSide; ++k) {
      for (unsigned i = k + 1; i < kLuSide; ++i) {
        d[i * kLuSide + k] /= d[k * kLuSide + k];
        for (unsigned j = k + 1; j < kLuSide; ++j) {
          d[i * kLuSide + j] -= d[i * kLuSide + k] * d[k * kLuSide + j];
        }
      }
    }
  }
};

struct Fwd : LuShape {
  template <class Block>
  static __device__ void Run(const Block& block, const Args& args) {
    for (unsigned j = block.thread; j < kLuSide; j += block.threads) Column(args, j);
  }
  static void Reference(const Args& args) {
    for (unsigned j = 0; j < kLuSide; ++j) Column(args, j);
  }

 private:
  static __host__ __device__ void Column(const Args& args, unsigned j) {
    for (unsigned k = 0; k < kLuSide; ++k) {
      const float value = -args.target[k * kLuSide + j];
      for (unsigned i = k + 1; i < kLuSide; ++i) {
        float& target = args.target[i * kLuSide + j];
        target = Fma(args.a[i * kLuSide + k], value, target);
      }
    }
  }
};

struct Bdiv : LuShape {
  template <class Block>
  static __device__ void Run(const Block& block, const Args& args) {
    for (unsigned i = block.thread; i < kLuSide; i += block.threads) Row(args, i);
  }
  static void Reference(const Args& args) {
    for (unsigned i = 0; i < kLuSide; ++i) Row(args, i);
  }

 private:
  static __host__ __device__ void Row(const Args& args, unsigned i) {
    float* const row = args.target + i * kLuSide;
    for (unsigned k = 0; k < kLuSide; ++k) {
      const float value = row[k] / args.a[k * kLuSide + k];
      row[k] = value;
      for (unsigned j = k + 1; j < kLuSide; ++j) {
        row[j] = Fma(-value, args.a[k * kLuSide + j], row[j]);
      }
    }
  }
};

struct Bmod : LuShape {
  template <class Block>
  static __device__ void Run(const Block& block, const Args& args) {
    for (unsigned e = block.thread; e < kLuSide * kLuSide; e += block.threads) Element(args, e);
  }
  static void Reference(const Args& args) {
    for (unsigned e = 0; e < kLuSide * kLuSide; ++e) Element(args, e);
  }

 private:
  static __host__ __device__ void Element(const Args& args, unsigned e) {
    const float* const row = args.a + e / kLuSide * kLuSide;
    const float* const column = args.b + e % kLuSide;
    float sum = args.target[e];
    for (unsigned k = 0; k < kLuSide; ++k) sum = Fma(-row[k], column[k * kLuSide], sum);
    args.target[e] = sum;
  }
};

struct SparseLuApp {
  static constexpr const char* kName = "slud";
  using Kinds = KindList<Lu0, Fwd, Bdiv, Bmod>;

  static Workload Make(const Config& config) {
    Workload load = Decompose(config, 1), next = Decompose(config, 2);
    for (unsigned side = 3; next.tasks.size() <= config.tasks; ++side) {
      load = std::move(next);
      next = Decompose(config, side);
    }
    return load;
  }

  static size_t TableBytes() { return 0; }
  static void FillTable(char*) {}

  static void FillInput(const Workload& load, const Config& config, char* in) {
    const unsigned side = SideOf(load);
    ParallelFor(size_t{side} * side, [&](size_t block) {
      auto* const values = reinterpret_cast<float*>(in) + block * kLuSide * kLuSide;
      const unsigned i = static_cast<unsigned>(block) / side, j = block % side;
      const bool is_present = StartsPresent(config, i, j);
      const Item item{static_cast<unsigned>(block), config.seed, 0};
      for (unsigned e = 0; e < kLuSide * kLuSide; ++e) {
        values[e] = is_present ? item.Share(e) - 0.5f : 0;
        if (i == j && e / kLuSide == e % kLuSide) values[e] += 16.0f * static_cast<float>(side);
      }
    });
  }

  static void Describe(const Workload& load, const Config&, size_t number, const Base& base,
                       void* arguments) {
    const Task& task = load.tasks[number];
    const unsigned side = SideOf(load), k = task.size % 1024, i = task.size / 1024 % 1024,
                   j = task.size / 1024 / 1024;
    const auto at = [&](unsigned row, unsigned column) {
      return reinterpret_cast<float*>(base.out) + (size_t{row} * side + column) * kLuSide * kLuSide;
    };
    const bool is_bmod = task.kind == 3;
    const LuShape::Args found{{}, at(is_bmod ? i : k, k), at(k, is_bmod ? j : k), at(i, j)};
    std::memcpy(arguments, &found, sizeof found);
  }

  static long FirstWrongTask(const Workload& load, const char* got, const char* expected) {
    return FirstWrong<float>(got, expected, load.out_bytes, 1e-3);
  }

 private:
  static unsigned SideOf(const Workload& load) {
    return static_cast<unsigned>(
        std::lround(std::sqrt(load.out_bytes / (kLuSide * kLuSide * sizeof(float)))));
  }

  /// A band of three blocks, and one in five elsewhere.
  static bool StartsPresent(const Config& config, unsigned i, unsigned j) {
    return i + 1 >= j && j + 1 >= i ? true : Mix(Mix(config.seed) + i * 1024 + j) % 5 == 0;
  }

  /// All tasks of a matrix of side x side blocks, in waves, and what each needs: whoever wrote last
  /// what it reads or writes. (Nobody writes what others still read.)
  static Workload Decompose(const Config& config, unsigned side) {
    constexpr unsigned kNobody = ~0u;
    std::vector<std::vector<bool>> present(side, std::vector<bool>(side));
    std::vector<std::vector<unsigned>> writer(side, std::vector<unsigned>(side, kNobody));
    for (unsigned i = 0; i < side; ++i) {
      for (unsigned j = 0; j < side; ++j) present[i][j] = StartsPresent(config, i, j);
    }
    Workload load;
    load.in_place = true;
    load.in_bytes = load.out_bytes = size_t{side} * side * kLuSide * kLuSide * sizeof(float);
    const auto add = [&](unsigned kind, unsigned k, unsigned i, unsigned j) {
      std::vector<unsigned> needs;
      for (const auto& [row, column] :
           {std::pair{i, j}, {kind == 3 ? i : k, k}, {k, kind == 3 ? j : k}}) {
        const unsigned last = writer[row][column];
        if (last != kNobody && std::find(needs.begin(), needs.end(), last) == needs.end()) {
          needs.push_back(last);
        }
      }
      writer[i][j] = static_cast<unsigned>(load.tasks.size());
      present[i][j] = true;
      load.tasks.push_back({kind, config.threads, (j * 1024 + i) * 1024 + k, 0, 0, 0, 0});
      load.needs.push_back(std::move(needs));
    };
    const auto end_wave = [&] {
      if (load.wave_ends.empty() || load.wave_ends.back() < load.tasks.size()) {
        load.wave_ends.push_back(load.tasks.size());
      }
    };
    for (unsigned k = 0; k < side; ++k) {
      add(0, k, k, k);
      end_wave();
      for (unsigned j = k + 1; j < side; ++j) {
        if (present[k][j]) add(1, k, k, j);
        if (present[j][k]) add(2, k, j, k);
      }
      end_wave();
      for (unsigned i = k + 1; i < side; ++i) {
        for (unsigned j = k + 1; present[i][k] && j < side; ++j) {
          if (present[k][j]) add(3, k, i, j);
        }
      }
      end_wave();
    }
    return load;
  }
};

}  // namespace pagoda
