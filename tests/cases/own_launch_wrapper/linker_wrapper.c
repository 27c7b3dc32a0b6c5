// A user's own wrapper of dlopen and dlsym: it counts those that concern the driver, and goes on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static int opened, found;
void* dlopen(const char* file, int mode) {
  static void* (*next)(const char*, int);
  if (!next) next = (void* (*)(const char*, int))dlvsym(RTLD_NEXT, "dlopen", "GLIBC_2.2.5");
  if (WRAPS_BY_DLSYM) next = (void* (*)(const char*, int))dlsym(RTLD_NEXT, "dlopen");
  if (file && strstr(file, "libcuda.so")) opened = 1;
  return next(file, mode);
}
void* dlsym(void* handle, const char* name) {
  static void* (*next)(void*, const char*);
  if (!next) next = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (name && !strcmp(name, "cuInit")) found = 1;
  return next(handle, name);
}
__attribute__((destructor)) static void Report(void) { printf("wrapper saw dlopen %d, dlsym %d\n", opened, found); }
