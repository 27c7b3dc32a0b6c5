// Scenarios of the probe about how a program finds the driver with Cupola in front of it: SONAME rules, entry points,
// older and newer drivers.
#include <cstring>
#include <fstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/preload/probe.h"

namespace cupola::probe {

std::string FileOf(const void* address) {
  Dl_info object;
  return dladdr(address, &object) != 0 ? object.dli_fname : "";
}

namespace {

bool IsOurs(const void* address) {
  return FileOf(address).find("/libcupola/libcuda.so.1") != std::string::npos;
}

bool IsMapped(const char* part) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

// argv: ways to open the driver, each of which must give Cupola's library.
void OpenedAs(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) {
    for (int mode : {RTLD_LAZY | RTLD_LOCAL, RTLD_NOW | RTLD_GLOBAL, RTLD_LAZY | RTLD_DEEPBIND,
                     RTLD_LAZY | RTLD_NOLOAD}) {
      void* handle = dlopen(argv[i], mode);
      if (handle == nullptr) fprintf(stderr, "%s: %s\n", argv[i], dlerror());
      CHECK(handle != nullptr);
      void* launch = dlsym(handle, "cuLaunchKernel");
      CHECK(IsOurs(launch));
      CHECK(dlclose(handle) == 0);
    }
  }
  CHECK(IsOurs(dlsym(RTLD_DEFAULT, "cuLaunchKernel")));
}

void* AddressOf(const char* symbol, int version, cuuint64_t flags) {
  void* function = nullptr;
  const auto get = Find<CUresult (*)(const char*, void**, int, cuuint64_t,
                                     CUdriverProcAddressQueryResult*)>("cuGetProcAddress_v2");
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result = get(symbol, &function, version, flags, &status);
  if (result != CUDA_SUCCESS) return nullptr;
  CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
  return function;
}

// Whether the returned pointer is the hook of `export_name`, judged by its address.
bool IsHookOf(void* function, const char* export_name) {
  void* exported = Find<void*>(export_name);
  if (function == exported) return true;  // waiting calls: what is given out is the export itself
  // The export is `endbr64; jmp hook`: follow the jump.
  const auto* code = static_cast<const unsigned char*>(exported) + 4;
  CHECK(code[0] == 0xE9 || code[0] == 0xEB);
  int32_t distance = 0;
  if (code[0] == 0xE9) memcpy(&distance, code + 1, 4);
  else distance = static_cast<signed char>(code[1]);
  const void* hook = code + (code[0] == 0xE9 ? 5 : 2) + distance;
  return function == hook;
}

void EntryPoints() {
  struct Case { const char* symbol; int version; cuuint64_t flags; const char* expected; };
  const Case cases[] = {
      {"cuLaunchKernel", 4000, 0, "cuLaunchKernel"},
      {"cuLaunchKernel", 13000, 0, "cuLaunchKernel"},
      {"cuLaunchKernel", 13000, 1, "cuLaunchKernel"},
      {"cuLaunchKernel", 13000, 2, "cuLaunchKernel_ptsz"},
      {"cuLaunchKernelEx", 11060, 2, "cuLaunchKernelEx_ptsz"},
      {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
      {"cuGetProcAddress", 11080, 0, "cuGetProcAddress"},
      {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
      {"cuGetProcAddress", 13000, 2, "cuGetProcAddress_v2"},
      {"cuStreamDestroy", 2000, 0, "cuStreamDestroy"},
      {"cuStreamDestroy", 4000, 0, "cuStreamDestroy_v2"},
      {"cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture"},
      {"cuStreamBeginCapture", 10000, 2, "cuStreamBeginCapture_ptsz"},
      {"cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2"},
      {"cuStreamBeginCapture", 13000, 2, "cuStreamBeginCapture_v2_ptsz"},
      {"cuGraphInstantiate", 10000, 0, "cuGraphInstantiate"},
      {"cuGraphInstantiate", 11040, 0, "cuGraphInstantiate_v2"},
      {"cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags"},
      {"cuGraphInstantiate", 13000, 2, "cuGraphInstantiateWithFlags"},
      {"cuGraphInstantiateWithParams", 12000, 2, "cuGraphInstantiateWithParams_ptsz"},
  };
  for (const Case& one : cases) {
    void* function = AddressOf(one.symbol, one.version, one.flags);
    if (!IsHookOf(function, one.expected)) {
      fprintf(stderr, "%s %d %d: not %s\n", one.symbol, one.version, static_cast<int>(one.flags),
              one.expected);
      exit(1);
    }
  }
  CHECK(AddressOf("cuNoSuchCall", 13000, 0) == nullptr);
  CHECK(AddressOf("", 13000, 0) == nullptr);
  void* plain = AddressOf("cuCtxGetLimit", 13000, 0);  // has no hook, so this is the driver's own
  CHECK(plain != nullptr && !IsOurs(plain));
  const void* table = nullptr;
  CUuuid uuid{};
  CHECK(DRIVER_CALL(cuGetExportTable)(&table, &uuid) == CUDA_SUCCESS);
  CHECK(table == reinterpret_cast<const void*>(0x1234));
}

// With a driver of 11.8 a request for the newest form gives the form of 11.0.
void EntryPointsOfOlderDriver() {
  CHECK(IsHookOf(AddressOf("cuGraphInstantiate", 11080, 0), "cuGraphInstantiate_v2"));
  CHECK(IsHookOf(AddressOf("cuGraphInstantiate", 13000, 0), "cuGraphInstantiate_v2"));
}

void NewerDriver() {
  const auto newer = Find<CUresult (*)(int*)>("cuNewerThanTheHeaders");
  int value = 0;
  CHECK(newer(&value) == CUDA_SUCCESS && value == 77);
  void* function = AddressOf("cuNewerThanTheHeaders", 14000, 0);
  CHECK(function == reinterpret_cast<void*>(newer));
  // A form of a known call that is newer than the headers of the build is recognised by its pointer, or else left
  // alone.
  CHECK(IsHookOf(AddressOf("cuLaunchKernel", 99000, 0), "cuLaunchKernel"));
}

void OlderDriver() {
  void* handle = dlopen("libcuda.so.1", RTLD_LAZY);
  CHECK(handle != nullptr);
  CHECK(dlsym(handle, "cuLaunchKernelEx") == nullptr);
  const char* why = dlerror();
  CHECK(why != nullptr && strstr(why, "cuLaunchKernelEx") != nullptr);
  CHECK(dlsym(handle, "cuLaunchKernel") != nullptr);
  CHECK(AddressOf("cuLaunchKernelEx", 13000, 0) == nullptr);
  // A call that is bound at start-up, where the symbol always exists, gives an error and does not crash.
  CHECK(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL) != nullptr);
  const auto bound = reinterpret_cast<CUresult (*)(const void*, void*, void**, void**)>(
      dlsym(RTLD_DEFAULT, "cuLaunchKernelEx"));
  CUlaunchConfig config{};
  CHECK(bound(&config, nullptr, nullptr, nullptr) == CUDA_ERROR_NOT_FOUND);
}

void NoDriver() {
  CHECK(dlopen("libcuda.so.1", RTLD_LAZY) == nullptr);
  CHECK(strstr(dlerror(), "libcuda.so.1") != nullptr);
  CHECK(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) == nullptr);
  CHECK(!IsMapped("libcupola/libcuda.so.1"));
}

// The driver is loaded under another name; a program that asks for it by its own name gets the same one.
void LoadedPast(const char* driver) {
  void* const loaded = dlopen(driver, RTLD_NOW);
  CHECK(loaded != nullptr);
  for (int i = 0; i < 2; ++i) CHECK(dlopen("libcuda.so.1", RTLD_NOW) == loaded);
  CHECK(!IsOurs(dlsym(loaded, "cuLaunchKernel")));
}

// A program that uses nothing of CUDA: Cupola may do nothing.
void NotCuda(const char* records) {
  CHECK(!IsMapped("null_driver"));
  CHECK(IsMapped("libcupola.so"));
  CHECK(!IsMapped("libcupola/libcuda.so.1"));
  CHECK(dlsym(RTLD_DEFAULT, "cuInit") == nullptr);
  CHECK(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) == nullptr);
  CHECK(!IsMapped("libcupola/libcuda.so.1"));
  CHECK(access(records, F_OK) == 0);
  CHECK(rmdir(records) == 0);  // no records were written
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Threads:", 0) == 0) CHECK(line == "Threads:\t1");
  }
}

