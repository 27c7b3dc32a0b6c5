// make_side FILE.ptx [kernel=registers]...: the side module of a PTX file on standard output, what
// became of each kernel on standard error, "preemptible|sliced|refused <kernel> [reason]". For the
// tests that give side modules to ptxas.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "device/compiler/passes/preemptible.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || !text) {
    std::fprintf(stderr, "%s: cannot be read, or is empty\n", argv[1]);
    return 1;
  }
  auto module = cupola::ptx::Parse(text.str(), argv[1]);
  if (!module) {
    std::fprintf(stderr, "%s\n", module.error().ToString().c_str());
    return 1;
  }
  cupola::passes::SideModuleOptions options;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t at = word.find('=');
    options.max_registers[word.substr(0, at)] =
        static_cast<uint32_t>(std::atoi(word.c_str() + at + 1));
  }
  const auto side = cupola::passes::MakeSideModule(*module, options);
  if (!side) {
    std::fprintf(stderr, "%s\n", side.error().ToString().c_str());
    return 1;
  }
  for (const auto& kernel : side->kernels) {
    const auto say = [&](const char* what, const std::string& refusal) {
      std::fprintf(stderr, "%s %s%s%s\n", refusal.empty() ? what : "refused", kernel.name.c_str(),
                   refusal.empty() ? "" : " ",
                   refusal.empty() ? "" : (what + (": " + refusal)).c_str());
    };
    say("preemptible", kernel.preemptible_refusal);
    say("sliced", kernel.sliced_refusal);
  }
  std::fputs(cupola::ptx::Write(side->module).c_str(), stdout);
  return 0;
}
