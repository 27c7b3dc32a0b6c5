// A program that takes every descriptor for its own: it closes them all, standard error too, and opens a file of its
// own under each number up to 400, when CUDA is in use already (late), or before (early). Then it loads modules,
// launches, makes a mistake, and looks whether each file still holds what it has written.
//   many FOLDER early|late          prints how many files do not
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
enum { kFiles = 400 };
static CUcontext context;
static CUmodule module;
static CUfunction kernel;
static int Use(int again) {
  CUdevice device;
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device)) return 1;
  if (cuCtxSetCurrent(context)) return 1;
  static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
  if (cuModuleLoadData(&module, ptx)) return 1;
  if (cuModuleGetFunction(&kernel, module, "k")) return 1;
  for (int i = 0; i < 100 * again + 1; ++i) {
    if (cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)) return 1;
    if (i % 10 == 0 && cuCtxSynchronize()) return 1;
  }
  return cuModuleLoadData(&module, "this is no image") == 0;
}
int main(int argc, char** argv) {
  const int late = argc > 2 && !strcmp(argv[2], "late");
  if (late && Use(0)) return 77;
  close(2);
  close_range(3, ~0u, 0);
  char path[4096];
  for (int i = 2; i < kFiles; ++i) {
    snprintf(path, sizeof path, "%s/%d", argv[1], i);
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file != i || write(file, "data\n", 5) != 5) return 77;
  }
  if (Use(1)) return 77;
  int wrong = 0;
  for (int i = 2; i < kFiles; ++i) {
    struct stat facts;
    char text[6] = "";
    snprintf(path, sizeof path, "%s/%d", argv[1], i);
    const int is_open = fcntl(i, F_GETFD) >= 0;
    const int is_same = pread(i, text, 5, 0) == 5 && !strcmp(text, "data\n");
    wrong += !is_open || !is_same || stat(path, &facts) || facts.st_size != 5;
  }
  printf("%d\n", wrong);
  return 0;
}
