/* The two tables that exports.cmake generates, as C: the calls that cuGetProcAddress looks up, and
 * the names of errors. Both are constant; any thread may read them. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* One version of one call. */
struct CupolaSimEntry {
  const char* name;
  int since;         /* the CUDA version (12000), from which cuGetProcAddress gives this one */
  int is_per_thread; /* 1 for the _ptsz or _ptds form */
  const void* address;
};

struct CupolaSimError {
  int code;
  const char* name;
};

/* Each ends with an entry whose name is null. */
__attribute__((visibility("hidden"))) extern const struct CupolaSimEntry cupola_sim_entries[];
__attribute__((visibility("hidden"))) extern const struct CupolaSimError cupola_sim_errors[];

#ifdef __cplusplus
}
#endif
