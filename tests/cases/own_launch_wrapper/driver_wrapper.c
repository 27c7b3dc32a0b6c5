// A user's own wrapper of two driver calls: it counts, and goes on to the next one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static int seen;
int cuInit(unsigned flags) {
  int (*next)(unsigned) = (int (*)(unsigned))dlsym(RTLD_NEXT, "cuInit");
  ++seen;
  return next ? next(flags) : 3;
}
int cuDeviceGetCount(int* count) {
  int (*next)(int*) = (int (*)(int*))dlsym(RTLD_NEXT, "cuDeviceGetCount");
  ++seen;
  return next ? next(count) : 3;
}
__attribute__((destructor)) static void Report(void) { printf("wrapper saw %d\n", seen); }
