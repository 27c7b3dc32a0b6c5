// Opens the driver when it runs, in a thread; what it does wrong afterwards has to be found.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int result = -1, devices;
static void* Work(void* unused) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return 0;
  result = ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
  if (!result) result = ((int (*)(int*))dlsym(driver, "cuDeviceGetCount"))(&devices);
  return 0;
}
int main(int argc, char** argv) {
  pthread_t thread;
  pthread_create(&thread, 0, Work, 0);
  pthread_join(thread, 0);
  printf("%d %d\n", result, devices);
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[1], "wrong")) {
    volatile char* memory = malloc(8);
    memory[8 + (argc > 5)] = 1;
  }
  return result;
}
