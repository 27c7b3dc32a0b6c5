/* What task_c_api.cu gives to task_c_api.c: its handle, and memory that both sides see. */
#ifndef CUPOLA_TESTS_TASK_C_API_H_
#define CUPOLA_TESTS_TASK_C_API_H_

#include "cupola/task_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle with the bodies
 *   Scale(unsigned* words, unsigned count, unsigned factor)
 *   Sum(const unsigned* words, unsigned* sums, double share, char tag): of each block, with a
 *     barrier and 4 bytes of shared memory a thread; sums[block] = the sum x share + tag
 *   Nothing()
 *   Endless(const unsigned* let): until *let is not 0, or for 20 s */
cupola_tasks* open_tasks(void);

/* Pinned memory of the host, all 0; `device` is where the device sees it. NULL: there is none. */
unsigned* make_words(unsigned count, unsigned** device);

#ifdef __cplusplus
}
#endif

#endif /* CUPOLA_TESTS_TASK_C_API_H_ */
