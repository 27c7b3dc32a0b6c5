// Makes one CUDA call after the other, each while a kernel of this program is stopped half-way, and
// says whether the call came back and whether every block ran exactly once. Plain CUDA; the kernel is
// stopped from outside, by whoever reads "running" on standard output.
//
//   guarded_calls list
//   guarded_calls STREAM          non_blocking | blocking | legacy | per_thread
//
// With GRAPH_NODES=N in the environment the kernel is a graph of N kernels that follow each other, launched far ahead of the
// device: the process is held between two of them, with more launches behind than the driver has room for in pieces.
//
// Reads "CALL BLOCKS" lines from standard input until it ends. For each prints lines: "running", and
// when a further line has come "called" just before the call, "returned MICROSECONDS" after it, and
// last "blocks N wrong M". Exit code 0 when M was always 0; 3 for an error of CUDA; each kernel ends by
// itself after 20 s at most, and soon when that further line has come.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "guarded_work.h"
#include "guarded_world.h"

namespace {

void AwaitStep(World& w, int step) {
  while (w.capture_step.load() < step) std::this_thread::yield();
}

using Calls = std::map<std::string, std::function<void(World&)>>;

void AddCopies(Calls* calls) {
  Calls& c = *calls;
  c["memcpy_to_host_pageable"] = [](World& w) {
    MUST(cudaMemcpy(w.pageable.data(), w.data, 4096, cudaMemcpyDeviceToHost));
  };
  c["memcpy_to_device_pageable"] = [](World& w) {
    MUST(cudaMemcpy(w.data, w.pageable.data(), 4096, cudaMemcpyHostToDevice));
  };
  c["memcpy_to_host_pinned"] = [](World& w) {
    MUST(cudaMemcpy(w.pinned, w.data, 4096, cudaMemcpyDeviceToHost));
  };
  c["memcpy_to_device_pinned"] = [](World& w) {
    MUST(cudaMemcpy(w.data, w.pinned, 4096, cudaMemcpyHostToDevice));
  };
  c["memcpy_async_pageable"] = [](World& w) {
    MUST(cudaMemcpyAsync(w.data, w.pageable.data(), 4096, cudaMemcpyHostToDevice, w.guarded));
  };
  c["memcpy_async_pinned"] = [](World& w) {
    MUST(cudaMemcpyAsync(w.data, w.pinned, 4096, cudaMemcpyHostToDevice, w.guarded));
  };
  c["memcpy_async_elsewhere"] = [](World& w) {
    MUST(cudaMemcpyAsync(w.data, w.pinned, 4096, cudaMemcpyHostToDevice, w.other));
    MUST(cudaStreamSynchronize(w.other));
  };
  c["memcpy_to_symbol"] = [](World&) {
    const int value = 1;
    MUST(cudaMemcpyToSymbol(written_by_host, &value, sizeof(value)));
  };
  c["memset"] = [](World& w) { MUST(cudaMemset(w.data, 0, 4096)); };
  c["memset_pinned"] = [](World& w) { MUST(cudaMemset(w.pinned, 0, 4096)); };
}

// What waits for a stream that waits for the guarded one: through its event, through a second one,
// through a graph that runs once at a time.
void AddBehindEvents(Calls* calls) {
  Calls& c = *calls;
  c["memcpy_behind_event"] = [](World& w) {
    MUST(cudaStreamWaitEvent(cudaStreamLegacy, w.after));
    MUST(cudaMemcpy(w.pageable.data(), w.data, 4096, cudaMemcpyDeviceToHost));
  };
  c["memcpy_behind_events"] = [](World& w) {
    MUST(cudaStreamWaitEvent(w.idle, w.after));
    MUST(cudaEventRecord(w.second, w.idle));
    MUST(cudaStreamWaitEvent(w.other_blocking, w.second));
    MUST(cudaMemcpy(w.data, w.pinned, 4096, cudaMemcpyHostToDevice));
  };
  c["memcpy_behind_graph"] = [](World& w) {
    MUST(cudaGraphLaunch(w.executable, w.guarded));
    MUST(cudaGraphLaunch(w.executable, cudaStreamLegacy));
    MUST(cudaMemcpy(w.pageable.data(), w.data, 4096, cudaMemcpyDeviceToHost));
  };
  c["memcpy_async_behind_event"] = [](World& w) {
    MUST(cudaStreamWaitEvent(w.other, w.after));
    MUST(cudaMemcpyAsync(w.data, w.pageable.data(), 4096, cudaMemcpyHostToDevice, w.other));
  };
  c["synchronize_behind_event"] = [](World& w) {
    MUST(cudaStreamWaitEvent(w.other, w.after));
    MUST(cudaStreamSynchronize(w.other));
  };
}

void AddMemory(Calls* calls) {
  Calls& c = *calls;
  c["malloc"] = [](World&) {
    void* p = nullptr;
    MUST(cudaMalloc(&p, 1 << 20));
  };
  c["malloc_host"] = [](World&) {
    void* p = nullptr;
    MUST(cudaMallocHost(&p, 4096));
  };
  c["malloc_async"] = [](World& w) {
    void* p = nullptr;
    MUST(cudaMallocAsync(&p, 1 << 20, w.other));
    MUST(cudaStreamSynchronize(w.other));
  };
  c["free"] = [](World& w) { MUST(cudaFree(std::exchange(w.spare, nullptr))); };
  c["free_host"] = [](World& w) {
    MUST(cudaFreeHost(std::exchange(w.spare_pinned, nullptr)));
  };
  c["host_register"] = [](World&) {
    void* const p = std::aligned_alloc(4096, 1 << 16);
    std::memset(p, 0, 1 << 16);
    MUST(cudaHostRegister(p, 1 << 16, 0));
  };
  c["host_unregister"] = [](World& w) {
    MUST(cudaHostUnregister(std::exchange(w.registered, nullptr)));
  };
  c["mem_get_info"] = [](World&) {
    size_t free = 0, total = 0;
    MUST(cudaMemGetInfo(&free, &total));
  };
  c["pool_trim"] = [](World&) {
    cudaMemPool_t pool = nullptr;
    MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
    MUST(cudaMemPoolTrimTo(pool, 0));
  };
  c["pointer_attributes"] = [](World& w) {
    cudaPointerAttributes attributes;
    MUST(cudaPointerGetAttributes(&attributes, w.data));
  };
}

cudaKernel_t KernelOf(void (*symbol)(float*)) {
  cudaKernel_t kernel = nullptr;
  MUST(cudaGetKernel(&kernel, reinterpret_cast<const void*>(symbol)));
  return kernel;
}

void AddCode(Calls* calls) {
  Calls& c = *calls;
  c["module_load"] = [](World&) {
    CUmodule module = nullptr;
    if (DRIVER(cuModuleLoadData)(&module, kOtherModule) != CUDA_SUCCESS) _exit(3);
  };
  c["module_unload"] = [](World& w) {
    if (DRIVER(cuModuleUnload)(std::exchange(w.module, nullptr)) != CUDA_SUCCESS) _exit(3);
  };
  c["first_launch"] = [](World& w) {
    never_launched_before<<<1, 32, 0, w.other>>>(w.data);
    MUST(cudaStreamSynchronize(w.other));
  };
  // Of kernels that are not loaded.
  c["kernel_param_info"] = [](World&) {
    size_t offset = 0, bytes = 0;
    const cudaKernel_t kernel = KernelOf(never_asked_parameters);
    if (DRIVER(cuKernelGetParamInfo)(kernel, 0, &offset, &bytes) != CUDA_SUCCESS) _exit(3);
  };
  c["kernel_name"] = [](World&) {
    const char* name = nullptr;
    const cudaKernel_t kernel = KernelOf(never_asked_name);
    if (DRIVER(cuKernelGetName)(&name, kernel) != CUDA_SUCCESS) _exit(3);
  };
  c["kernel_attribute"] = [](World& w) {
    int registers = 0;
    const cudaKernel_t kernel = KernelOf(never_asked_registers);
    if (DRIVER(cuKernelGetAttribute)(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, w.device) !=
        CUDA_SUCCESS) {
      _exit(3);
    }
  };
  c["function_of_kernel"] = [](World&) {
    cudaFunction_t function = nullptr;
    MUST(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(never_asked_function)));
  };
  c["local_memory_grows"] = [](World& w) {
    deep_stack<<<1024, 256, 0, w.other>>>(w.data, 3);
    MUST(cudaStreamSynchronize(w.other));
  };
  c["func_set_attribute"] = [](World&) {
    MUST(cudaFuncSetAttribute(small_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024));
  };
  c["set_limit"] = [](World&) { MUST(cudaDeviceSetLimit(cudaLimitStackSize, 8192)); };
}

