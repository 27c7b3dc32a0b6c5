// A client of the arbiter for tests: joins a board and does what its standard input says, a word a line;
// answers each with one line. The product's own BoardClient, without CUDA.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "base/settings/variables.h"
#include "sched/board/board_client.h"

using namespace cupola::sched;

namespace {

const char* Name(JoinResult result) {
  static const char* const kNames[] = {"joined", "no-daemon", "timed-out", "refused", "bad-answer"};
  return kNames[static_cast<int>(result)];
}

const char* Name(DaemonState state) {
  static const char* const kNames[] = {"none", "present", "absent"};
  return kNames[static_cast<int>(state)];
}

void Show(const BoardClient& client) {
  const BoardSlot& slot = client.slot();
  std::printf(
      "slot %u priority %d weight %u requests %llx bound %x gate %u may_take %llx demand %u "
      "by_kernel %u\n",
      client.index(), slot.priority.load(), slot.weight.load(),
      static_cast<unsigned long long>(slot.yield_requests.load()), slot.yield_sm_bound.load(),
      slot.gate.load(), static_cast<unsigned long long>(slot.may_take.words[0].load()), slot.demand.load(),
      slot.has_kernel_rules.load());
}

/// Does what standard input says. True: it has ended; false: go on without the main thread.
bool Obey(BoardClient& client) {
  char line[256];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    char word[64] = "";
    char text[128] = "";
    unsigned long long number = 0;
    unsigned long long lease = 600'000;  // longer than a test, unless it says otherwise
    unsigned sms = cupola::runtime::kAllSms;
    std::sscanf(line, "%63s %llu %llu %u", word, &number, &lease, &sms);
    const uint64_t now = BoardClockNs();
    if (std::strcmp(word, "begin") == 0) {  // remaining us, lease ms, SMs
      const Demand demand = {number * 1000, lease * 1'000'000, sms};
      WakeSleepers(client.board(), BeginDemand(client.board(), client.index(), demand, client.OnBoard(now)));
      std::puts("ok");
    } else if (std::strcmp(word, "end") == 0) {
      EndDemand(client.board(), client.index());
      std::puts("ok");
    } else if (std::strcmp(word, "poll") == 0) {
      std::puts(Name(client.Poll(now)));
    } else if (std::strcmp(word, "show") == 0) {
      Show(client);
    } else if (std::strcmp(word, "drop") == 0) {
      std::printf("%llx\n", static_cast<unsigned long long>(
                                DropStaleRequests(client.board(), client.index(), client.OnBoard(now))));
    } else if (std::strcmp(word, "kernel") == 0 && std::sscanf(line, "%*s %127s", text) == 1) {
      std::strncpy(client.slot().kernel, text, sizeof(client.slot().kernel) - 1);
      std::puts("ok");
    } else if (std::strcmp(word, "preempted") == 0) {  // so often, for what is shown of it
      client.slot().preemptions.fetch_add(number);
      std::puts("ok");
    } else if (std::strcmp(word, "variant") == 0 && std::sscanf(line, "%*s %127s", text) == 1) {
      std::puts(VariantName(client.VariantFor(text)));
    } else if (std::strcmp(word, "storm") == 0) {  // rings without a pause, for so many ms
      while (BoardClockNs() - now < number * 1'000'000) RingBell(client.board().header());
      std::puts("ok");
    } else if (std::strcmp(word, "owner") == 0) {  // of a slot, and its state
      const BoardSlot& slot = client.board().slot(static_cast<uint32_t>(number));
      std::printf("%u %u\n", slot.pid.load(), slot.state.load());
    } else if (std::strcmp(word, "lose") == 0) {  // its slot to another
      client.slot().pid = static_cast<uint32_t>(number);
      std::puts("ok");
    } else if (std::strcmp(word, "end-main") == 0) {  // its main thread; the process goes on
      std::puts("ok");
      std::fflush(stdout);
      return false;
    } else if (std::strcmp(word, "leave") == 0) {
      client.Leave();
      std::puts("ok");
    } else if (std::strcmp(word, "join") == 0 && std::sscanf(line, "%*s %127s", text) == 1) {  // after "leave"
      std::puts(Name(client.Join({.executable = "/bin/member", .gpu_uuid = text, .capabilities = kCanPreempt,
                                  .sm_count = 132, .timeout_ms = 30'000})));
    } else {
      std::puts("what?");
    }
    std::fflush(stdout);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // GPU uuid, executable, capabilities
  JoinRequest request;
  request.gpu_uuid = argc > 1 ? argv[1] : "SIM-0";
  request.executable = argc > 2 ? argv[2] : argv[0];
  request.capabilities = argc > 3 ? static_cast<uint32_t>(std::atoi(argv[3])) : kCanPreempt;
  request.label = cupola::settings::Text("CUPOLA_LABEL");
  request.sm_count = 132;
  request.timeout_ms = 30'000;
  static BoardClient client;  // the main thread may end before the process
  const JoinResult joined = client.Join(request);
  std::printf("%s %s\n", Name(joined), client.reason());
  std::fflush(stdout);
  if (Obey(client)) return 0;
  std::thread([] { std::exit(Obey(client) ? 0 : 1); }).detach();
  pthread_exit(nullptr);
}
