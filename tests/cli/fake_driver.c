// Stands where a CUDA driver would be found; nothing calls it.
int cuInit(unsigned flags);
int cuInit(unsigned flags) { return (int)flags; }
