/* The tables that exports.cmake generates, as C: what cuGetProcAddress looks up and the names of
 * errors. Constant; any thread. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* One version of one call. `since` is the CUDA version (12000) from which a request gets it. */
struct CupolaSimEntry {
  const char* name;
  int since;
  int is_per_thread; /* the _ptsz or _ptds form */
  const void* address;
};

struct CupolaSimError {
  int code;
  const char* name;
};

/* Both end with an entry whose name is null. */
__attribute__((visibility("hidden"))) extern const struct CupolaSimEntry cupola_sim_entries[];
__attribute__((visibility("hidden"))) extern const struct CupolaSimError cupola_sim_errors[];

#ifdef __cplusplus
}
#endif
