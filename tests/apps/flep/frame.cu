// RunProgram: prepares, warms up, meets its partners, launches and times, checks, prints.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../support/check_runtime.h"
#include "inputs.h"
#include "noise.h"
#include "options.h"
#include "program.h"
#include "rendezvous.h"
#include "script.h"

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

/// One measured launch.
struct Sample {
  int round = 0;
  long size = 0;
  long launch_ns = 0;   // before the launch call
  long done_ns = 0;     // after the wait for its end
  long partner_ns = 0;  // when the turn before ours had launched; 0 = none
  float event_us = 0;
};

class Frame {
 public:
  Frame(const Options& options, Program& program)
      : options_(options),
        program_(program),
        meeting_(options.barrier, options.party, options.parties) {}
  int Run(const Input& input);

 private:
  void Sweep(const Input& input);
  void Play();
  void Single(int round, const Round& turns, int turn);
  void Loop(int round, double seconds);
  long Scaled(long size) const;
  void Prepare(const Problem& problem);
  unsigned long long ResultSum();
  void CheckResult();
  bool Verify();
  void Print(const Input& input, const Problem& problem, bool good);

  const Options& options_;
  Program& program_;
  Rendezvous meeting_;
  cudaStream_t stream_ = nullptr;
  unsigned long long* device_sum_ = nullptr;
  unsigned long long sum_ = 0;
  int differing_ = 0;  // launches whose result was not that of the first
  long size_ = 0;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  std::vector<Sample> samples_;
};

bool IsOnH100() {
  int device = 0;
  cudaDeviceProp properties;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaGetDeviceProperties(&properties, device));
  return std::strstr(properties.name, "H100") != nullptr;
}

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
  const bool is_h100_size = input.h100_size != 0 && IsOnH100();
  const long size = is_h100_size ? input.h100_size : input.size;
  Problem problem{options_.size > 0 ? options_.size : size,
                  std::strcmp(input.input, "trivial") == 0};
  problem.size = Scaled(problem.size);
  CHECK(cudaMalloc(&device_sum_, sizeof(*device_sum_)));
  CHECK(cudaEventCreate(&start_));
  CHECK(cudaEventCreate(&stop_));
  stream_ = MakeStream(options_.stream_priority);
  Prepare(problem);
  if (options_.sweep > 0) {
    Sweep(input);
  } else {
    Play();
  }
  meeting_.Leave();
  if (!options_.check_each) sum_ = ResultSum();
  const bool good = !options_.verify || Verify();
  Print(input, problem, good);
  if (differing_ > 0) {
    std::fprintf(stderr, "%s: %d launches gave another result\n", program_.name(), differing_);
  }
  return good && differing_ == 0 ? 0 : 1;
}

long Frame::Scaled(long size) const {
  if (options_.scale == 1) return size;
  return std::max(program_.smallest(),
                  static_cast<long>(static_cast<double>(size) * options_.scale));
}

void Frame::Prepare(const Problem& problem) {
  program_.Prepare(problem);
  size_ = problem.size;
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < options_.warmup; ++i) {
    program_.Launch(stream_);
    CHECK(cudaStreamSynchronize(stream_));
  }
}

/// Launches of sizes between those of the trivial and of the large input, evenly by their
/// logarithm.
void Frame::Sweep(const Input& input) {
  const double least = static_cast<double>(Find(input.program, "trivial")->size);
  const double most = static_cast<double>(Find(input.program, "large")->size);
  const auto seed = static_cast<uint32_t>(options_.seed);
  for (int i = 0; i < options_.sweep; ++i) {
    const double share = Noise(i, seed, 0, 1);
    program_.Release();
    Prepare({Scaled(static_cast<long>(least * std::pow(most / least, share))), false});
    Single(i + 1, Round{}, 0);
  }
}

