// Proves that a launch, once its thread, kernel and stream are known, allocates nothing, takes no lock,
// reads no environment and makes no system call: this program defines malloc, pthread_mutex_lock and
// getenv for the whole process, and the kernel kills it at any system call but exit.
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cuda.h>

extern "C" {

void* __libc_malloc(size_t bytes);
static volatile bool watching = false;
static volatile int calls = 0;

void* malloc(size_t bytes) {
  if (watching) calls = calls + 1;
  return __libc_malloc(bytes);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto real = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (watching) calls = calls + 1;
  return real(mutex);
}

char* getenv(const char* name) {
  static auto real = reinterpret_cast<char* (*)(const char*)>(dlsym(RTLD_NEXT, "getenv"));
  if (watching) calls = calls + 1;
  return real(name);
}
}

// Strict seccomp would forbid the time stamp counter too: a filter, then.
static bool ForbidSystemCalls() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// argv[1]: "quiet", or what must be noticed: "malloc", "lock", "getenv", "syscall".
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  const auto launch = reinterpret_cast<decltype(&cuLaunchKernel)>(dlsym(driver, "cuLaunchKernel"));
  const auto launch_ex = reinterpret_cast<CUresult (*)(const CUlaunchConfig*, CUfunction, void**, void**)>(
      dlsym(driver, "cuLaunchKernelEx"));
  const auto load = reinterpret_cast<CUresult (*)(CUmodule*, const void*)>(dlsym(driver, "cuModuleLoadData"));
  const auto find = reinterpret_cast<CUresult (*)(CUfunction*, CUmodule, const char*)>(
      dlsym(driver, "cuModuleGetFunction"));
  const auto make = reinterpret_cast<CUresult (*)(CUstream*, unsigned)>(dlsym(driver, "cuStreamCreate"));
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  if (load(&module, "image") != 0 || find(&function, module, "kernel") != 0 || make(&stream, 0) != 0) return 3;
  CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, 0};
  const auto go = [&] {
    launch(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
    launch(function, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, nullptr, nullptr);
    launch_ex(&config, function, nullptr, nullptr);
  };
  for (int i = 0; i < 100; ++i) go();

  if (!ForbidSystemCalls()) return 4;
  watching = true;
  for (int i = 0; i < 10000; ++i) go();
  if (strcmp(argv[1], "malloc") == 0) free(malloc(16));
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  if (strcmp(argv[1], "lock") == 0) pthread_mutex_lock(&mutex);
  if (strcmp(argv[1], "getenv") == 0) getenv("HOME");
  if (strcmp(argv[1], "syscall") == 0) syscall(SYS_getppid);
  watching = false;
  syscall(SYS_exit, calls == 0 ? 0 : 1);
}
