// Times the loop of somebody else's CUDA program, from its first launch to the return of its last wait. Linked into
// the program with --wrap of each function below (public_programs.py says how), so that all are measured alike, plain
// and under Cupola. At exit appends one JSON object to the file named by LOOP_TIMER; without it says nothing.
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  unsigned x, y, z;
} Size;  // dim3
typedef int Error;
typedef void* Stream;

static uint64_t first_ns, last_ns, launches;
// Launches by their warps, all blocks together: at most 1, 8, 31, 64, 256, 1024, 4096, more.
static const uint64_t kMostWarps[] = {1, 8, 31, 64, 256, 1024, 4096};
static uint64_t by_warps[8];

static uint64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void OnLaunch(Size grid, Size block) {
  if (launches++ == 0) first_ns = NowNs();
  const uint64_t warps = ((uint64_t)block.x * block.y * block.z + 31) / 32 * grid.x * grid.y * grid.z;
  int i = 0;
  while (i < 7 && warps > kMostWarps[i]) ++i;
  ++by_warps[i];
}

static void OnWaited(void) { last_ns = NowNs(); }

__attribute__((destructor)) static void Tell(void) {
  const char* path = getenv("LOOP_TIMER");
  if (path == NULL || launches == 0) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file < 0) return;
  char line[512];
  const unsigned long long ns = (last_ns > first_ns ? last_ns : NowNs()) - first_ns;
  int length = snprintf(line, sizeof line, "{\"ns\": %llu, \"launches\": %llu, \"warps\": [", ns,
                        (unsigned long long)launches);
  for (int i = 0; i < 8; ++i) {
    length += snprintf(line + length, sizeof line - (size_t)length, "%s%llu", i == 0 ? "" : ", ",
                       (unsigned long long)by_warps[i]);
  }
  length += snprintf(line + length, sizeof line - (size_t)length, "]}\n");
  if (write(file, line, (size_t)length) != length) fputs("loop_timer: cannot write\n", stderr);
  close(file);
}

#define LAUNCH(name)                                                                       \
  Error __real_##name(const void*, Size, Size, void**, size_t, Stream);                    \
  Error __wrap_##name(const void* kernel, Size grid, Size block, void** arguments, size_t shared, \
                      Stream stream) {                                                     \
    OnLaunch(grid, block);                                                                 \
    return __real_##name(kernel, grid, block, arguments, shared, stream);                  \
  }
#define WAIT(name, parameters, arguments)         \
  Error __real_##name parameters;                 \
  Error __wrap_##name parameters {                \
    const Error error = __real_##name arguments;  \
    OnWaited();                                   \
    return error;                                 \
  }

LAUNCH(cudaLaunchKernel)
LAUNCH(__cudaLaunchKernel)
LAUNCH(cudaLaunchCooperativeKernel)
WAIT(cudaDeviceSynchronize, (void), ())
WAIT(cudaStreamSynchronize, (Stream stream), (stream))
WAIT(cudaEventSynchronize, (void* event), (event))
WAIT(cudaMemcpyFromSymbol, (void* to, const void* from, size_t bytes, size_t offset, int kind),
     (to, from, bytes, offset, kind))

// Grid and block are the first members of cudaLaunchConfig_t.
Error __real_cudaLaunchKernelExC(const void*, const void*, void**);
Error __wrap_cudaLaunchKernelExC(const void* config, const void* kernel, void** arguments) {
  const Size* const sizes = config;
  OnLaunch(sizes[0], sizes[1]);
  return __real_cudaLaunchKernelExC(config, kernel, arguments);
}

enum { kDeviceToHost = 2, kByAddress = 4 };
Error __real_cudaMemcpy(void*, const void*, size_t, int);
Error __wrap_cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  const Error error = __real_cudaMemcpy(to, from, bytes, kind);
  if (kind == kDeviceToHost || kind == kByAddress) OnWaited();
  return error;
}
