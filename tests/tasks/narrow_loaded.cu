// The kernel that narrow_faults.cu loads as a module and unloads again.
extern "C" __device__ unsigned turned = 5;

extern "C" __global__ void Turn(unsigned* values, unsigned step) {
  const unsigned i = threadIdx.x;
  values[i] = (values[i] << turned | values[i] >> (32 - turned)) + step;
}
