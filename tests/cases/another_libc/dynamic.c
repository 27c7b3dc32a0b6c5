// What a program asks of the dynamic linker.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  void* self = dlopen(0, RTLD_NOW);
  printf("%d %d %d\n", dlsym(self, "puts") == (void*)puts, dlsym(RTLD_DEFAULT, "strlen") == (void*)strlen,
         dlsym(RTLD_NEXT, "no_such_function") == 0);
  printf("%d %d\n", dlopen("libno_such_library.so", RTLD_NOW) == 0, dlerror() != 0);
  printf("%d\n", dlopen("libcuda.so.1", RTLD_NOW) == 0);
  return 0;
}
