#include <dlfcn.h>
#include <stdio.h>
int main(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return 77;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  printf("%d\n", init ? init(0) : -1);
  fflush(stdout);
  return 0;
}
