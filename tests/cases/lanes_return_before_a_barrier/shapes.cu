// Kernels in which some lanes leave early and the others go on to barriers: every way of leaving, at every place,
// with every kind of barrier. Right in CUDA: a thread that has returned comes to no barrier, and those that remain
// come to the same ones. Built with BARRIERS, of the first so many kinds of barriers.
//   shapes FIRST END BLOCKS   launches shapes FIRST to END - 1, in grids of so many blocks; a line for each, its number
//                             and a hash of all that it wrote
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#ifndef BARRIERS
#define BARRIERS 7
#endif

enum Leave { kReturn, kWorkThenReturn, kNestedReturn, kSkipRest, kBreak, kContinue, kLeaves };
enum Place { kBeforeFirst, kBetween, kInLoop, kAfterLast, kEachElsewhere, kPlaces };
enum Barrier { kSyncThreads, kOr, kCount, kUnaligned, kNamed, kWarp, kCounted };
constexpr int kPatterns = 10, kWholeWarp = 8;
constexpr int kThreads = 160, kShapes = kLeaves * kPlaces * BARRIERS;

template <int kBarrier>
__device__ __forceinline__ int Meet(int value, unsigned stay) {
  if constexpr (kBarrier == kSyncThreads) __syncthreads();
  if constexpr (kBarrier == kOr) return __syncthreads_or(value & 64);
  if constexpr (kBarrier == kCount) return __syncthreads_count(value & 1);
  if constexpr (kBarrier == kUnaligned) asm volatile("barrier.sync 0;" ::: "memory");
  if constexpr (kBarrier == kNamed) asm volatile("bar.sync 3;" ::: "memory");
  if constexpr (kBarrier == kCounted) asm volatile("bar.sync 2, 160;" ::: "memory");
  if constexpr (kBarrier == kWarp) {
    const unsigned votes = __ballot_sync(stay, value & 2);
    value = __shfl_xor_sync(stay, value, 1);
    __syncwarp(stay);
    __syncthreads();
    return (votes & 7) + ((stay >> (threadIdx.x % 32 ^ 1)) & 1 ? value & 15 : 0);
  }
  return 0;
}

// `lanes`: kPatterns times eight masks, of each warp those that leave; a block has the pattern of its number.
template <int kLeave, int kPlaceAsked, int kBarrier>
__global__ void Shape(const unsigned* lanes, int first_block, int* out, int* late, int rounds) {
  __shared__ int tile[kThreads];
  // Aligned barriers within two conditions that part a warp are wrong in CUDA, and hang on an H100.
  constexpr bool kIsWrong = kLeave == kSkipRest && kPlaceAsked == kEachElsewhere && kBarrier != kUnaligned;
  constexpr int kPlace = kIsWrong ? kBetween : kPlaceAsked;
  const int block = first_block + blockIdx.x, t = threadIdx.x, i = block * kThreads + t;
  const int pattern = block % kPatterns;
  // A counted barrier counts warps, and one that has left is none.
  const unsigned mask = kBarrier == kCounted && pattern == kWholeWarp ? 0 : lanes[pattern * 8 + t / 32];
  // Whether the thread beside this one stays to the end: what others wrote may come too late to be read.
  const bool beside = ((mask >> (t % 32 ^ 1)) & 1) == 0;
  const auto is_due = [&](int place) {
    const bool leaves = (mask >> (t % 32)) & 1;
    return leaves && (kPlace == kEachElsewhere ? t % 4 == place : place == kPlace);
  };
  // Of its warp, those that are still there behind a place.
  const auto stay = [&](int place) {
    unsigned left = 0;
    for (int lane = 0; lane < 32; ++lane) {
      const int leaves_at = kPlace == kEachElsewhere ? lane % 4 : kPlace;
      if ((mask >> lane & 1) && leaves_at <= place) left |= 1u << lane;
    }
    return kLeave == kBreak || kLeave == kContinue ? ~0u : ~left;
  };
  int x = t * 7 + block * 13 + 1;

#define LEAVE(place)                                       \
  if (kLeave == kReturn && is_due(place)) return;          \
  if (kLeave == kWorkThenReturn && is_due(place)) {        \
    out[i] = x * 3;                                        \
    return;                                                \
  }                                                        \
  if (kLeave == kNestedReturn) {                           \
    if (t % 3 != 0) {                                      \
      x += 5;                                              \
      if (is_due(place)) {                                 \
        if (x % 2 == 0) {                                  \
          out[i] = x;                                      \
          return;                                          \
        }                                                  \
        late[i] = x;                                       \
        return;                                            \
      }                                                    \
      x ^= 3;                                              \
    } else if (is_due(place)) {                            \
      out[i] = -x;                                         \
      return;                                              \
    }                                                      \
  }

  const auto first = [&] {
    if (kLeave == kBreak || kLeave == kContinue) {
      for (int k = 0; k < rounds; ++k) {
        if (is_due(kBeforeFirst) && k == 1) {
          if (kLeave == kBreak) break;
          continue;
        }
        x = x * 5 + k;
      }
    }
    tile[t] = x;
    int voted = Meet<kBarrier>(x, stay(kBeforeFirst));
    const int other = beside ? tile[t ^ 1] : 1;
    voted = voted * 3 + Meet<kBarrier>(other, stay(kBeforeFirst));
    x += other * 3 + voted;
  };
  const auto loop = [&] {
    for (int k = 0; k < rounds; ++k) {
      if (kPlace != kAfterLast && k == (kLeave == kReturn ? 1 : 0) && is_due(kInLoop)) {
        if (kLeave == kReturn) return true;
        if (kLeave == kWorkThenReturn) out[i] = x + k;
        if (kLeave == kWorkThenReturn) return true;
        if (kLeave == kNestedReturn) {
          if (x & 1) late[i] = k;
          return true;
        }
      }
      for (int j = 0; (kLeave == kBreak || kLeave == kContinue) && is_due(kInLoop) && j < 9; ++j) {
        if (kLeave == kContinue && j % 3 == t % 3) continue;
        x += j;
        if (kLeave == kBreak && j == t % 7) break;
      }
      tile[t] = x + k;
      const unsigned there = stay(kLeave == kReturn && k == 0 ? kBetween : kInLoop);
      int voted = Meet<kBarrier>(x, there);
      x += (beside ? tile[t ^ 1] : k) + voted;
      voted = Meet<kBarrier>(x + k, there);
      x ^= voted;
    }
    return false;
  };

  LEAVE(kBeforeFirst)
  if (kLeave != kSkipRest || !is_due(kBeforeFirst)) {
    first();
    LEAVE(kBetween)
    if (kLeave != kSkipRest || !(is_due(kBetween) || is_due(kInLoop))) {
      if (loop()) return;
    }
  }
  LEAVE(kAfterLast)
  if (kLeave == kSkipRest) late[i] = x + 1;  // what all come to, each in its own time
  out[i] = x;
}

