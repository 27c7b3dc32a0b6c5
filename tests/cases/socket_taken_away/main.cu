// Launches until it is ended, for four seconds at most.
#include <ctime>
#include <unistd.h>
__global__ void step(int *to) { atomicAdd(to, 1); }
int main() {
  int *p;
  if (cudaMalloc(&p, 4) != cudaSuccess) return 3;
  for (time_t end = time(nullptr) + 4; time(nullptr) < end; usleep(2000)) {
    step<<<8, 32>>>(p);
    if (cudaDeviceSynchronize() != cudaSuccess) return 4;
  }
}