void AddStreams(Calls* calls) {
  Calls& c = *calls;
  c["stream_synchronize"] = [](World& w) { MUST(cudaStreamSynchronize(w.guarded)); };
  c["stream_query"] = [](World& w) { cudaStreamQuery(w.guarded); };
  c["stream_create"] = [](World& w) { MUST(cudaStreamCreate(&w.more.emplace_back())); };
  c["stream_destroy_idle"] = [](World& w) {
    MUST(cudaStreamDestroy(std::exchange(w.idle, nullptr)));
  };
  c["event_create"] = [](World&) {
    cudaEvent_t event = nullptr;
    MUST(cudaEventCreate(&event));
    MUST(cudaEventDestroy(event));
  };
  c["event_synchronize"] = [](World& w) { MUST(cudaEventSynchronize(w.after)); };
  c["device_synchronize"] = [](World&) { MUST(cudaDeviceSynchronize()); };
  c["launch_elsewhere"] = [](World& w) {
    small_kernel<<<1, 32, 0, w.other>>>(w.data);
    MUST(cudaStreamSynchronize(w.other));
  };
  c["launch_on_blocking_stream"] = [](World& w) {
    small_kernel<<<1, 32, 0, w.other_blocking>>>(w.data);
    cudaStreamQuery(w.other_blocking);
  };
  c["launches_fill_the_queue"] = [](World& w) {
    for (int i = 0; i < 1100; ++i) small_kernel<<<1, 32, 0, w.guarded>>>(w.data);
  };
  c["forty_new_streams"] = [](World& w) {
    for (int i = 0; i < 40; ++i) {
      cudaStream_t& stream = w.more.emplace_back();
      MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      small_kernel<<<1, 32, 0, stream>>>(w.data);
      cudaStreamQuery(stream);
    }
  };
  c["graph_launch"] = [](World& w) {
    cudaGraphExec_t executable = nullptr;
    MUST(cudaGraphInstantiate(&executable, w.graph, 0));
    MUST(cudaGraphLaunch(executable, w.other));
    MUST(cudaStreamSynchronize(w.other));
  };
  c["graph_upload"] = [](World& w) {
    cudaGraphExec_t executable = nullptr;
    MUST(cudaGraphInstantiate(&executable, w.graph, 0));
    MUST(cudaGraphUpload(executable, w.other));
    MUST(cudaStreamSynchronize(w.other));
  };
  c["capture_elsewhere"] = [](World& w) {
    cudaGraph_t graph = nullptr;
    MUST(cudaStreamBeginCapture(w.other, cudaStreamCaptureModeGlobal));
    small_kernel<<<1, 32, 0, w.other>>>(w.data);
    MUST(cudaStreamEndCapture(w.other, &graph));
  };
  c["capture_across"] = [](World& w) {  // the rest: Before() and After()
    w.capture_step = 2;
    AwaitStep(w, 3);
  };
}

