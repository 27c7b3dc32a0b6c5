// A program that asks a driver what it has, and writes the answers to standard output. Run by itself and under Cupola it
// writes the same: what the driver lacks is missing under Cupola too. Each mode ends with exit code 0:
//   report          every call that Cupola knows, by dlsym and by both forms of cuGetProcAddress
//   bound NAME      calls the export NAME as a program that was linked with it does; writes the result
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include <cuda.h>
#include <dlfcn.h>

#undef cuGetProcAddress

namespace {

const char* const kNames[] = {
#define CUPOLA_CALL(name, ...) #name,
#include "intercept/calls.inc"
#undef CUPOLA_CALL
};

using GetOld = CUresult (*)(const char*, void**, int, cuuint64_t);
using GetNew = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

// The name by which cuGetProcAddress knows an export: without _v2 and _ptsz. A few exports have a number of their own.
void SymbolOf(const char* name, char* symbol) {
  strcpy(symbol, name);
  for (const char* suffix : {"_ptsz", "_ptds"}) {
    char* const at = strstr(symbol, suffix);
    if (at != nullptr) *at = '\0';
  }
  const size_t length = strlen(symbol);
  if (length > 3 && symbol[length - 3] == '_' && symbol[length - 2] == 'v') symbol[length - 3] = '\0';
}

int Report(void* driver) {
  const auto get_old = reinterpret_cast<GetOld>(dlsym(driver, "cuGetProcAddress"));
  const auto get_new = reinterpret_cast<GetNew>(dlsym(driver, "cuGetProcAddress_v2"));
  const auto get_version = reinterpret_cast<CUresult (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  int driver_version = 0;
  if (get_old == nullptr || get_new == nullptr || get_version(&driver_version) != CUDA_SUCCESS) return 1;
  printf("version %d\n", driver_version);
  for (const char* name : kNames) {
    char symbol[128];
    SymbolOf(name, symbol);
    printf("%s dlsym %d", name, dlsym(driver, name) != nullptr);
    for (const int version : {11080, 12040, 13000}) {
      for (const cuuint64_t flags : {0, 2}) {
        void* old_function = nullptr;
        void* function = nullptr;
        CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
        const CUresult old_result = get_old(symbol, &old_function, version, flags);
        const CUresult result = get_new(symbol, &function, version, flags, &status);
        printf(" %d:%d,%d/%d,%d,%d", version, old_result, old_function != nullptr, result, status, function != nullptr);
      }
    }
    printf("\n");
  }
  return 0;
}

// Found as the dynamic linker finds it for a program that was linked with the driver.
int Bound(const char* name) {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL) == nullptr) return 1;
  const auto function = reinterpret_cast<CUresult (*)(void*, void*)>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) printf("%s is not found\n", name);
  else printf("%s returns %d\n", name, function(nullptr, nullptr));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  if (argc == 2 && strcmp(argv[1], "report") == 0) return Report(driver);
  if (argc == 3 && strcmp(argv[1], "bound") == 0) return Bound(argv[2]);
  return 3;
}
