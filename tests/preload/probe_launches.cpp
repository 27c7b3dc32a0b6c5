// Scenarios of the probe about launches: every launch call passes its arguments on exactly, and is recorded.
#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/preload/probe_kernels.h"

namespace cupola::probe {

Kernels Prepare() {
  Kernels made;
  CHECK(DRIVER_CALL(cuInit)(0) == CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuDevicePrimaryCtxRetain)(&made.context, 0) == CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuCtxSetCurrent)(made.context) == CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuModuleLoadData)(&made.module, "image") == CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuModuleGetFunction)(&made.function, made.module, "named_by_module") ==
        CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuLibraryLoadData)(&made.library, "image", nullptr, nullptr, 0, nullptr,
                                       nullptr, 0) == CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuLibraryGetKernel)(&made.kernel, made.library, "named_by_library") ==
        CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuStreamCreate)(&made.stream, 0) == CUDA_SUCCESS);
  return made;
}

namespace {

uint64_t Word(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

NullDriverCall LastCall() {
  return Find<decltype(&null_driver_call)>("null_driver_call")(
      Find<decltype(&null_driver_calls)>("null_driver_calls")() - 1);
}

void ExpectCall(const char* name, std::vector<uint64_t> arguments) {
  const NullDriverCall call = LastCall();
  CHECK(strcmp(call.name, name) == 0);
  for (size_t i = 0; i < arguments.size(); ++i) CHECK(call.arguments[i] == arguments[i]);
}

CUfunction AsFunction(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

void LaunchKernelForms(const Kernels& k) {
  int a = 1;
  void* params[] = {&a};
  void* extra[] = {CU_LAUNCH_PARAM_END};
  for (const char* name : {"cuLaunchKernel", "cuLaunchKernel_ptsz"}) {
    const auto launch = Find<LaunchKernel>(name);
    CHECK(launch(k.function, 1, 2, 3, 4, 5, 6, 7, k.stream, params, nullptr) == CUDA_SUCCESS);
    ExpectCall(name, {Word(k.function), 1, 2, 3, 4, 5, 6, 7, Word(k.stream), Word(params), 0});
    CHECK(launch(AsFunction(k.kernel), 0xFFFFFFFF, 2, 3, 4, 5, 6, 0xFFFFFFFF, nullptr, nullptr,
                 extra) == CUDA_SUCCESS);
    ExpectCall(name, {Word(k.kernel), 0xFFFFFFFF, 2, 3, 4, 5, 6, 0xFFFFFFFF, 0, 0, Word(extra)});
  }
  const auto launch = Find<LaunchKernel>("cuLaunchKernel");
  CHECK(launch(k.function, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, params, nullptr) == CUDA_SUCCESS);
  CHECK(launch(k.function, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, params, nullptr) ==
        CUDA_SUCCESS);
}

void LaunchExForms(const Kernels& k) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  CUlaunchConfig config{};
  config.gridDimX = 8, config.gridDimY = 9, config.gridDimZ = 10;
  config.blockDimX = 11, config.blockDimY = 12, config.blockDimZ = 13;
  config.sharedMemBytes = 14;
  config.hStream = k.stream;
  void* params[] = {nullptr};
  void* extra[] = {CU_LAUNCH_PARAM_END};
  for (const char* name : {"cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"}) {
    const auto launch = Find<CUresult (*)(const CUlaunchConfig*, CUfunction, void**, void**)>(name);
    config.attrs = nullptr, config.numAttrs = 0;
    CHECK(launch(&config, k.function, params, nullptr) == CUDA_SUCCESS);
    ExpectCall(name, {Word(&config), Word(k.function), Word(params), 0});
    config.attrs = &attribute, config.numAttrs = 1;
    CHECK(launch(&config, AsFunction(k.kernel), nullptr, extra) == CUDA_SUCCESS);
    ExpectCall(name, {Word(&config), Word(k.kernel), 0, Word(extra)});
  }
}

void LaunchOtherForms(const Kernels& k) {
  void* params[] = {nullptr};
  for (const char* name : {"cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz"}) {
    const auto launch = Find<CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned,
                                          unsigned, unsigned, unsigned, CUstream, void**)>(name);
    CHECK(launch(k.function, 1, 2, 3, 4, 5, 6, 7, k.stream, params) == CUDA_SUCCESS);
    ExpectCall(name, {Word(k.function), 1, 2, 3, 4, 5, 6, 7, Word(k.stream), Word(params)});
  }
  CUDA_LAUNCH_PARAMS list[2]{};
  list[0].function = k.function, list[0].gridDimX = 21, list[0].hStream = k.stream;
  list[1].function = k.function, list[1].gridDimX = 22, list[1].hStream = k.stream;
  CHECK(Find<CUresult (*)(CUDA_LAUNCH_PARAMS*, unsigned, unsigned)>(
            "cuLaunchCooperativeKernelMultiDevice")(list, 2, 3) == CUDA_SUCCESS);
  ExpectCall("cuLaunchCooperativeKernelMultiDevice", {Word(list), 2, 3});
  CHECK(Find<CUresult (*)(CUfunction, int, int, int)>("cuFuncSetBlockShape")(k.function, 31, 32,
                                                                             33) == CUDA_SUCCESS);
  CHECK(Find<CUresult (*)(CUfunction, unsigned)>("cuFuncSetSharedSize")(k.function, 34) ==
        CUDA_SUCCESS);
  CHECK(Find<CUresult (*)(CUfunction)>("cuLaunch")(k.function) == CUDA_SUCCESS);
  ExpectCall("cuLaunch", {Word(k.function)});
  CHECK(Find<CUresult (*)(CUfunction, int, int)>("cuLaunchGrid")(k.function, 35, 36) ==
        CUDA_SUCCESS);
  ExpectCall("cuLaunchGrid", {Word(k.function), 35, 36});
  CHECK(Find<CUresult (*)(CUfunction, int, int, CUstream)>("cuLaunchGridAsync")(
            k.function, 37, 38, k.stream) == CUDA_SUCCESS);
  ExpectCall("cuLaunchGridAsync", {Word(k.function), 37, 38, Word(k.stream)});
}

// A call without a hook, through its forwarding stub; the first of all calls opens the driver.
void Forwarded() {
  CUdeviceptr pointer = 0;
  CHECK(DRIVER_CALL(cuMemAlloc_v2)(&pointer, 24) == CUDA_SUCCESS && pointer == 0x1018);
  char bytes[4];
  CHECK(DRIVER_CALL(cuMemcpyHtoD_v2)(pointer, bytes, 4) == CUDA_SUCCESS);
  ExpectCall("cuMemcpyHtoD_v2", {pointer, Word(bytes), 4});
}

void FailedLaunch(const Kernels& k) {
  Find<decltype(&null_driver_fail_with)>("null_driver_fail_with")(
      CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK(Find<LaunchKernel>("cuLaunchKernel")(k.function, 1, 1, 1, 1, 1, 1, 0, k.stream, nullptr,
                                             nullptr) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

void Names(const Kernels& k) {
  const auto launch = Find<LaunchKernel>("cuLaunchKernel");
  const auto count = Find<decltype(&null_driver_count)>("null_driver_count");
  const auto go = [&](const void* f) {
    CHECK(launch(static_cast<CUfunction>(const_cast<void*>(f)), 1, 1, 1, 1, 1, 1, 0, k.stream,
                 nullptr, nullptr) == CUDA_SUCCESS);
  };
  CUfunction of_kernel = nullptr, enumerated[2] = {};
  CHECK(DRIVER_CALL(cuKernelGetFunction)(&of_kernel, k.kernel) == CUDA_SUCCESS);
  CHECK(DRIVER_CALL(cuModuleEnumerateFunctions)(enumerated, 2, k.module) == CUDA_SUCCESS);
  go(k.function), go(k.kernel), go(of_kernel), go(enumerated[1]);
  // Handles that Cupola has not seen, because they were made by the driver's own pointer to a call.
  void* next_handle = dlopen(getenv("PROBE_DRIVER_LINK"), RTLD_LAZY);
  CHECK(next_handle != nullptr);
  CUfunction unseen = nullptr;
  CUkernel unseen_kernel = nullptr;
  CHECK(reinterpret_cast<decltype(&cuModuleGetFunction)>(dlsym(next_handle, "cuModuleGetFunction"))(
            &unseen, k.module, "unseen_function") == CUDA_SUCCESS);
  CHECK(reinterpret_cast<decltype(&cuLibraryGetKernel)>(dlsym(next_handle, "cuLibraryGetKernel"))(
            &unseen_kernel, k.library, "unseen_kernel") == CUDA_SUCCESS);
  go(unseen);
  const uint64_t asked = count("cuFuncGetName");
  go(unseen);
  CHECK(count("cuFuncGetName") == asked);  // the driver was asked only once
  go(unseen_kernel);
  const uint64_t before_unload = count("cuFuncGetName");
  go(k.function);
  CHECK(count("cuFuncGetName") == before_unload);
  CHECK(DRIVER_CALL(cuModuleUnload)(k.module) == CUDA_SUCCESS);
  go(k.function);  // its name was forgotten: the driver is asked again, and the null driver still knows it
  CHECK(count("cuFuncGetName") == before_unload + 1);
}

void DamagedImages() {
  CUmodule module = nullptr;
  CHECK(DRIVER_CALL(cuModuleLoadData)(&module, "BAD image") == CUDA_ERROR_INVALID_IMAGE);
  CUlibrary library = nullptr;
  CHECK(DRIVER_CALL(cuLibraryLoadData)(&library, "BAD", nullptr, nullptr, 0, nullptr, nullptr, 0) ==
        CUDA_ERROR_INVALID_IMAGE);
}

// All threads have launched once before any of them ends, so that none can take over what another left.
void Stress(const Kernels& k, int threads, int launches) {
  const auto launch = Find<LaunchKernel>("cuLaunchKernel_ptsz");
  std::barrier all_have_launched(threads);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      CHECK(DRIVER_CALL(cuCtxSetCurrent)(k.context) == CUDA_SUCCESS);
      for (int i = 0; i < launches; ++i) {
        CHECK(launch(k.function, static_cast<unsigned>(i + 1), static_cast<unsigned>(t + 1), 1, 32,
                     1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
        if (i == 0) all_have_launched.arrive_and_wait();
      }
    });
  }
  for (std::thread& one : all) one.join();
}

// Threads run one after the other: what a thread had of the library is free for the next one.
void InTurn(const Kernels& k, int threads, int launches) {
  for (int t = 0; t < threads; ++t) Stress(k, 1, launches);
}

void Launches(const Kernels& k, int count) {
  const auto launch = Find<LaunchKernel>("cuLaunchKernel");
  for (int i = 0; i < count; ++i) {
    CHECK(launch(k.function, static_cast<unsigned>(i + 1), 1, 1, 32, 1, 1, 0, k.stream, nullptr,
                 nullptr) == CUDA_SUCCESS);
  }
}

// A thread launches on a stream that another thread has destroyed and made anew, with the same handle and in another
// context.
void StreamAgain(Kernels k) {
  Launches(k, 2);
  const CUstream before = k.stream;
  std::thread([&k] {
    int other = 0;
    CHECK(DRIVER_CALL(cuCtxSetCurrent)(reinterpret_cast<CUcontext>(&other)) == CUDA_SUCCESS);
    CHECK(Find<CUresult (*)(CUstream)>("cuStreamDestroy_v2")(k.stream) == CUDA_SUCCESS);
    CHECK(DRIVER_CALL(cuStreamCreate)(&k.stream, 0) == CUDA_SUCCESS);
  }).join();
  CHECK(k.stream == before);
  Launches(k, 2);
}

// The parent launches once before the fork and once after it. The child launches once, and runs another program that
// launches once.
void ForkAndExec(const Kernels& k, char* program) {
  Launches(k, 1);
  const pid_t child = fork();
  if (child == 0) {
    Launches(Prepare(), 2);
    char scenario[] = "launches", count[] = "3";
    char* arguments[] = {program, scenario, count, nullptr};
    execv(program, arguments);
    _exit(9);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  Launches(k, 4);
}

// argv: plug-ins; each must reach the libcudart with which it was linked, whatever else is loaded.
void RuntimeDoors(const Kernels& k, int argc, char** argv) {
  void* arguments[] = {nullptr};
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i + 1 < argc; i += 2) {
      void* plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      if (plugin == nullptr) fprintf(stderr, "%s\n", dlerror());
      CHECK(plugin != nullptr);
      const auto call = reinterpret_cast<int (*)(int, const void*, void**, void*)>(
          dlsym(plugin, "call_runtime"));
      for (int door = 0; door < 4; ++door) {
        CHECK(call(door, k.function, arguments, k.stream) == atoi(argv[i + 1]));
        if (door < 3) {
          ExpectCall("cuLaunchKernel", {Word(k.function), 41, 42, 43, 44, 45, 46, 47,
                                        Word(k.stream), Word(arguments), 0});
        }
      }
    }
  }
}

// Threads still launch while main() returns.
void ExitWhileLaunching(const Kernels& k) {
  std::atomic<int>* started = new std::atomic<int>(0);
  for (int t = 0; t < 3; ++t) {
    std::thread([k, started] {
      ++*started;
      for (;;) Launches(k, 1);
    }).detach();
  }
  while (*started < 3) std::this_thread::yield();
}

}  // namespace

bool RunLaunchScenario(const std::string& name, int argc, char** argv) {
  if (name == "launch-forms") {
    const Kernels k = Prepare();
    LaunchKernelForms(k);
    LaunchExForms(k);
    LaunchOtherForms(k);
    FailedLaunch(k);
  } else if (name == "forwarded") {
    Forwarded();
  } else if (name == "names") {
    Names(Prepare());
  } else if (name == "damaged-images") {
    DamagedImages();
  } else if (name == "stress" && argc == 2) {
    Stress(Prepare(), atoi(argv[0]), atoi(argv[1]));
  } else if (name == "in-turn" && argc == 2) {
    InTurn(Prepare(), atoi(argv[0]), atoi(argv[1]));
  } else if (name == "stream-again") {
    StreamAgain(Prepare());
  } else if (name == "launches" && argc >= 1) {
    Launches(Prepare(), atoi(argv[0]));
  } else if (name == "fork-exec" && argc == 1) {
    ForkAndExec(Prepare(), argv[0]);
  } else if (name == "runtimes") {
    RuntimeDoors(Prepare(), argc, argv);
  } else if (name == "exit-while-launching") {
    ExitWhileLaunching(Prepare());
  } else {
    return false;
  }
  return true;
}

}  // namespace cupola::probe
