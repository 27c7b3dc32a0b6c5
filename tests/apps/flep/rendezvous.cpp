#include "rendezvous.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

namespace {
constexpr long kPatienceNs = 30'000'000'000;
}

long NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000L + now.tv_nsec;
}

void WaitUntilNs(long ns) {
  constexpr long kSpinNs = 200'000;  // longer than a sleep overshoots
  while (NowNs() < ns - kSpinNs) {
    const long sleep = ns - kSpinNs - NowNs();
    if (sleep <= 0) break;
    timespec time{sleep / 1'000'000'000, sleep % 1'000'000'000};
    nanosleep(&time, nullptr);
  }
  while (NowNs() < ns) sched_yield();
}

Rendezvous::Rendezvous(const std::string& path, int party, int parties)
    : party_(party), parties_(parties) {
  if (path.empty()) return;
  const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Page)) != 0) {
    std::perror(path.c_str());
    std::exit(1);
  }
  void* memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) {
    std::perror(path.c_str());
    std::exit(1);
  }
  page_ = static_cast<Page*>(memory);  // a new file is zeroes: all counters at zero
}

void Rendezvous::WaitFor(const std::atomic<int>& counter, int number, bool patient) {
  const long deadline = NowNs() + kPatienceNs;
  constexpr timespec kNap{0, 20'000};
  while (counter.load(std::memory_order_acquire) < number) {
    if (patient) {
      nanosleep(&kNap, nullptr);
    } else {
      sched_yield();
    }
    if (NowNs() > deadline) {
      std::fprintf(stderr, "a partner did not come to meeting or round %d\n", number);
      std::_Exit(3);
    }
  }
}

void Rendezvous::Meet(int number) {
  if (page_ == nullptr) return;
  page_->arrived[party_].store(number, std::memory_order_release);
  for (int i = 0; i < parties_; ++i) WaitFor(page_->arrived[i], number, true);
}

long Rendezvous::AwaitLaunch(int before, int round) {
  if (page_ == nullptr) return 0;
  WaitFor(page_->launched[before], round, false);
  return page_->launched_ns[before].load(std::memory_order_relaxed);
}

void Rendezvous::Launched(int round) {
  if (page_ == nullptr) return;
  page_->launched_ns[party_].store(NowNs(), std::memory_order_relaxed);
  page_->launched[party_].store(round, std::memory_order_release);
}

void Rendezvous::Leave() {
  if (page_ == nullptr) return;
  page_->launched[party_].store(INT_MAX, std::memory_order_release);
  page_->arrived[party_].store(INT_MAX, std::memory_order_release);
}
