/** @file
 * All of Cupola's API, in the form that suits the language. This is the header to include:
 *
 * - in CUDA C++ that nvcc compiles as C++20: cupola::task::TaskSystem (cupola/task.h), and
 *   cupola::task::ForC, which makes a handle for C of it (cupola/task_for_c.h);
 * - in C11 and in C++17 or later without nvcc: the functions `cupola_tasks_...` of such a handle
 *   (cupola/task_c.h); no header of CUDA is needed;
 * - everywhere: the version (cupola/version.h).
 */
#ifndef CUPOLA_CUPOLA_H_
#define CUPOLA_CUPOLA_H_

#include "cupola/task_c.h"
#include "cupola/version.h"

#ifdef __CUDACC__
#include "cupola/task.h"
#include "cupola/task_for_c.h"
#endif

#endif /* CUPOLA_CUPOLA_H_ */
