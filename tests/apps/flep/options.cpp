#include "options.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

namespace {

constexpr char kUsage[] =
    "usage: %s [--input large|small|trivial] [--size N] [--scale F] [--repeat N] [--warmup N]\n"
    "  [--loop SECONDS] [--depth N] [--delay-us U] [--priority-stream no|low|high]\n"
    "  [--barrier FILE --party I --parties N [--script FILE]] [--sweep N] [--seed S] [--events]\n"
    "  [--check-each] [--verify] [--no-times]\n"
    "Launches one kernel --repeat times, or again and again for --loop seconds, and prints one "
    "line\n"
    "of JSON: times of launch and end in nanoseconds of CLOCK_MONOTONIC, turnaround and event "
    "times\n"
    "in microseconds, a checksum of the whole result. With --barrier all parties begin every\n"
    "repetition together; party I launches --delay-us after party I-1 has. With --script a file "
    "says\n"
    "who launches when: a line a round, [loop=SECONDS] PARTY[@DELAY_US] ...; with --sweep the "
    "sizes of\n"
    "N launches are random, between those of trivial and large.\n";

[[noreturn]] void Complain(const char* program, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program, what.c_str());
  std::fprintf(stderr, kUsage, program);
  std::exit(2);
}

double Number(const char* program, const std::string& option, const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != 0 || value < 0) Complain(program, option + ": not a number");
  return value;
}

}  // namespace

Options ReadOptions(int argc, char** argv) {
  Options o;
  using Take = std::function<void(const std::string&, double)>;
  std::map<std::string, Take> numbers = {
      {"--size", [&](auto&, double v) { o.size = static_cast<long>(v); }},
      {"--scale", [&](auto&, double v) { o.scale = v; }},
      {"--repeat", [&](auto&, double v) { o.repeat = static_cast<int>(v); }},
      {"--warmup", [&](auto&, double v) { o.warmup = static_cast<int>(v); }},
      {"--loop", [&](auto&, double v) { o.loop_seconds = v; }},
      {"--depth", [&](auto&, double v) { o.depth = v < 1 ? 1 : static_cast<int>(v); }},
      {"--delay-us", [&](auto&, double v) { o.delay_us = v; }},
      {"--sweep", [&](auto&, double v) { o.sweep = static_cast<int>(v); }},
      {"--seed", [&](auto&, double v) { o.seed = v; }},
      {"--party", [&](auto&, double v) { o.party = static_cast<int>(v); }},
      {"--parties", [&](auto&, double v) { o.parties = static_cast<int>(v); }},
  };
  std::map<std::string, std::string*> words = {{"--input", &o.input},
                                               {"--priority-stream", &o.stream_priority},
                                               {"--script", &o.script},
                                               {"--barrier", &o.barrier}};
  std::map<std::string, bool*> flags = {
      {"--events", &o.events}, {"--check-each", &o.check_each}, {"--verify", &o.verify}};
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--no-times") {
      o.times = false;
    } else if (const auto flag = flags.find(option); flag != flags.end()) {
      *flag->second = true;
    } else if (i + 1 == argc) {
      Complain(argv[0], option + ": unknown, or without its value");
    } else if (const auto word = words.find(option); word != words.end()) {
      *word->second = argv[++i];
    } else if (const auto number = numbers.find(option); number != numbers.end()) {
      ++i;
      number->second(option, Number(argv[0], option, argv[i]));
    } else {
      Complain(argv[0], option + ": unknown");
    }
  }
  if (o.party >= o.parties || o.parties > 64) Complain(argv[0], "--party: not one of --parties");
  return o;
}