void NextDlsym() {
  // RTLD_NEXT from the program finds libc's own, past the door.
  void* next = dlsym(RTLD_NEXT, "dlsym");
  CHECK(next != nullptr);
  CHECK(dlsym(RTLD_DEFAULT, "getpid") == reinterpret_cast<void*>(&getpid));
  CHECK(dlsym(RTLD_DEFAULT, "no_such_function_anywhere") == nullptr);
}

}  // namespace

bool RunFindingScenario(const std::string& name, int argc, char** argv) {
  if (name == "opened-as") OpenedAs(argc, argv);
  else if (name == "entry-points") EntryPoints();
  else if (name == "entry-points-older") EntryPointsOfOlderDriver();
  else if (name == "newer-driver") NewerDriver();
  else if (name == "older-driver") OlderDriver();
  else if (name == "no-driver") NoDriver();
  else if (name == "loaded-past") LoadedPast(argv[0]);
  else if (name == "not-cuda") NotCuda(argv[0]);
  else if (name == "next-dlsym") NextDlsym();
  else return false;
  return true;
}

}  // namespace cupola::probe

int main(int argc, char** argv) {
  CHECK(argc >= 2);
  const std::string name = argv[1];
  const bool known = cupola::probe::RunFindingScenario(name, argc - 2, argv + 2) ||
                     cupola::probe::RunLaunchScenario(name, argc - 2, argv + 2) ||
                     cupola::probe::RunGraphScenario(name, argc - 2, argv + 2);
  if (!known) fprintf(stderr, "no scenario %s\n", name.c_str());
  return known ? 0 : 2;
}
