/** @file
 * The version of these headers, and that of the library that a program is linked with. For C11,
 * C++17 and later, and CUDA C++; no header of CUDA. docs/task-api.md, "Versions and ABI", says what
 * a version promises.
 */
#ifndef CUPOLA_VERSION_H_
#define CUPOLA_VERSION_H_

#include <stdint.h>

/** Raised when programs have to be changed. */
#define CUPOLA_VERSION_MAJOR 0
/** Raised when functions come; while the major version is 0 also when programs have to be changed.
 */
#define CUPOLA_VERSION_MINOR 1
/** Raised when nothing has to be compiled again. */
#define CUPOLA_VERSION_PATCH 0

/** A version as one number that can be compared: 10000 * major + 100 * minor + patch. */
#define CUPOLA_VERSION_NUMBER(major, minor, patch) (10000u * (major) + 100u * (minor) + (patch))
/** The version of these headers as such a number: `#if CUPOLA_VERSION >= CUPOLA_VERSION_NUMBER(0,
 * 1, 0)`. */
#define CUPOLA_VERSION \
  CUPOLA_VERSION_NUMBER(CUPOLA_VERSION_MAJOR, CUPOLA_VERSION_MINOR, CUPOLA_VERSION_PATCH)
/** The version of these headers as text. */
#define CUPOLA_VERSION_TEXT "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/** Says of which version the library is that the program is linked with: libcupola_tasks.a, or
 * device/runtime/task_table.cpp. It and these headers belong together where major and minor version
 * are equal; where they are not, the first task fails with CUPOLA_TASKS_VERSION_MISMATCH, whose
 * text names both. Any thread; makes no CUDA call.
 * @return the version as CUPOLA_VERSION_NUMBER makes it
 */
uint32_t cupola_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CUPOLA_VERSION_H_ */
