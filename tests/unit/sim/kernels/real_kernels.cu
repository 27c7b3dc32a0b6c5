// Kernels as programs have them, for the simulated device: what nvcc and the CUDA headers make of
// CUB, cooperative groups, halves, the math library, virtual functions and tensor cores.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

#include <cub/cub.cuh>

namespace cg = cooperative_groups;

extern "C" __global__ void block_scan(const int* in, int* out) {
  using Load = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Store = cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  using Scan = cub::BlockScan<int, 128>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Scan::TempStorage scan;
  } storage;
  int items[4];
  Load(storage.load).Load(in + blockIdx.x * 512, items);
  __syncthreads();
  Scan(storage.scan).InclusiveSum(items, items);
  __syncthreads();
  Store(storage.store).Store(out + blockIdx.x * 512, items);
}

extern "C" __global__ void block_sort(unsigned* data) {
  using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
  __shared__ typename Sort::TempStorage storage;
  unsigned keys[4];
  cub::LoadDirectBlocked(threadIdx.x, data + blockIdx.x * 512, keys);
  Sort(storage).Sort(keys);
  cub::StoreDirectBlocked(threadIdx.x, data + blockIdx.x * 512, keys);
}

using TileState = cub::ScanTileState<int>;

extern "C" __global__ void lookback_init(void* status, int tiles) {
  TileState state;
  state.Init(tiles, status, 1 << 20);
  state.InitializeStatus(tiles);
}

extern "C" __global__ void lookback_scan(const int* in, int* out, void* status, int tiles) {
  using Scan = cub::BlockScan<int, 128>;
  using Prefix = cub::TilePrefixCallbackOp<int, ::cuda::std::plus<>, TileState>;
  __shared__ typename Scan::TempStorage scan;
  __shared__ typename Prefix::TempStorage prefix;
  TileState state;
  state.Init(tiles, status, 1 << 20);
  const int tile = blockIdx.x;
  int value = in[tile * 128 + threadIdx.x];
  if (tile == 0) {
    int total;
    Scan(scan).ExclusiveSum(value, value, total);
    if (threadIdx.x == 0) state.SetInclusive(0, total);
  } else {
    Prefix op(state, prefix, ::cuda::std::plus<>{}, tile);
    Scan(scan).ExclusiveSum(value, value, op);
  }
  out[tile * 128 + threadIdx.x] = value;
}

extern "C" __global__ void tiles(int* out) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int sum = cg::reduce(tile, static_cast<int>(threadIdx.x), cg::plus<int>());
  int most = 0;
  if (threadIdx.x % 3 == 0) {
    auto active = cg::coalesced_threads();
    most = cg::reduce(active, static_cast<int>(threadIdx.x), cg::greater<int>()) * 100 +
           active.size();
  }
  tile.sync();
  out[block.thread_rank() * 2] = tile.shfl(sum, 3) * 1000 + tile.meta_group_rank();
  out[block.thread_rank() * 2 + 1] = most;
}

extern "C" __global__ void whole_grid(int* counter, int* out) {
  auto grid = cg::this_grid();
  for (int round = 0; round < 3; ++round) {
    atomicAdd(counter, 1);
    grid.sync();
    if (threadIdx.x == 0) out[blockIdx.x * 3 + round] = *static_cast<volatile int*>(counter);
    grid.sync();
  }
}

extern "C" __global__ void halves(const float* in, float* out) {
  const int i = threadIdx.x;
  const __half2 a = __floats2half2_rn(in[i], in[(i + 1) % 32]);
  const __half2 b = __hfma2(a, a, __float2half2_rn(0.25f));
  const __nv_bfloat162 c = __hmul2(__floats2bfloat162_rn(in[i], 2.0f), __float2bfloat162_rn(1.5f));
  out[i * 4] = __low2float(b);
  out[i * 4 + 1] = __half2float(hsqrt(__low2half(a)));
  out[i * 4 + 2] = __low2float(c);
  out[i * 4 + 3] = __hgt(__low2half(a), __high2half(a))
                       ? 1.0f
                       : __half2float(__hmax(__low2half(a), __low2half(b)));
}

extern "C" __global__ void math(const double* in, double* out) {
  const int i = threadIdx.x;
  const double x = in[i];
  const float f = static_cast<float>(x);
  double r[10] = {sin(x), exp(x), log(x), pow(x, 1.7), erf(x), sqrt(x) / (x + 1),
                  sinf(f), expf(f), powf(f, 1.7f), tanhf(f)};
  for (int k = 0; k < 10; ++k) out[i * 10 + k] = r[k];
}

struct Shape {
  __device__ virtual int area(int x) const = 0;
};
struct Square : Shape {
  __device__ int area(int x) const override { return x * x; }
};
struct Line : Shape {
  __device__ int area(int x) const override { return x == 0 ? 1 : x + area(x - 1); }
};

extern "C" __global__ void shapes(int* out) {
  Square square;
  Line line;
  Shape* all[2] = {&square, &line};
  out[threadIdx.x] = all[(threadIdx.x / 3) % 2]->area(static_cast<int>(threadIdx.x % 7));
}

extern "C" __global__ void tensor(const __half* a, const __half* b, float* c) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, __half, col_major> fb;
  fragment<accumulator, 16, 16, 16, float> fc;
  fill_fragment(fc, 1.0f);
  load_matrix_sync(fa, a, 16);
  load_matrix_sync(fb, b, 16);
  mma_sync(fc, fa, fb, fc);
  store_matrix_sync(c, fc, 16, mem_row_major);
}

extern "C" __global__ void async_copy(const float4* in, float4* out) {
  extern __shared__ float4 stage[];
  __pipeline_memcpy_async(&stage[threadIdx.x], &in[threadIdx.x], sizeof(float4));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  out[threadIdx.x] = stage[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void talk(int n) {
  if (threadIdx.x < 2) {
    printf("%d of %d: %s %5.2f %c %llx %%\n", threadIdx.x, n, "text", 1.5 + threadIdx.x, 'c',
           0x123456789abcull);
  }
}
