// In the driver's place: calls without anything that could wait.
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuGetExportTable(const void** table, const void* id) { return *table = 0, 0; }
int cuMemAlloc_v2(unsigned long long* at, unsigned long bytes) { return *at = 4096, 0; }
int cuStreamCreate(void** stream, unsigned flags) { return *stream = (void*)stream, 0; }
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned s,
                   void* t, void** p, void** e) { return 0; }
int cuCtxSynchronize(void) { return 0; }
