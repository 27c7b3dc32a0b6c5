__device__ unsigned Twice(unsigned value) { return 2 * value; }
