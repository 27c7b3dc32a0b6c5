// make_task FILE.ptx: the task module of a PTX file on standard output, what became of each kernel
// on standard error, "task|refused <kernel> [reason]". For the tests that give task modules to
// ptxas.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "device/compiler/passes/task_module.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/write.h"
#include "device/runtime/master_image.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  if (!file || !text) {
    std::fprintf(stderr, "%s: cannot be read, or is empty\n", argv[1]);
    return 1;
  }
  const auto module = cupola::ptx::Parse(text.str(), argv[1]);
  const auto master = cupola::ptx::Parse(cupola::runtime::MasterImage(), "master_image");
  if (!module || !master) {
    const auto& error = module ? master.error() : module.error();
    std::fprintf(stderr, "%s\n", error.ToString().c_str());
    return 1;
  }
  const auto made = cupola::passes::MakeTaskModule(*module, *master);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error().ToString().c_str());
    return 1;
  }
  for (const auto& kernel : made->kernels) {
    std::fprintf(stderr, "%s %s %s\n", kernel.refusal.empty() ? "task" : "refused",
                 kernel.name.c_str(), kernel.refusal.c_str());
  }
  if (made->HasTasks()) std::fputs(cupola::ptx::Write(made->module).c_str(), stdout);
  return 0;
}
