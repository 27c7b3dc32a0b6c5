// A MasterKernel that has nothing to do: how long behind its last task it is gone by itself, and
// what the first task takes when it is gone, beside a launch. Prints a line of JSON for each.
//   narrow_idle [--rounds N] [--tasks N] [--pause-us N]       200, 264, 1000
// "leaves": from when the host has seen the last of 2 or N tasks, by turns, until the device has
// nothing to do (one by itself is a launch). "after": each so long behind the end of what was
// before it, by turns; from the call to the result on the host.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cupola/task.h"
#include "tests/apps/support/check_runtime.h"

namespace {

constexpr unsigned kThreads = 128, kFew = 2;

__device__ void AddOne(unsigned* out) { ++out[cupola::task::ThreadId()]; }
__global__ void AddOneKernel(unsigned* out) { ++out[threadIdx.x]; }

using Tasks = cupola::task::TaskSystem<AddOne>;

struct Options {
  unsigned rounds = 200, tasks = 264, pause_us = 1000;
};

[[noreturn]] void Fail(const char* what, const std::string& why) {
  std::fprintf(stderr, "narrow_idle: %s: %s\n", what, why.c_str());
  std::exit(1);
}

void Must(const Tasks& tasks, cupola::task::Error error, const char* what) {
  if (error != cupola::task::Error::kNone) Fail(what, tasks.Describe(error));
}

double NowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double At(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

unsigned* Zeroed(size_t words) {
  unsigned* out = nullptr;
  CHECK(cudaMalloc(&out, words * sizeof *out));
  CHECK(cudaMemset(out, 0, words * sizeof *out));
  CHECK(cudaDeviceSynchronize());  // tasks run beside the default stream
  return out;
}

// Whether each of these has been added to as often as it should.
void MustBe(const unsigned* out, size_t words, unsigned expected) {
  std::vector<unsigned> found(words);
  CHECK(cudaMemcpy(found.data(), out, words * sizeof *out, cudaMemcpyDeviceToHost));
  for (const unsigned value : found) {
    if (value != expected) Fail("results", std::to_string(value) + " runs of a task");
  }
}

// It was gone each time: a new one was launched for each round, or more where the host was held up
// between two tasks; or the task itself was.
void MustHaveLeft(uint32_t launches, unsigned rounds) {
  if (launches < rounds) {
    Fail("launches", std::to_string(launches) + " in " + std::to_string(rounds) + " rounds");
  }
}

void MeasureLeaving(const Options& options) {
  Tasks tasks;
  const size_t words = size_t{options.tasks} * kThreads;
  unsigned* const out = Zeroed(words);
  std::vector<double> gone_us;
  // The first launch loads the kernel.
  for (unsigned round = 0; round <= options.rounds; ++round) {
    const unsigned count = round % 2 == 0 ? options.tasks : kFew;
    for (unsigned i = 0; i < count; ++i) {
      cupola::task::TaskId id;
      Must(tasks, tasks.Spawn<AddOne>({.threads = kThreads}, &id, out + size_t{i} * kThreads),
           "spawn");
    }
    Must(tasks, tasks.WaitAll(), "wait");
    const double start = NowUs();
    CHECK(cudaDeviceSynchronize());
    if (round > 0) gone_us.push_back(NowUs() - start);
  }
  MustHaveLeft(tasks.launches(), options.rounds + 1);
  MustBe(out, kFew * kThreads, options.rounds + 1);
  MustBe(out + kFew * kThreads, words - kFew * kThreads, options.rounds / 2 + 1);
  std::printf(
      "{\"mode\": \"leaves\", \"rounds\": %u, \"us_p50\": %.1f, \"us_p99\": %.1f, "
      "\"us_max\": %.1f}\n",
      options.rounds, At(gone_us, 0.5), At(gone_us, 0.99), At(gone_us, 1));
  CHECK(cudaFree(out));
}

// Nothing runs, nor did for so long.
void Pause(const Options& options) {
  CHECK(cudaDeviceSynchronize());
  for (const double until = NowUs() + options.pause_us; NowUs() < until;) {
  }
}

void MeasureAfter(const Options& options) {
  Tasks tasks;
  unsigned* const out = Zeroed(kThreads);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<double> task_us, launch_us;
  for (unsigned round = 0; round <= options.rounds; ++round) {
    Pause(options);
    cupola::task::TaskId id;
    double start = NowUs();
    Must(tasks, tasks.Spawn<AddOne>({.threads = kThreads}, &id, out), "spawn");
    Must(tasks, tasks.Wait(id), "wait");
    if (round > 0) task_us.push_back(NowUs() - start);
    Pause(options);
    start = NowUs();
    AddOneKernel<<<1, kThreads, 0, stream>>>(out);
    CHECK(cudaStreamSynchronize(stream));
    if (round > 0) launch_us.push_back(NowUs() - start);
  }
  MustHaveLeft(tasks.solo_launches(), options.rounds + 1);
  MustBe(out, kThreads, 2 * (options.rounds + 1));
  std::printf(
      "{\"mode\": \"after\", \"rounds\": %u, \"pause_us\": %u, \"task_us_p50\": %.2f, "
      "\"task_us_p99\": %.2f, \"launch_us_p50\": %.2f, \"launch_us_p99\": %.2f}\n",
      options.rounds, options.pause_us, At(task_us, 0.5), At(task_us, 0.99), At(launch_us, 0.5),
      At(launch_us, 0.99));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(out));
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    unsigned* const to = std::strcmp(argv[i], "--rounds") == 0     ? &options.rounds
                         : std::strcmp(argv[i], "--tasks") == 0    ? &options.tasks
                         : std::strcmp(argv[i], "--pause-us") == 0 ? &options.pause_us
                                                                   : nullptr;
    if (to == nullptr || i + 1 == argc) std::exit(2);
    *to = std::max(kFew, static_cast<unsigned>(std::strtoul(argv[i + 1], nullptr, 10)));
  }
  options.rounds += options.rounds % 2;  // as many of either sort
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  MeasureLeaving(options);
  MeasureAfter(options);
}
