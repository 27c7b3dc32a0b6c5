// Kernels of driver_api.cpp and driver_dlopen.cpp: built to PTX and a fatbin, embedded as bytes.

struct Pair {
  int factor;
  short offset;
};

extern "C" __device__ unsigned shift_by = 4;

extern "C" __global__ void Affine(const unsigned* in, unsigned* out, Pair pair, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * pair.factor + pair.offset;
}

extern "C" __global__ void Shift(unsigned* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = (data[i] << shift_by) | (data[i] >> (32 - shift_by));
}

// A launch without parameters: counts its threads in a variable.
extern "C" __device__ unsigned visits = 0;
extern "C" __global__ void Visit() { atomicAdd(&visits, 1u); }

// All blocks meet before any goes on: only for cooperative launches.
extern "C" __global__ void Meet(unsigned* data, unsigned* arrived) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < gridDim.x) {
    }
  }
  __syncthreads();
  data[blockIdx.x * blockDim.x + threadIdx.x] ^= gridDim.x * 0x01010101u;
}
