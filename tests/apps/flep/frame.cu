// RunProgram: prepares, warms up, meets its partners, launches and times, checks, prints.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "../support/check_runtime.h"
#include "inputs.h"
#include "options.h"
#include "program.h"
#include "rendezvous.h"

/// Adds up a mixed function of every value and its place: the order of the sum does not matter.
static __global__ void SumUp(const uint32_t* values, long n, unsigned long long* sum) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  for (long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < n; i += step) {
    unsigned long long x = (static_cast<unsigned long long>(i) << 32 ^ values[i]) + 1;
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
    mine += x ^ (x >> 29);
  }
  atomicAdd(sum, mine);
}

namespace {

struct Times {
  std::vector<long> launch_ns;   // before the launch call
  std::vector<long> done_ns;     // after the wait for its end
  std::vector<long> partner_ns;  // when the party before ours had launched
  std::vector<float> event_us;
};

class Frame {
 public:
  Frame(const Options& options, Program& program)
      : options_(options),
        program_(program),
        meeting_(options.barrier, options.party, options.parties) {}
  int Run(const Input& input);

 private:
  void Repeat();
  void Loop();
  unsigned long long ResultSum();
  bool Verify();
  void Print(const Input& input, const Problem& problem, bool good);

  const Options& options_;
  Program& program_;
  Rendezvous meeting_;
  cudaStream_t stream_ = nullptr;
  unsigned long long* device_sum_ = nullptr;
  unsigned long long sum_ = 0;
  int differing_ = 0;  // launches whose result was not that of the first
  Times times_;
};

const Input* Find(const char* program, const std::string& input) {
  for (const Input& row : kInputs) {
    if (std::strcmp(row.program, program) == 0 && input == row.input) return &row;
  }
  std::fprintf(stderr, "%s: no input \"%s\"\n", program, input.c_str());
  return nullptr;
}

cudaStream_t MakeStream(const std::string& priority) {
  int least = 0, greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream;
  if (priority == "no") {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  } else {
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                       priority == "high" ? greatest : least));
  }
  return stream;
}

int Frame::Run(const Input& input) {
  Problem problem{options_.size > 0 ? options_.size : input.size,
                  std::strcmp(input.input, "trivial") == 0};
  if (options_.scale != 1) {
    problem.size = std::max(program_.smallest(),
                            static_cast<long>(static_cast<double>(problem.size) * options_.scale));
  }
  program_.Prepare(problem);
  stream_ = MakeStream(options_.stream_priority);
  CHECK(cudaMalloc(&device_sum_, sizeof(*device_sum_)));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < options_.warmup; ++i) {
    program_.Launch(stream_);
    CHECK(cudaStreamSynchronize(stream_));
  }
  if (options_.loop_seconds > 0) {
    Loop();
  } else {
    Repeat();
  }
  meeting_.Leave();
  if (!options_.check_each) sum_ = ResultSum();
  const bool good = !options_.verify || Verify();
  Print(input, problem, good);
  return good && differing_ == 0 ? 0 : 1;
}

void Frame::Repeat() {
  const Output output = program_.output();
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  for (int round = 1; round <= options_.repeat; ++round) {
    if (options_.check_each) {
      CHECK(cudaMemsetAsync(const_cast<void*>(output.data), 0xff, output.count * 4, stream_));
      CHECK(cudaStreamSynchronize(stream_));
    }
    meeting_.Meet(round);
    const long before = meeting_.AwaitTurn(round);
    if (options_.delay_us > 0 && before > 0) {
      WaitUntilNs(before + static_cast<long>(options_.delay_us * 1000));
    }
    if (options_.events) CHECK(cudaEventRecord(start, stream_));
    times_.launch_ns.push_back(NowNs());
    program_.Launch(stream_);
    meeting_.Launched(round);
    if (options_.events) CHECK(cudaEventRecord(stop, stream_));
    CHECK(cudaStreamSynchronize(stream_));
    times_.done_ns.push_back(NowNs());
    times_.partner_ns.push_back(before);
    if (options_.events) {
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, start, stop));
      times_.event_us.push_back(ms * 1000);
    }
    if (options_.check_each) {
      const unsigned long long sum = ResultSum();
      if (round == 1) sum_ = sum;
      differing_ += sum != sum_;
    }
  }
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(stop));
}

