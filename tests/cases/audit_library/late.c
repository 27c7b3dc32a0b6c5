// Opens the driver when it runs, behind a library of its own that takes some of the static TLS too.
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  if (!dlopen(argv[1], RTLD_NOW)) return puts(dlerror()), 1;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return puts(dlerror()), 1;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  int (*count)(int*) = (int (*)(int*))dlsym(driver, "cuDeviceGetCount");
  int n = 0, e = init(0);
  if (!e) e = count(&n);
  printf("%d %d\n", e, n);
  return e;
}
