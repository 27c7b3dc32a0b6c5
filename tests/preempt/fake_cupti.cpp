// A libcupti that does what the real one does with the driver at the first call of any of its
// functions ("CUPTI initialization occurs lazily", CUPTI documentation): it asks for its tables.
#include <cuda.h>
#include <dlfcn.h>

extern "C" __attribute__((visibility("default"))) int cuptiGetVersion(unsigned* version) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 1;
  const auto get_table = reinterpret_cast<CUresult (*)(const void**, const CUuuid*)>(
      dlsym(driver, "cuGetExportTable"));
  const CUuuid uuid{};
  const void* table = nullptr;
  if (get_table != nullptr) (void)get_table(&table, &uuid);
  *version = 1;
  return 0;
}
