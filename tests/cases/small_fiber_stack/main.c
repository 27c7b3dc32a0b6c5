// Driver calls from a fiber whose stack is a mapping of just that size, with guard pages around it. The argument says how
// large, in KiB, and "first" that the fiber makes the program's first call.
#define _GNU_SOURCE
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
static ucontext_t main_context, fiber;
static volatile int result = -1;
static int is_first;
static int Start(void) {
  CUcontext context;
  CUdevice device;
  return cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context);
}
static void Fiber(void) {
  int n = 0;
  result = is_first ? cuDriverGetVersion(&n) || n < 1000 : cuCtxSynchronize();
  swapcontext(&fiber, &main_context);
}
int main(int argc, char** argv) {
  const size_t size = (argc > 1 ? atoi(argv[1]) : 64) * 1024ul, page = 4096;
  is_first = argc > 2 && !strcmp(argv[2], "first");
  if (!is_first && Start()) return 77;
  char* memory = mmap(0, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(memory + page, size, PROT_READ | PROT_WRITE);
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = memory + page;
  fiber.uc_stack.ss_size = size;
  fiber.uc_link = &main_context;
  makecontext(&fiber, Fiber, 0);
  swapcontext(&main_context, &fiber);
  printf("%d\n", result);
  return result;
}