/// The rounds of the script, or --repeat rounds in which all parties take part, or one loop.
void Frame::Play() {
  std::vector<Round> rounds;
  if (!options_.script.empty()) {
    rounds = ReadScript(options_.script);
  } else {
    Round all{options_.loop_seconds, {}};
    for (int i = 0; i < options_.parties; ++i)
      all.turns.push_back({i, i > 0 ? options_.delay_us : 0});
    rounds.assign(options_.loop_seconds > 0 ? 1 : options_.repeat, all);
  }
  const Output output = program_.output();
  bool unchecked = false;
  for (size_t i = 0; i < rounds.size(); ++i) {
    const int round = static_cast<int>(i) + 1, turn = rounds[i].TurnOf(options_.party);
    // What a party does between rounds it does when all are through with the round before: a sum, or a
    // memset of gigabytes, in a context of its own delays those that are measured.
    meeting_.Meet(2 * round - 1);
    if (unchecked) CheckResult();
    unchecked = false;
    if (options_.check_each && turn >= 0) {
      CHECK(cudaMemsetAsync(const_cast<void*>(output.data), 0xff, output.count * 4, stream_));
      CHECK(cudaStreamSynchronize(stream_));
      unchecked = true;
    }
    meeting_.Meet(2 * round);
    if (turn < 0) continue;
    if (rounds[i].loop_seconds > 0) {
      Loop(round, rounds[i].loop_seconds);
    } else {
      Single(round, rounds[i], turn);
    }
  }
  meeting_.Meet(2 * static_cast<int>(rounds.size()) + 1);
  if (unchecked) CheckResult();
}

/// The result of the last launch is that of the first.
void Frame::CheckResult() {
  const unsigned long long sum = ResultSum();
  if (sum_ == 0) sum_ = sum;
  differing_ += sum != sum_;
}

/// One launch when its turn comes; waits for its end.
void Frame::Single(int round, const Round& turns, int turn) {
  Sample sample{round, size_};
  if (turn > 0) {
    sample.partner_ns = meeting_.AwaitLaunch(turns.turns[turn - 1].party, round);
    const double delay_us = turns.turns[turn].delay_us;
    if (delay_us > 0) WaitUntilNs(sample.partner_ns + static_cast<long>(delay_us * 1000));
  }
  if (options_.events) CHECK(cudaEventRecord(start_, stream_));
  sample.launch_ns = NowNs();
  program_.Launch(stream_);
  meeting_.Launched(round);
  if (options_.events) CHECK(cudaEventRecord(stop_, stream_));
  CHECK(cudaStreamSynchronize(stream_));
  sample.done_ns = NowNs();
  if (options_.events) {
    CHECK(cudaEventElapsedTime(&sample.event_us, start_, stop_));
    sample.event_us *= 1000;
  }
  samples_.push_back(sample);
}

/// Back to back, at most --depth launches in flight, until the time is over.
void Frame::Loop(int round, double seconds) {
  std::vector<cudaEvent_t> ends(options_.depth);
  for (cudaEvent_t& end : ends) {
    CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  }
  const long stop = NowNs() + static_cast<long>(seconds * 1e9);
  const size_t first = samples_.size();
  size_t ended = 0, launched = 0;
  const auto await_next = [&] {
    CHECK(cudaEventSynchronize(ends[ended % ends.size()]));
    samples_[first + ended++].done_ns = NowNs();
  };
  for (; NowNs() < stop; ++launched) {
    if (launched >= ends.size()) await_next();
    samples_.push_back({round, size_, NowNs()});
    program_.Launch(stream_);
    CHECK(cudaEventRecord(ends[launched % ends.size()], stream_));
  }
  while (ended < launched) await_next();
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

void PrintNumbers(const char* name, const std::vector<Sample>& samples, long Sample::*member) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < samples.size(); ++i) {
    std::printf(i > 0 ? ",%ld" : "%ld", samples[i].*member);
  }
  std::printf("]");
}

template <typename Value>
void PrintTimes(const char* name, const std::vector<Sample>& samples, Value value) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < samples.size(); ++i) {
    std::printf(i > 0 ? ",%.3f" : "%.3f", value(samples[i]));
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
    std::printf(", \"round\": [");
    for (size_t i = 0; i < samples_.size(); ++i) {
      std::printf(i > 0 ? ",%d" : "%d", samples_[i].round);
    }
    std::printf("]");
    PrintNumbers("sizes", samples_, &Sample::size);
    PrintNumbers("launch_ns", samples_, &Sample::launch_ns);
    PrintNumbers("done_ns", samples_, &Sample::done_ns);
    PrintTimes("turnaround_us", samples_, [](const Sample& sample) {
      return static_cast<double>(sample.done_ns - sample.launch_ns) / 1000;
    });
    if (options_.events) {
      PrintTimes("event_us", samples_, [](const Sample& sample) { return sample.event_us; });
    }
  }
  std::printf("}\n");
}

}  // namespace

void* Program::AllocateBytes(long bytes) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, bytes));
  allocations_.push_back(memory);
  return memory;
}

void Program::Release() {
  for (void* memory : allocations_) CHECK(cudaFree(memory));
  allocations_.clear();
}

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
