// A program that takes every descriptor for its own: it closes them all, standard error too, and opens a file of its
// own under each number up to 400 that is free, when CUDA is in use already (late), or before (early). Then it loads
// modules, launches, makes a mistake, and looks whether each file still holds what it has written.
//   many FOLDER early|late|sparing          prints how many files do not
// sparing: late, but what a GPU's driver has opened for itself stays open. Exit code 77: a call of CUDA failed.
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

// Devices, and what its threads wait on. Cupola keeps none of these kinds.
static int IsOfADriver(int descriptor) {
  static const char* const starts[] = {"/dev/nvidia", "pipe:", "socket:", "anon_inode:"};
  char link[64], target[256] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  if (readlink(link, target, sizeof target - 1) <= 0) return 0;
  for (int i = 0; i < 4; ++i) {
    if (!strncmp(target, starts[i], strlen(starts[i]))) return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  const int sparing = argc > 2 && !strcmp(argv[2], "sparing");
  const int late = sparing || (argc > 2 && !strcmp(argv[2], "late"));
  if (late && Use(0)) return 77;
  static char is_spared[kFiles], is_mine[kFiles];
  close(2);
  for (int i = 3; i < kFiles; ++i) {
    is_spared[i] = sparing && IsOfADriver(i);
    if (!is_spared[i]) close(i);
  }
  close_range(kFiles, ~0u, 0);
  char path[4096];
  for (int i = 2; i < kFiles; ++i) {
    if (is_spared[i]) continue;
    snprintf(path, sizeof path, "%s/%d", argv[1], i);
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, "data\n", 5) != 5) return 78;
    if (file != i) return 79;
    is_mine[i] = 1;
  }
  if (Use(1)) return 77;
  int wrong = 0;
  for (int i = 2; i < kFiles; ++i) {
    if (!is_mine[i]) continue;
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