/// Back to back, at most `depth` launches in flight, until the time is over.
void Frame::Loop() {
  std::vector<cudaEvent_t> ends(options_.depth);
  for (cudaEvent_t& end : ends) {
    CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  }
  meeting_.Meet(1);
  const long stop = NowNs() + static_cast<long>(options_.loop_seconds * 1e9);
  const auto await = [&](size_t launch) {
    CHECK(cudaEventSynchronize(ends[launch % ends.size()]));
    times_.done_ns.push_back(NowNs());
  };
  while (NowNs() < stop) {
    const size_t next = times_.launch_ns.size();
    if (next >= ends.size()) await(next - ends.size());
    times_.launch_ns.push_back(NowNs());
    program_.Launch(stream_);
    CHECK(cudaEventRecord(ends[next % ends.size()], stream_));
  }
  while (times_.done_ns.size() < times_.launch_ns.size()) await(times_.done_ns.size());
  for (cudaEvent_t end : ends) CHECK(cudaEventDestroy(end));
}

unsigned long long Frame::ResultSum() {
  const Output output = program_.output();
  unsigned long long sum = 0;
  CHECK(cudaMemsetAsync(device_sum_, 0, sizeof(sum), stream_));
  const long blocks = std::min(1024L, (output.count + 255) / 256);
  SumUp<<<static_cast<unsigned>(blocks), 256, 0, stream_>>>(
      static_cast<const uint32_t*>(output.data), output.count, device_sum_);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyAsync(&sum, device_sum_, sizeof(sum), cudaMemcpyDeviceToHost, stream_));
  CHECK(cudaStreamSynchronize(stream_));
  return sum;
}

/// Compares up to 8192 outputs, from both ends, with the host's.
bool Frame::Verify() {
  const Output output = program_.output();
  const long part = std::min(output.count, 4096L);
  for (const long first : {0L, output.count - part}) {
    std::vector<uint32_t> got(part);
    CHECK(cudaMemcpy(got.data(), static_cast<const uint32_t*>(output.data) + first, part * 4,
                     cudaMemcpyDeviceToHost));
    for (long i = 0; i < part; ++i) {
      float as_float;
      std::memcpy(&as_float, &got[i], 4);
      const double value = output.is_float ? as_float : static_cast<int32_t>(got[i]);
      const double expected = program_.Expected(first + i);
      const double error = std::fabs(value - expected) / std::max(1.0, std::fabs(expected));
      if (error <= program_.tolerance()) continue;
      std::fprintf(stderr, "%s: output %ld is %.9g, should be %.9g\n", program_.name(), first + i,
                   value, expected);
      return false;
    }
  }
  return true;
}

template <typename T, typename Write>
void PrintArray(const char* name, const std::vector<T>& values, Write write) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) std::printf(", ");
    write(values[i], i);
  }
  std::printf("]");
}

void Frame::Print(const Input& input, const Problem& problem, bool good) {
  const dim3 grid = program_.grid(), block = program_.block();
  std::printf("{\"program\": \"%s\", \"input\": \"%s\", \"size\": %ld, ", input.program,
              input.input, problem.size);
  std::printf("\"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"target_us\": %g, ", grid.x,
              grid.y, grid.z, block.x, block.y, block.z, input.target_us);
  std::printf("\"verified\": %s, \"differing\": %d, \"checksum\": \"%016llx\"",
              !options_.verify ? "null"
              : good           ? "true"
                               : "false",
              differing_, sum_);
  if (options_.times) {
    const auto whole = [](long ns, size_t) { std::printf("%ld", ns); };
    PrintArray("launch_ns", times_.launch_ns, whole);
    PrintArray("done_ns", times_.done_ns, whole);
    PrintArray("partner_ns", times_.partner_ns, whole);
    PrintArray("turnaround_us", times_.launch_ns, [&](long ns, size_t i) {
      std::printf("%.3f", static_cast<double>(times_.done_ns[i] - ns) / 1000);
    });
    PrintArray("event_us", times_.event_us, [](float us, size_t) { std::printf("%.3f", us); });
  }
  std::printf("}\n");
}

}  // namespace

unsigned Program::Blocks(long pieces, bool part, const void* kernel) const {
  if (!part) return static_cast<unsigned>(pieces);
  int device = 0, sms = 0, resident = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  const int threads = static_cast<int>(block_.x * block_.y * block_.z);
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0));
  const long third = std::max(1L, static_cast<long>(sms) * resident / 3);
  return static_cast<unsigned>(std::min(pieces, third));
}

int RunProgram(int argc, char** argv, Program& program) {
  const Options options = ReadOptions(argc, argv);
  const Input* input = Find(program.name(), options.input);
  if (input == nullptr) return 2;
  return Frame(options, program).Run(*input);
}