// Under the other context, of which nothing is stopped.
void AddOtherContext(Calls* calls) {
  const auto add = [calls](const std::string& name, const std::function<void(World&)>& call) {
    (*calls)["in_other_context_" + name] = [call](World& w) {
      CUcontext popped = nullptr;
      MUST_DRIVER(DRIVER(cuCtxPushCurrent)(beside.context));
      call(w);
      MUST_DRIVER(DRIVER(cuCtxPopCurrent)(&popped));
    };
  };
  add("memcpy_pageable", [](World& w) {
    MUST_DRIVER(DRIVER(cuMemcpyHtoD_v2)(beside.memory, w.pageable.data(), 1 << 20));
    MUST_DRIVER(DRIVER(cuMemcpyDtoH_v2)(w.pageable.data(), beside.memory, 1 << 20));
  });
  add("memcpy_async_pageable", [](World& w) {
    const auto to_host = DRIVER(cuMemcpyDtoHAsync_v2);
    MUST_DRIVER(to_host(w.pageable.data(), beside.memory, 1 << 20, beside.stream));
    MUST_DRIVER(DRIVER(cuStreamSynchronize)(beside.stream));
  });
  add("free", [](World&) { MUST_DRIVER(DRIVER(cuMemFree_v2)(std::exchange(beside.memory, 0))); });
  add("module_load", [](World&) {
    CUmodule module = nullptr;
    MUST_DRIVER(DRIVER(cuModuleLoadData)(&module, kOtherModule));
  });
  add("library_global", [](World&) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    MUST_DRIVER(DRIVER(cuLibraryGetGlobal)(&address, &bytes, beside.library, "word"));
  });
  add("first_launch", [](World&) {
    CUfunction function = nullptr;
    MUST_DRIVER(DRIVER(cuModuleGetFunction)(&function, beside.module, "other"));
    MUST_DRIVER(
        DRIVER(cuLaunchKernel)(function, 1, 1, 1, 32, 1, 1, 0, beside.stream, nullptr, nullptr));
    MUST_DRIVER(DRIVER(cuStreamSynchronize)(beside.stream));
  });
  add("synchronize", [](World&) { MUST_DRIVER(DRIVER(cuCtxSynchronize)()); });
  (*calls)["destroy_other_context"] = [](World&) {
    MUST_DRIVER(DRIVER(cuCtxDestroy_v2)(std::exchange(beside.context, nullptr)));
  };
}

