// Opens plug-ins one after the other. By default each is closed before the next, which may come to lie where the last one
// was; after "keep" they stay, after "deep" they are opened with RTLD_DEEPBIND, "again" uses all that stayed once more.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char** argv) {
  int (*kept[16])(void), count = 0, keeps = 0, mode = RTLD_NOW | RTLD_LOCAL;
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "keep")) { keeps = 1; continue; }
    if (!strcmp(argv[i], "deep")) { mode |= RTLD_DEEPBIND; continue; }
    if (!strcmp(argv[i], "again")) {
      for (int k = 0; k < count; ++k) printf("%d ", kept[k]());
      continue;
    }
    void* plugin = dlopen(argv[i], mode);
    if (!plugin) return puts(dlerror()), 77;
    int (*use)(void) = (int (*)(void))dlsym(plugin, "Use");
    printf("%d ", use());
    if (keeps) kept[count++] = use;
    else dlclose(plugin);
  }
  puts("");
  return 0;
}
