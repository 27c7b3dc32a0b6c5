// Launches a kernel when a static object is destroyed, in a function that atexit calls, when a thread_local object of a
// thread is destroyed (one that was made behind, or before the thread's first call of CUDA), or a pthread key's value
// is, in each of the rounds that there are.
//   main static|atexit|thread|early|key legacy|own|per-thread
#include <cuda_runtime.h>
#include <pthread.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
__global__ void Add(unsigned* out) { atomicAdd(out, 1u); }
static cudaStream_t stream;
static unsigned* out;
static void Launch(const char* when) {
  unsigned value = 0;
  cudaMemsetAsync(out, 0, 4, stream);
  Add<<<1, 32, 0, stream>>>(out);
  cudaError_t error = cudaGetLastError();
  if (!error) error = cudaMemcpyAsync(&value, out, 4, cudaMemcpyDeviceToHost, stream);
  if (!error) error = cudaStreamSynchronize(stream);
  if (error) printf("%s: %s\n", when, cudaGetErrorName(error));
  else printf("%s: %u\n", when, value);
  fflush(stdout);
}
struct AtEnd {
  bool wanted = false;
  ~AtEnd() { if (wanted) Launch("at the end"); }
};
static thread_local AtEnd at_thread_end;
static pthread_key_t key;
static int rounds;
static void AtKey(void* value) {
  if (++rounds < PTHREAD_DESTRUCTOR_ITERATIONS) pthread_setspecific(key, value);
  Launch("at the end");
}
int main(int, char** argv) {
  const bool by_key = !strcmp(argv[1], "key"), early = !strcmp(argv[1], "early");
  const bool in_thread = by_key || early || !strcmp(argv[1], "thread");
  cudaMalloc(&out, 4);
  if (!strcmp(argv[2], "per-thread")) stream = cudaStreamPerThread;
  if (!strcmp(argv[2], "own")) cudaStreamCreate(&stream);
  if (in_thread) {
    pthread_key_create(&key, AtKey);
    std::thread([=] {
      if (early) at_thread_end.wanted = true;
      Launch("before");
      if (by_key) pthread_setspecific(key, &key);
      else at_thread_end.wanted = true;
    }).join();
  } else if (!strcmp(argv[1], "atexit")) {
    Launch("before");
    atexit([] { Launch("at the end"); });
  } else {
    Launch("before");
    static AtEnd at_exit;   // behind the first calls of CUDA: it ends before what they made
    at_exit.wanted = true;
  }
}
