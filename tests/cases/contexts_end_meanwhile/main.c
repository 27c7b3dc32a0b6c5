// Threads that each make a context, launch into it and end it, again and again. No thread touches what
// another one made.   main KERNELS.ptx THREADS TURNS KIND...   Thread i does as the i-th KIND says, modulo:
//   own      a context of its own
//   primary  retains the device's primary context, and releases it: the last release ends it
//   reset    the same, and resets it (one thread at most, and no `primary` beside it)
//   green    a green context of all SMs
//   unload   a context of its own, in which it loads and unloads a library, which waits for all contexts
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const char* file;
static int turns, kind_count;
static char** kinds;
static _Atomic int failures;
#define CHECK(x) do { int e = (x); if (e) { ++failures; printf("%s: %d\n", #x, e); return 1; } } while (0)

static int Use(int turn, CUstream stream) {
  CUmodule module;
  CUfunction add;
  CUdeviceptr out;
  unsigned value = 0, rounds = 100 + 400 * (turn % 5);
  CHECK(cuModuleLoad(&module, file));
  CHECK(cuModuleGetFunction(&add, module, "Add"));
  CHECK(cuMemAlloc(&out, 4));
  if (stream == NULL) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemsetD32Async(out, 0, 1, stream));
  void* arguments[] = {&out, &rounds};
  for (int i = 0; i < 3; ++i) CHECK(cuLaunchKernel(add, 64, 1, 1, 32, 1, 1, 0, stream, arguments, 0));
  if (turn % 2 == 0) return 0;
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(&value, out, 4));
  if (value != 3 * 64 * 32) { ++failures; printf("value %u\n", value); }
  return 0;
}

static int Turn(const char* kind, int turn) {
  CUdevice device;
  CUcontext context;
  CHECK(cuDeviceGet(&device, 0));
  if (strcmp(kind, "own") == 0) {
    CHECK(cuCtxCreate(&context, NULL, 0, device));
    if (Use(turn, NULL)) return 1;
    CHECK(cuCtxDestroy(context));
  } else if (strcmp(kind, "primary") == 0 || strcmp(kind, "reset") == 0) {
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    if (Use(turn, NULL)) return 1;
    CHECK(cuCtxSetCurrent(NULL));
    if (strcmp(kind, "reset") == 0) CHECK(cuDevicePrimaryCtxReset(device));
    CHECK(cuDevicePrimaryCtxRelease(device));
  } else if (strcmp(kind, "green") == 0) {
    CUdevResource sms;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUstream stream;
    CHECK(cuDeviceGetDevResource(device, &sms, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevResourceGenerateDesc(&description, &sms, 1));
    CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuCtxFromGreenCtx(&context, green));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    if (Use(turn | 1, turn % 3 ? stream : CU_STREAM_LEGACY)) return 1;
    CHECK(cuStreamDestroy(stream));
    CHECK(cuCtxSetCurrent(NULL));
    CHECK(cuGreenCtxDestroy(green));
  } else {
    CUlibrary library;
    CHECK(cuCtxCreate(&context, NULL, 0, device));
    for (int i = 0; i < 5; ++i) {
      CHECK(cuLibraryLoadFromFile(&library, file, NULL, NULL, 0, NULL, NULL, 0));
      if (Use(turn, NULL)) return 1;
      CHECK(cuLibraryUnload(library));
    }
    CHECK(cuCtxDestroy(context));
  }
  return 0;
}

static void* Run(void* number) {
  const char* const kind = kinds[(long)number % kind_count];
  for (int turn = 0; turn < turns; ++turn) {
    if (Turn(kind, turn)) return 0;
  }
  return 0;
}

int main(int argc, char** argv) {
  static char* own[] = {"own"};
  pthread_t threads[16];
  file = argv[1];
  turns = atoi(argv[3]);
  kinds = argc > 4 ? argv + 4 : own;
  kind_count = argc > 4 ? argc - 4 : 1;
  if (cuInit(0)) return 77;
  for (long i = 0; i < atoi(argv[2]); ++i) pthread_create(&threads[i], 0, Run, (void*)i);
  for (int i = 0; i < atoi(argv[2]); ++i) pthread_join(threads[i], 0);
  printf("failures %d\n", failures);
  return failures != 0;
}
