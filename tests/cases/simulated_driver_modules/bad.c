// What the driver answers to images that are bad in one way each, by data and by file.   bad FOLDER
// Prints "<what> <code> <error log>": "size" where the size that comes back is the log's length, else "ended", or "-"
// where the log is as it was.
#include <cuda.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define HEAD(version, target) ".version " version "\n.target " target "\n.address_size 64\n"
#define KERNEL ".visible .entry k()\n{\n ret;\n}\n"
#define PTX(version, target) HEAD(version, target) KERNEL
static void Data(const char* what, const char* image) {
  CUmodule module;
  char log[512];
  memset(log, 'x', sizeof log);
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, (void*)sizeof log};
  const int code = cuModuleLoadDataEx(&module, image, 2, options, values);
  const char* end = memchr(log, 0, sizeof log);
  printf("%s %d %s\n", what, code, !end ? "-" : (size_t)values[1] == (size_t)(end - log) ? "size" : "ended");
  if (!code) cuModuleUnload(module);
}
static void File(const char* what, const char* path) {
  CUmodule module;
  const int code = cuModuleLoad(&module, path);
  printf("%s %d\n", what, code);
  if (!code) cuModuleUnload(module);
}
static void Write(const char* path, const char* text) {
  FILE* file = fopen(path, "w");
  fputs(text, file);
  fclose(file);
}
int main(int argc, char** argv) {
  CUdevice device;
  CUcontext context;
  if (argc < 2 || chdir(argv[1]) != 0) return 77;
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
      cuCtxSetCurrent(context)) {
    return 77;
  }
  Data("good", PTX("8.0", "sm_90"));
  Data("good-90a", PTX("8.0", "sm_90a"));
  Data("good-80", "/* a comment */ // and another\n" PTX("8.0", "sm_80"));
  Data("version-99.0", PTX("99.0", "sm_90"));
  Data("version-9.1", PTX("9.1", "sm_90"));
  Data("version-0.5", PTX("0.5", "sm_90"));
  Data("version-x", PTX("x", "sm_90"));
  Data("no-version", ".target sm_90\n" KERNEL);
  Data("no-target", ".version 8.0\n" KERNEL);
  Data("old-for-target", PTX("7.0", "sm_90"));
  Data("32-bit", ".version 8.0\n.target sm_90\n.address_size 32\n" KERNEL);
  Data("sm_100", PTX("8.6", "sm_100"));
  Data("sm_100a", PTX("8.6", "sm_100a"));
  Data("sm_999", PTX("8.0", "sm_999"));
  Data("sm_80a", PTX("8.0", "sm_80a"));
  Data("banana", PTX("8.0", "banana"));
  Data("twice", HEAD("8.0", "sm_90") KERNEL KERNEL);
  Data("empty", "");
  Data("text", "hello world, this is no PTX\n");
  Write("empty.bin", "");
  Write("text.bin", "hello\n");
  Write("good.ptx", PTX("8.0", "sm_90"));
  Write("later.ptx", PTX("99.0", "sm_90"));
  mkdir("folder", 0755);
  File("file-good", "good.ptx");
  File("file-later", "later.ptx");
  File("file-empty", "empty.bin");
  File("file-text", "text.bin");
  File("file-folder", "folder");
  File("file-folder/", "folder/");
  File("file-missing", "missing");
  File("file-below-a-file", "text.bin/x");
  File("file-no-name", "");
  File("file-null", 0);
  File("file-/dev/null", "/dev/null");
  File("file-host-object", "host.so");
  File("file-other-gpu", "k80.cubin");
  File("file-later-gpu", "k100.fatbin");
  return 0;
}
