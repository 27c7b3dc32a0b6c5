// Closes standard error, as daemons do; the next file that it opens has its number. "-": leaves it as it is.
#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char** argv) {
  if (*argv[1] != '-') {
    close(2);
    int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file != 2) return 77;
    if (write(file, "data\n", 5) != 5) return 77;
  }
  cuInit(0);
  CUdevice device;
  CUcontext context;
  cuDeviceGet(&device, 0);
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxSetCurrent(context);
  CUmodule module;
  cuModuleLoadData(&module, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n");
  CUarray array;
  CUDA_ARRAY_DESCRIPTOR d = {16, 16, CU_AD_FORMAT_FLOAT, 1};
  if (argc > 2) cuArrayCreate(&array, &d);
  return 0;
}
