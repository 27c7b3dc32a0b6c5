// One of two units: the function is in the other one.
__device__ unsigned Twice(unsigned value);
__global__ void Double(unsigned* data) { data[threadIdx.x] = Twice(data[threadIdx.x]); }
int main() { return 0; }
