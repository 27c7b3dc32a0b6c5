// Opens a library whose constructor waits for a thread that makes CUDA calls which have not been made before.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
int cuInit(unsigned flags);
int cuGetExportTable(const void** table, const void* id);
int cuMemAlloc_v2(unsigned long long* at, unsigned long bytes);
int cuStreamCreate(void** stream, unsigned flags);
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned s,
                   void* t, void** p, void** e);
int cuCtxSynchronize(void);
static int sum = -1;
static void* Work(void* unused) {
  static const char id[16];
  const void* table;
  unsigned long long at;
  void* stream;
  sum = cuGetExportTable(&table, id) + cuMemAlloc_v2(&at, 64) + cuStreamCreate(&stream, 0) +
        cuLaunchKernel(&sum, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0) + cuLaunchKernel(&sum, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0) +
        cuCtxSynchronize();
  return 0;
}
void OnLoad(void) {
  pthread_t thread;
  pthread_create(&thread, 0, Work, 0);
  pthread_join(thread, 0);
}
int main(int argc, char** argv) {
  cuInit(0);
  if (!dlopen(argv[1], RTLD_NOW)) return puts(dlerror()), 77;
  printf("%d\n", sum);
  return 0;
}
