// Makes and ends something again and again, and tells what a turn leaves behind: between the middle of the run and its
// end, so that what is made once does not count.
//   growth WHAT TURNS KERNELS.ptx      prints "<heap bytes a turn> <mappings> <descriptors> <threads> <device bytes>"
// Other programs share the device's memory: of its growth in four parts of that time four times the least counts.
#include <cuda.h>
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(x)                                              \
  do {                                                        \
    int e_ = (x);                                             \
    if (e_) {                                                 \
      printf("turn %d: %s: %d\n", turn, #x, e_);              \
      exit(3);                                                \
    }                                                         \
  } while (0)

static int turn = -1, loads_modules;
static CUdevice device;
static CUcontext primary;
static CUdeviceptr out;  // of the primary context
static char* ptx;
static const char* ptx_path;
static CUmodule module;
static CUfunction add;

struct Kept {
  long heap, mappings, descriptors, threads;
};

static long EntriesOf(const char* folder) {
  DIR* all = opendir(folder);
  long count = 0;
  while (readdir(all)) ++count;
  closedir(all);
  return count;
}

static long DeviceBytes(void) {
  size_t unused = 0, all = 0;
  CHECK(cuMemGetInfo(&unused, &all));
  return (long)(all - unused);
}

static struct Kept Look(void) {
  struct Kept kept = {0};
  FILE* file = fopen("/proc/self/maps", "r");
  for (int c; (c = getc(file)) != EOF;) kept.mappings += c == '\n';
  fclose(file);
  struct mallinfo2 heap = mallinfo2();
  kept.heap = (long)(heap.uordblks + heap.hblkhd);
  kept.descriptors = EntriesOf("/proc/self/fd");
  kept.threads = EntriesOf("/proc/self/task");
  return kept;
}

// What was unloaded rests for a second, and is freed by who loads or unloads the next.
static struct Kept LookSettled(void (*run)(void)) {
  if (loads_modules) {
    nanosleep(&(struct timespec){1, 100000000}, 0);
    run();
  }
  return Look();
}

static void Launch(CUfunction kernel, CUstream stream, CUdeviceptr to) {
  void* arguments[] = {&to};
  CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, 0));
}

static void Module(void) {
  CUmodule own;
  CUfunction kernel;
  CHECK(cuModuleLoad(&own, ptx_path));
  CHECK(cuModuleGetFunction(&kernel, own, "Add"));
  Launch(kernel, 0, out);
  CHECK(cuCtxSynchronize());
  CHECK(cuModuleUnload(own));
}

// As who compiles at run time: the text is at another place each time, and nobody synchronises.
static void Text(void) {
  char* copy = strdup(ptx);
  CUmodule own;
  CUfunction kernel;
  CHECK(cuModuleLoadData(&own, copy));
  CHECK(cuModuleGetFunction(&kernel, own, "Add"));
  Launch(kernel, 0, out);
  CHECK(cuModuleUnload(own));
  free(copy);
}

static void Library(void) {
  CUlibrary own;
  CUkernel kernel;
  CUfunction function;
  CHECK(cuLibraryLoadData(&own, ptx, 0, 0, 0, 0, 0, 0));
  CHECK(cuLibraryGetKernel(&kernel, own, "Add"));
  CHECK(cuKernelGetFunction(&function, kernel));
  Launch((CUfunction)kernel, 0, out);
  Launch(function, 0, out);
  CHECK(cuCtxSynchronize());
  CHECK(cuLibraryUnload(own));
}

// The same function is asked for again and again.
static void Function(void) {
  CUfunction again;
  CHECK(cuModuleGetFunction(&again, module, "Add"));
  if (turn % 16 == 0) Launch(again, 0, out);
  if (turn % 64 == 0) CHECK(cuCtxSynchronize());
}

static void Context(void) {
  CUcontext own;
  CUdeviceptr memory;
  CUstream stream;
  CUmodule loaded;
  CUfunction kernel;
  CHECK(cuCtxCreate(&own, 0, 0, device));
  CHECK(cuMemAlloc(&memory, 64));
  CHECK(cuStreamCreate(&stream, 0));
  CHECK(cuModuleLoadData(&loaded, ptx));
  CHECK(cuModuleGetFunction(&kernel, loaded, "Add"));
  Launch(kernel, stream, memory);
  Launch(kernel, CU_STREAM_PER_THREAD, memory);
  Launch(kernel, 0, memory);
  if (turn % 2) CHECK(cuCtxSynchronize());
  CHECK(cuCtxDestroy(own));  // with all that is in it
  CHECK(cuCtxSetCurrent(primary));
}

static void Primary(void) {
  CUmodule loaded;
  CUfunction kernel;
  CUdeviceptr memory;
  CUcontext again;
  CHECK(cuMemAlloc(&memory, 64));
  CHECK(cuModuleLoadData(&loaded, ptx));
  CHECK(cuModuleGetFunction(&kernel, loaded, "Add"));
  Launch(kernel, 0, memory);
  CHECK(cuDevicePrimaryCtxRelease(device));
  CHECK(cuDevicePrimaryCtxRetain(&again, device));
  CHECK(cuCtxSetCurrent(again));
}

static void Stream(void) {
  CUstream stream;
  CHECK(cuStreamCreate(&stream, turn % 2 ? CU_STREAM_NON_BLOCKING : 0));
  Launch(add, stream, out);
  if (turn % 4) CHECK(cuStreamSynchronize(stream));
  CHECK(cuStreamDestroy(stream));
}