constexpr int kCapturedBefore = 5, kCapturedWithin = 20;

// Captures from before the kernel is launched until it has ended, in the mode in which other
// threads are forbidden what might disturb it.
void CaptureAcross(World& w) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  MUST(cudaSetDevice(0));
  MUST(cudaStreamBeginCapture(w.other, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kCapturedBefore; ++i) count_launch<<<1, 1, 0, w.other>>>(w.launches);
  w.capture_step = 1;
  AwaitStep(w, 2);  // the call
  for (int i = 0; i < kCapturedWithin; ++i) count_launch<<<1, 1, 0, w.other>>>(w.launches);
  w.capture_step = 3;
  AwaitStep(w, 4);  // the kernel has ended
  MUST(cudaStreamEndCapture(w.other, &graph));
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  MUST(cudaGraphLaunch(executable, w.other));
  MUST(cudaStreamSynchronize(w.other));
}

// What a call wants done before the kernel is launched, and after it has ended.
void Before(World* w, const std::string& call) {
  if (call.find("other_context") != std::string::npos) MakeOtherContext(w->device);
  if (call != "capture_across") return;
  w->capturing = std::thread(CaptureAcross, std::ref(*w));
  AwaitStep(*w, 1);
  // As cudaStreamSynchronize is what the other's capture forbids to threads that do not say so.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  MUST(cudaThreadExchangeStreamCaptureMode(&mode));
}

int After(World* w, const std::string& call) {
  if (call != "capture_across") return 0;
  unsigned launches = 0;
  w->capture_step = 4;
  w->capturing.join();
  MUST(cudaMemcpy(&launches, w->launches, sizeof(launches), cudaMemcpyDeviceToHost));
  if (launches == 1 + kCapturedBefore + kCapturedWithin) return 0;
  std::printf("error: the graph and what went before it counted %u\n", launches);
  return 5;
}

Calls AllCalls() {
  Calls calls;
  AddCopies(&calls);
  AddBehindEvents(&calls);
  AddMemory(&calls);
  AddCode(&calls);
  AddStreams(&calls);
  AddOtherContext(&calls);
  return calls;
}

// One call, with a kernel of so many blocks.
int Run(const std::string& call, const std::string& stream, unsigned blocks) {
  static const Calls calls = AllCalls();
  const auto found = calls.find(call);
  if (found == calls.end()) return 2;
  World w;
  Prepare(&w, stream);
  // A graph serves all cells of the process.
  static const unsigned nodes = EnvironmentNumber("GRAPH_NODES", 0);
  static Work* graph = nullptr;
  if (nodes != 0 && graph == nullptr) graph = new Work(blocks, nodes);
  Work* const work = nodes != 0 ? graph : new Work(blocks, 0);
  work->Warm(w.guarded);

  Before(&w, call);
  work->Launch(w.guarded);
  MUST(cudaEventRecord(w.after, w.guarded));
  work->AwaitBegin();
  std::printf("running\n");
  std::fflush(stdout);
  char line[64];
  if (std::fgets(line, sizeof(line), stdin) == nullptr) return 4;
  work->Hurry();  // it is stopped, or will be at any moment
  const auto make_the_call = [&] {
    MUST(cudaSetDevice(0));
    std::printf("called\n");
    std::fflush(stdout);
    const auto begin = Clock::now();
    found->second(w);
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    std::printf("returned %.0f\n", us);
    std::fflush(stdout);
  };
  if (stream == "per_thread") {
    make_the_call();
  } else {
    std::thread(make_the_call).join();
  }
  MUST(cudaStreamSynchronize(w.guarded));
  if (const int code = After(&w, call); code != 0) return code;
  MUST(cudaDeviceSynchronize());
  const unsigned wrong = work->Wrong();
  if (nodes == 0) {
    work->Free();
    delete work;
  }
  CleanUp(&w, stream);
  std::printf("blocks %u wrong %u\n", nodes == 0 ? blocks : graph->blocks(), wrong);
  std::fflush(stdout);
  return wrong == 0 ? 0 : 1;
}

// The calls that standard input names.
int RunAll(const std::string& stream) {
  char line[64], call[64];
  unsigned blocks = 0;
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    if (std::sscanf(line, "%63s %u", call, &blocks) != 2) return 2;
    if (const int code = Run(call, stream, blocks); code != 0) return code;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "list") == 0) {
    for (const auto& [name, call] : AllCalls()) std::printf("%s\n", name.c_str());
    return 0;
  }
  if (argc != 2) {
    std::fprintf(stderr, "usage: guarded_calls list | guarded_calls STREAM\n");
    return 2;
  }
  return RunAll(argv[1]);
}
