// A thread with the smallest stack that there is (16 KiB) opens the driver and makes the program's first call, its first
// launch too where the driver is a stand-in.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static int result = -1;
static void* Work(void* unused) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return 0;
  int version = 0;
  result = ((int (*)(int*))dlsym(driver, "cuDriverGetVersion"))(&version);
  if (version < 1000) result = -2;
  return 0;
}
int main(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, 16384)) return 77;
  pthread_t thread;
  if (pthread_create(&thread, &attributes, Work, 0)) return 77;
  pthread_join(thread, 0);
  printf("%d\n", result);
  return result;
}
