// Proves that a launch, once its thread, kernel and stream are known, allocates nothing, takes no
// lock, reads no environment and makes no system call: this program defines malloc and its kin,
// locks and getenv for the whole process, and the kernel kills it at any system call but exit.
// Every launch call is made in both forms, from empty lanes and rings to full ones, for a kernel that
// has a variant if there is a bundle, and for one that has none.
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cuda.h>

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void __libc_free(void* memory);
// Only for the launching thread, since the agent takes locks of its own.
static thread_local volatile bool watching = false;
static thread_local volatile int calls = 0, locks = 0;

void* malloc(size_t bytes) {
  if (watching) calls = calls + 1;
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  if (watching) calls = calls + 1;
  return __libc_calloc(count, bytes);
}

void* realloc(void* old, size_t bytes) {
  if (watching) calls = calls + 1;
  return __libc_realloc(old, bytes);
}

void free(void* memory) {
  if (watching && memory != nullptr) calls = calls + 1;
  __libc_free(memory);
}

void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (watching) calls = calls + 1;
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static auto real =
      reinterpret_cast<int (*)(pthread_rwlock_t*)>(dlsym(RTLD_NEXT, "pthread_rwlock_rdlock"));
  if (watching) calls = calls + 1;
  return real(lock);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto real =
      reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (watching) locks = locks + 1;
  return real(mutex);
}

// The system calls that the library makes without libc's help, which wake other threads.
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long word[6];
  for (long& one : word) one = va_arg(list, long);
  va_end(list);
  if (watching) calls = calls + 1;
  register long fourth asm("r10") = word[3];
  register long fifth asm("r8") = word[4];
  register long sixth asm("r9") = word[5];
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(word[0]), "S"(word[1]), "d"(word[2]), "r"(fourth), "r"(fifth),
                 "r"(sixth)
               : "rcx", "r11", "memory");
  if (result < 0 && result > -4096) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

char* getenv(const char* name) {
  static auto real = reinterpret_cast<char* (*)(const char*)>(dlsym(RTLD_NEXT, "getenv"));
  if (watching) calls = calls + 1;
  return real(name);
}
}

// Forbids system calls by a filter, because strict seccomp would forbid the time stamp counter too. `also` is allowed.
static bool ForbidSystemCalls(unsigned also) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, also, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

namespace {

template <typename Function>
Function Find(void* driver, const char* name) {
  const auto found = reinterpret_cast<Function>(dlsym(driver, name));
  if (found == nullptr) _exit(3);
  return found;
}

// Makes every call of execution control that launches one kernel.
struct Doors {
  explicit Doors(void* driver) {
    constexpr const char* kLaunch[] = {"cuLaunchKernel", "cuLaunchKernel_ptsz"};
    constexpr const char* kEx[] = {"cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"};
    constexpr const char* kCooperative[] = {"cuLaunchCooperativeKernel",
                                            "cuLaunchCooperativeKernel_ptsz"};
    for (int i = 0; i < 2; ++i) {
      launch[i] = Find<decltype(&cuLaunchKernel)>(driver, kLaunch[i]);
      ex[i] = Find<decltype(&cuLaunchKernelEx)>(driver, kEx[i]);
      cooperative[i] = Find<decltype(&cuLaunchCooperativeKernel)>(driver, kCooperative[i]);
    }
  }

  void LaunchAll(CUfunction function, CUstream stream) const {
    CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, stream, nullptr, 0};
    for (int i = 0; i < 2; ++i) {
      launch[i](function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
      ex[i](&config, function, nullptr, nullptr);
      cooperative[i](function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr);
    }
  }

  decltype(&cuLaunchKernel) launch[2];
  decltype(&cuLaunchKernelEx) ex[2];
  decltype(&cuLaunchCooperativeKernel) cooperative[2];
};

void BeNoisy(const char* how) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
  if (strcmp(how, "malloc") == 0) free(malloc(16));
  if (strcmp(how, "calloc") == 0) free(calloc(1, 16));
  if (strcmp(how, "lock") == 0) pthread_mutex_lock(&mutex);
  if (strcmp(how, "rwlock") == 0) pthread_rwlock_rdlock(&rwlock);
  if (strcmp(how, "getenv") == 0) (void)getenv("HOME");
  if (strcmp(how, "syscall") == 0) syscall(SYS_getppid);
}

}  // namespace

// argv[1]: "quiet", or what must be noticed: "malloc", "calloc", "mmap", "lock", "rwlock",
// "getenv", "syscall". argv[2], if given: there is a board, and a preemptible launch may take that
// many locks. If the machine is so busy that the demand ends between two launches, the next launch
// takes a lock to announce it anew, and a thread that waits for a lock sleeps.
int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  const bool has_board = argc == 3;
  const int most_locks = has_board ? atoi(argv[2]) : 0;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  const Doors doors(driver);
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr, other = nullptr;
  CUstream stream = nullptr;
  const auto get_function =
      Find<CUresult (*)(CUfunction*, CUmodule, const char*)>(driver, "cuModuleGetFunction");
  if (Find<CUresult (*)(CUcontext*, CUdevice)>(driver, "cuDevicePrimaryCtxRetain")(&context, 0) !=
          0 ||
      Find<CUresult (*)(CUcontext)>(driver, "cuCtxSetCurrent")(context) != 0 ||
      Find<CUresult (*)(CUmodule*, const void*)>(driver, "cuModuleLoadData")(&module, "image") !=
          0 ||
      get_function(&function, module, "kernel") != 0 ||
      get_function(&other, module, "other") != 0 ||
      Find<CUresult (*)(CUstream*, unsigned)>(driver, "cuStreamCreate")(&stream, 0) != 0) {
    return 3;
  }
  const auto go = [&] {
    for (CUfunction one : {function, other}) {
      doors.LaunchAll(one, stream);
      doors.LaunchAll(one, nullptr);
      doors.LaunchAll(one, CU_STREAM_PER_THREAD);
    }
  };
  for (int i = 0; i < 10; ++i) go();
  if (strcmp(argv[1], "mmap") == 0) {  // it makes a system call too, so it comes before those are forbidden
    watching = true;
    mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }

  if (!ForbidSystemCalls(has_board ? SYS_futex : SYS_exit)) return 4;
  watching = true;
  constexpr int kRounds = 2500;  // 90,000 launches, which fill the lane and the ring
  for (int i = 0; i < kRounds; ++i) go();
  BeNoisy(argv[1]);
  watching = false;
  // Of the 36 launches of a round, the cooperative ones and those of `other` are plain.
  const int anew = has_board ? kRounds / 10 : 0;
  const bool quiet = calls == 0 && locks <= kRounds * 12 * most_locks + anew;
  syscall(SYS_exit_group, quiet ? 0 : 1);
}
