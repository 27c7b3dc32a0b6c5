// A program with default options of its own.
#include <cuda.h>
#include <stdio.h>
const char* __asan_default_options(void) { return "detect_leaks=0:print_stats=0"; }
int main(void) {
  int n = 0;
  int e = cuInit(0);
  if (!e) e = cuDeviceGetCount(&n);
  printf("%d %d\n", e, n);
  return e;
}
