// The kernel of variant_bench: a block whose time is set by its argument.
extern "C" __global__ void spin(float* out, int iterations) {
  float a = static_cast<float>(threadIdx.x) * 0.001f + static_cast<float>(blockIdx.x);
  float b = 1.0001f;
  for (int i = 0; i < iterations; ++i) {
    a = a * b + 0.5f;
    b = b * 0.9999f + 1e-4f;
  }
  out[(blockIdx.x & 1023) * blockDim.x + threadIdx.x] = a + b;
}
