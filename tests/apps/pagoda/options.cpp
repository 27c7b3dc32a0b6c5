#include "options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace pagoda {
namespace {

constexpr char kUsage[] =
    "usage: %s [--tasks N,...] [--threads T,...] [--blocks B,...] [--size N,...]\n"
    "  [--irregular] [--no-copies] [--no-shared] [--seed S] [--streams N] [--host-threads N]\n"
    "  [--repeat N] [--no-times]\n"
    "  [--forms FORM[:none|calls|bulk|inside],... [--batch N] [--latency]]\n"
    "Runs the same tasks in each form and prints a line of JSON for each: milliseconds of each\n"
    "run, and a checksum of all results.\n";

[[noreturn]] void Complain(const char* program, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program, what.c_str());
  std::fprintf(stderr, kUsage, program);
  std::exit(2);
}

std::vector<unsigned> Numbers(const char* program, const std::string& option, const char* text) {
  std::vector<unsigned> values;
  for (char* end = nullptr; *text != 0; text = *end == ',' ? end + 1 : end) {
    const long value = std::strtol(text, &end, 10);
    if (end == text || (*end != 0 && *end != ',') || value < 0 || value > 1L << 30) {
      Complain(program, option + ": not numbers");
    }
    values.push_back(static_cast<unsigned>(value));
  }
  if (values.empty()) Complain(program, option + ": no number");
  return values;
}

}  // namespace

Options ReadOptions(int argc, char** argv) {
  Options o;
  const std::map<std::string, std::vector<unsigned>*> lists = {{"--tasks", &o.tasks},
                                                               {"--threads", &o.threads},
                                                               {"--blocks", &o.blocks},
                                                               {"--size", &o.sizes}};
  const std::map<std::string, unsigned*> numbers = {{"--seed", &o.config.seed},
                                                    {"--streams", &o.config.streams},
                                                    {"--host-threads", &o.host_threads},
                                                    {"--repeat", &o.repeat},
                                                    {"--batch", &o.config.batch}};
  const std::map<std::string, std::pair<bool*, bool>> flags = {
      {"--irregular", {&o.config.irregular, true}},
      {"--no-copies", {&o.config.copies, false}},
      {"--no-shared", {&o.config.shared, false}},
      {"--latency", {&o.latency, true}},
      {"--no-times", {&o.times, false}}};
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (const auto flag = flags.find(option); flag != flags.end()) {
      *flag->second.first = flag->second.second;
      continue;
    }
    if (++i == argc) Complain(argv[0], option + "?");
    if (const auto list = lists.find(option); list != lists.end()) {
      *list->second = Numbers(argv[0], option, argv[i]);
    } else if (const auto number = numbers.find(option); number != numbers.end()) {
      *number->second = Numbers(argv[0], option, argv[i])[0];
    } else if (option == "--forms") {
      o.forms = argv[i];
    } else {
      Complain(argv[0], option + "?");
    }
  }
  for (const unsigned threads : o.threads) {
    if (threads == 0 || threads % 32 != 0 || threads > 992) {
      Complain(argv[0], "--threads: multiples of 32, up to 992");
    }
  }
  const auto has_zero = [](unsigned number) { return number == 0; };
  if (std::any_of(o.blocks.begin(), o.blocks.end(), has_zero) || has_zero(o.config.streams) ||
      has_zero(o.host_threads) || has_zero(o.config.batch) || o.config.streams < o.host_threads) {
    Complain(argv[0], "a number is too small");
  }
  return o;
}

}  // namespace pagoda
