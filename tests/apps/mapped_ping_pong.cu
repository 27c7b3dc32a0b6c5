// A running kernel and the host play ping-pong through flags in mapped pinned memory. Both sides
// carry a deadline, so a broken set-up ends by itself with a message.
#include <chrono>
#include <thread>
#include <vector>

#include "support/check_runtime.h"
#include "support/checksum.h"

constexpr unsigned kTimedOut = 0xdeadu;
constexpr unsigned long long kDeadlineNs = 20'000'000'000ull;

struct Mailbox {
  unsigned ping, question, pong, answer;
};

__device__ unsigned long long GlobalTimerNs() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void Answer(volatile Mailbox* box, unsigned rounds, unsigned* status) {
  const unsigned long long start = GlobalTimerNs();
  unsigned state = 1;
  for (unsigned round = 1; round <= rounds; ++round) {
    while (box->ping != round) {
      if (GlobalTimerNs() - start > kDeadlineNs) {
        *status = kTimedOut;
        return;
      }
    }
    __threadfence_system();
    state = state * 1664525u + box->question;
    box->answer = state;
    __threadfence_system();
    box->pong = round;
  }
  *status = rounds;
}

int main(int argc, char** argv) {
  const unsigned rounds = SizeArgument(argc, argv, 50);
  Mailbox *box, *device_box;
  unsigned* status;
  CHECK(cudaHostAlloc(&box, sizeof(Mailbox), cudaHostAllocMapped));
  *box = Mailbox{};
  CHECK(cudaHostGetDevicePointer(&device_box, box, 0));
  CHECK(cudaMalloc(&status, sizeof(unsigned)));
  CHECK(cudaMemset(status, 0, sizeof(unsigned)));
  Answer<<<1, 1>>>(device_box, rounds, status);
  CHECK(cudaGetLastError());

  std::vector<unsigned> answers(rounds), expected(rounds);
  unsigned state = 1;
  bool in_time = true;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kDeadlineNs);
  for (unsigned round = 1; round <= rounds && in_time; ++round) {
    box->question = Mix(round);
    __atomic_store_n(&box->ping, round, __ATOMIC_RELEASE);
    while (__atomic_load_n(&box->pong, __ATOMIC_ACQUIRE) != round && in_time) {
      std::this_thread::yield();
      in_time = std::chrono::steady_clock::now() < deadline;
    }
    answers[round - 1] = *static_cast<volatile unsigned*>(&box->answer);
    expected[round - 1] = state = state * 1664525u + Mix(round);
  }
  CHECK(cudaDeviceSynchronize());
  unsigned last = 0;
  CHECK(cudaMemcpy(&last, status, sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(status));
  CHECK(cudaFreeHost(box));
  if (!in_time || last == kTimedOut) std::fprintf(stderr, "mapped_ping_pong: timed out\n");

  Checksum sum;
  sum.Add(answers);
  std::printf("%u rounds, the last answer is %08x\n", last, answers[rounds - 1]);
  return Report("mapped_ping_pong", in_time && last == rounds && answers == expected, sum);
}