constexpr unsigned kMasks[] = {0,          1,          0x80000000, 0x0000FFFF,
                               0xFFFF0000, 0xFFFFFFFE, 0xAAAAAAAA, 0x000FFF00};

// The first eight: the same lanes of each warp. Then: one whole warp and a part of another; each warp another mask.
unsigned Mask(int pattern, int warp) {
  if (pattern < 8) return kMasks[pattern];
  if (pattern == kWholeWarp) return warp == 2 ? ~0u : warp == 4 ? 0xFF : 0;
  return kMasks[(warp + 3) % 8];
}

using Kernel = void (*)(const unsigned*, int, int*, int*, int);
template <int kShape>
constexpr Kernel At() {
  return Shape<kShape / kPlaces % kLeaves, kShape % kPlaces, kShape / kPlaces / kLeaves>;
}
template <int... kNumbers>
void Fill(Kernel* kernels, std::integer_sequence<int, kNumbers...>) {
  ((kernels[kNumbers] = At<kNumbers>()), ...);
}

int main(int argc, char** argv) {
  static Kernel kernels[kShapes];
  Fill(kernels, std::make_integer_sequence<int, kShapes>{});
  if (argc != 4) return 2;
  const int blocks = atoi(argv[3]), all = (kPatterns + blocks - 1) / blocks * blocks, n = all * kThreads;
  unsigned masks[kPatterns * 8], *lanes;
  for (int i = 0; i < kPatterns * 8; ++i) masks[i] = Mask(i / 8, i % 8);
  int *out, *late;
  if (cudaMalloc(&lanes, sizeof masks) || cudaMalloc(&out, n * 4) || cudaMalloc(&late, n * 4)) return 3;
  cudaMemcpy(lanes, masks, sizeof masks, cudaMemcpyHostToDevice);
  std::vector<int> host(n), beside(n);
  for (int shape = atoi(argv[1]); shape < atoi(argv[2]) && shape < kShapes; ++shape) {
    cudaMemset(out, 255, n * 4);
    cudaMemset(late, 255, n * 4);
    for (int at = 0; at < all; at += blocks) kernels[shape]<<<blocks, kThreads>>>(lanes, at, out, late, 3);
    if (cudaError_t error = cudaMemcpy(host.data(), out, n * 4, cudaMemcpyDeviceToHost)) {
      printf("%d %s\n", shape, cudaGetErrorName(error));
      return 3;
    }
    cudaMemcpy(beside.data(), late, n * 4, cudaMemcpyDeviceToHost);
    unsigned long long hash = 14695981039346656037ull;
    for (int i = 0; i < kPatterns * kThreads; ++i) {
      const auto both = static_cast<unsigned>(host[i]) ^ static_cast<unsigned long long>(beside[i]) << 32;
      hash = (hash ^ both) * 1099511628211ull;
    }
    printf("%d %016llx\n", shape, hash);
    fflush(stdout);
  }
}