static void Event(void) {
  CUevent first, second;
  CHECK(cuEventCreate(&first, 0));
  CHECK(cuEventCreate(&second, 0));
  CHECK(cuEventRecord(first, 0));
  Launch(add, 0, out);
  CHECK(cuEventRecord(second, 0));
  if (turn % 4) CHECK(cuEventSynchronize(second));
  CHECK(cuEventDestroy(first));
  CHECK(cuEventDestroy(second));
}

static void* InThread(void* unused) {
  CHECK(cuCtxSetCurrent(primary));
  Launch(add, turn % 2 ? CU_STREAM_PER_THREAD : 0, out);
  if (turn % 4) CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  return unused;
}

static void Thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, 0, InThread, 0));
  CHECK(pthread_join(thread, 0));
}

static void Graph(void) {
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  Launch(add, stream, out);
  Launch(add, stream, out);
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
  CHECK(cuStreamDestroy(stream));
}

// A capture that its stream's end breaks off.
static void Capture(void) {
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  Launch(add, stream, out);
  CHECK(cuStreamDestroy(stream));
}

static void Memory(void) {
  CUdeviceptr memory, ordered;
  void* host;
  static char own[8192] __attribute__((aligned(4096)));
  CHECK(cuMemAlloc(&memory, 1000));
  CHECK(cuMemAllocAsync(&ordered, 1000, 0));
  CHECK(cuMemHostAlloc(&host, 1000, CU_MEMHOSTALLOC_DEVICEMAP));
  CHECK(cuMemHostRegister(own, sizeof own, CU_MEMHOSTREGISTER_DEVICEMAP));
  Launch(add, 0, memory);
  Launch(add, 0, ordered);
  CHECK(cuMemcpyDtoHAsync(host, memory, 1000, 0));
  CHECK(cuMemFreeAsync(ordered, 0));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemHostUnregister(own));
  CHECK(cuMemFreeHost(host));
  CHECK(cuMemFree(memory));
}

static void Pool(void) {
  CUmemoryPool pool;
  CUdeviceptr memory;
  CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CHECK(cuMemPoolCreate(&pool, &properties));
  CHECK(cuMemAllocFromPoolAsync(&memory, 1000, pool, 0));
  CHECK(cuMemFreeAsync(memory, 0));
  CHECK(cuStreamSynchronize(0));
  CHECK(cuMemPoolDestroy(pool));
}

static void HostFunction(void* counter) { __atomic_fetch_add((int*)counter, 1, __ATOMIC_RELAXED); }

static void Host(void) {
  static int counter;
  Launch(add, 0, out);
  CHECK(cuLaunchHostFunc(0, HostFunction, &counter));
  CHECK(cuMemsetD32Async(out, 0, 1, 0));
  if (turn % 16 == 0) CHECK(cuCtxSynchronize());
}

int main(int argc, char** argv) {
  static const struct {  // those that load modules come first
    const char* name;
    void (*run)(void);
  } kinds[] = {{"module", Module}, {"text", Text},       {"library", Library}, {"function", Function},
               {"context", Context}, {"primary", Primary}, {"stream", Stream}, {"event", Event},
               {"thread", Thread}, {"graph", Graph},     {"capture", Capture}, {"memory", Memory},
               {"pool", Pool},     {"host", Host}};
  void (*run)(void) = 0;
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    if (argc == 4 && !strcmp(argv[1], kinds[i].name)) run = kinds[i].run, loads_modules = i < 6;
  }
  if (!run) return 2;
  const int turns = atoi(argv[2]);
  ptx_path = argv[3];
  FILE* file = fopen(ptx_path, "r");
  ptx = calloc(1, 1 << 20);
  if (!file || fread(ptx, 1, (1 << 20) - 1, file) == 0) return 2;
  fclose(file);
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&primary, device));
  CHECK(cuCtxSetCurrent(primary));
  CHECK(cuMemAlloc(&out, 4));
  CHECK(cuModuleLoad(&module, ptx_path));
  CHECK(cuModuleGetFunction(&add, module, "Add"));
  struct Kept before = {0};
  long least = 1l << 62, part_began = 0;
  const int part = turns / 8 + (turns < 8);
  for (turn = 0; turn < turns; ++turn) {
    if (turn == turns / 2) before = LookSettled(run);
    const int is_measured = turn >= turns / 2, of_part = (turn - turns / 2) % part;
    if (is_measured && of_part == 0) part_began = DeviceBytes();
    run();
    if (is_measured && of_part == part - 1) {
      const long grown = DeviceBytes() - part_began;
      if (grown < least) least = grown;
    }
  }
  CUcontext current = 0;
  CHECK(cuCtxGetCurrent(&current));
  CHECK(cuCtxSynchronize());
  // What ends in the background, as threads of streams do, has a moment to do so.
  struct Kept now = LookSettled(run);
  for (int i = 0; i < 100 && now.threads > before.threads; ++i) {
    nanosleep(&(struct timespec){0, 10000000}, 0);
    now = Look();
  }
  const double made = turns - turns / 2;
  printf("%.2f %ld %ld %ld %ld\n", (double)(now.heap - before.heap) / made, now.mappings - before.mappings,
         now.descriptors - before.descriptors, now.threads - before.threads, 4 * least);
  return 0;
}
