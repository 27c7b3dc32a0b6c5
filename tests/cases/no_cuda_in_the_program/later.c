// What is found by each way before and after the driver has been opened, for itself and for all.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static void Look(const char* when) {
  void* loaded = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  printf("%s, dlsym(RTLD_DEFAULT, cuInit): %s\n", when, dlsym(RTLD_DEFAULT, "cuInit") ? "there" : "not there");
  printf("%s, dlsym(RTLD_NEXT, cuMemAlloc_v2): %s\n", when, dlsym(RTLD_NEXT, "cuMemAlloc_v2") ? "there" : "not there");
  printf("%s, dlopen(libcuda.so.1, RTLD_NOLOAD): %s\n", when, loaded ? "there" : "not there");
  if (loaded) dlclose(loaded);
}
int main(void) {
  Look("before");
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return 77;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  printf("cuInit: %d\n", init(0));
  Look("opened for itself");
  dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  Look("opened for all");
  return 0;
}
