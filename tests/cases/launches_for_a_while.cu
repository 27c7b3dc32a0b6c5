// Launches until so many seconds are over, a dot each.
//   app SECONDS BLOCKS ROUNDS PAUSE_US      each launch has so many blocks, each thread adds so often
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>
__global__ void step(int *to, int rounds) { for (int i = 0; i < rounds; ++i) atomicAdd(to, i); }
int main(int, char **words) {
  const int blocks = atoi(words[2]), rounds = atoi(words[3]), pause_us = atoi(words[4]);
  int *p;
  if (cudaMalloc(&p, 4) != cudaSuccess) return 3;
  for (time_t end = time(nullptr) + atoi(words[1]); time(nullptr) < end;) {
    step<<<blocks, 32>>>(p, rounds);
    if (cudaDeviceSynchronize() != cudaSuccess) return 4;
    putchar('.'), fflush(stdout);
    if (pause_us != 0) usleep(pause_us);
  }
}
