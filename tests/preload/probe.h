// The probe: the program that the preload tests run under libcupola.so, each time in one scenario, by
// name. It finds the driver as real programs do, checks what it sees, and reports by its exit code.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <cuda.h>
#include <dlfcn.h>

#include "tests/preload/null_driver/null_driver.h"

#define CHECK(condition)                                                                   \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);            \
      exit(1);                                                                             \
    }                                                                                      \
  } while (false)

namespace cupola::probe {

/// A driver call found by dlsym on the handle of dlopen("libcuda.so.1").
template <typename Function>
Function Find(const char* name) {
  static void* handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  CHECK(handle != nullptr);
  auto function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) fprintf(stderr, "no %s\n", name);
  CHECK(function != nullptr);
  return function;
}

using LaunchKernel = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                  unsigned, unsigned, CUstream, void**, void**);

/// File of the shared object that holds `address`.
std::string FileOf(const void* address);

/// Each runs the scenario of this name; if something in it is wrong, the program ends. False: there is
/// no such scenario.
bool RunFindingScenario(const std::string& name, int argc, char** argv);
bool RunLaunchScenario(const std::string& name, int argc, char** argv);
bool RunGraphScenario(const std::string& name, int argc, char** argv);

}  // namespace cupola::probe

#define DRIVER_CALL(name) ::cupola::probe::Find<decltype(&name)>(#name)
