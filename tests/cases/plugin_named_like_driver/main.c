// Opens plug-ins that have the driver's name; "driver" in between opens the driver itself.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "driver")) {
      void* driver = dlopen("libcuda.so.1", RTLD_NOW);
      int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : 0;
      printf("%d ", init ? init(0) : -1);
      continue;
    }
    void* plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return printf("no plug-in: %s\n", dlerror()), 1;
    int (*answer)(void) = (int (*)(void))dlsym(plugin, "plugin_answer");
    printf("%d ", answer ? answer() : -1);
  }
  puts("");
  return 0;
}
