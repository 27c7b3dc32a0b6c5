#include <cuda.h>
#include <stdio.h>
int main(void) {
  int n = 0, e = cuInit(0);
  if (!e) e = cuDeviceGetCount(&n);
  printf("%d %d\n", e, n);
  fflush(stdout);
  return e;
}
