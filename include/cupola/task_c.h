/** @file
 * Tasks for C11, and for C++17 or later without nvcc; no CUDA header is needed. A task is a small
 * kernel that runs on the GPU without a launch (Pagoda, PPoPP 2017). This is a thin layer over
 * cupola/task.h, which says what a task is. Programs include cupola/cupola.h.
 *
 * CUDA C++ makes the handle for its set of `__device__` functions, the bodies, and gives each a
 * name (cupola::task::ForC):
 *
 *     extern "C" cupola_tasks* open_tasks(void) {
 *       return cupola::task::ForC(cupola::task::Named<Scale>{"Scale"});
 *     }
 *
 * C finds bodies by name and puts tasks in:
 *
 *     cupola_tasks* tasks = open_tasks();
 *     uint32_t scale;
 *     cupola_task_id id;
 *     void* arguments[] = {&values, &count, &factor};
 *     const cupola_task_shape shape = {.threads = 128, .blocks = 1};
 *     if (cupola_tasks_find(tasks, "Scale", &scale) != CUPOLA_TASKS_OK ||
 *         cupola_tasks_spawn(tasks, scale, &shape, arguments, 3, &id) != CUPOLA_TASKS_OK) ...
 *     cupola_tasks_wait(tasks, id);
 *     cupola_tasks_destroy(tasks);
 *
 * Bodies have 32 registers a thread. Bodies that need more belong into a
 * cupola::task::TaskSystemOf.
 *
 * Any number of threads may use a handle at once, except for its destruction. Functions return an
 * error and print nothing. Handles and pointers must not be NULL unless the comment allows it.
 * Square brackets give the paper's names (Table 1); getTid, syncBlock and getSMPtr are for bodies,
 * in cupola/task.h. Which sizes and values are fixed: docs/task-api.md, "Versions and ABI".
 */
#ifndef CUPOLA_TASK_C_H_
#define CUPOLA_TASK_C_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What went wrong. The same values as cupola::task::Error; those that are there stay, and later
 * versions may add more. cupola_tasks_error_text puts an error into words, with the limit that it
 * is about and what to do. */
typedef enum cupola_tasks_error {
  CUPOLA_TASKS_OK = 0,               /**< nothing */
  CUPOLA_TASKS_TOO_MANY_THREADS = 1, /**< more threads of a block than the limit, or none */
  CUPOLA_TASKS_TOO_MANY_BLOCKS = 2,  /**< more blocks of a task than the limit, or none */
  CUPOLA_TASKS_TOO_MUCH_SHARED = 3,  /**< shared memory of a block above the limit */
  CUPOLA_TASKS_UNKNOWN_TASK = 4,     /**< an id that this handle has not given */
  CUPOLA_TASKS_TIMED_OUT = 5,        /**< the time limit passed; the task goes on */
  CUPOLA_TASKS_NO_MEMORY = 6,        /**< tables could not be allocated */
  CUPOLA_TASKS_DEVICE = 7,           /**< CUDA failed, now or before; all later calls fail too */
  CUPOLA_TASKS_UNKNOWN_BODY = 8,     /**< no body of that name or number */
  CUPOLA_TASKS_BAD_ARGUMENTS = 9, /**< another number of arguments than the body has parameters */
  CUPOLA_TASKS_FORKED = 10,       /**< this process is a fork of the one that used the handle */
  CUPOLA_TASKS_VERSION_MISMATCH =
      11 /**< linked with the library of another version than the headers' */
} cupola_tasks_error;

/** A handle: a MasterKernel and the tasks that were put in for it. */
typedef struct cupola_tasks cupola_tasks;

/** Names a task. cupola_tasks_spawn writes it. 16 bytes. */
typedef struct cupola_task_id {
  uint32_t column;   /**< column of the handle's table that holds the task */
  uint32_t table;    /**< number of the table of the handle that gave the id */
  uint64_t sequence; /**< 0: no task */
} cupola_task_id;

/** What a task needs. Members that an initialiser leaves out are 0, which is an error for the first
 * two. 32 bytes. */
typedef struct cupola_task_shape {
  uint32_t threads;      /**< number of threads of a block, 1 to 992 */
  uint32_t blocks;       /**< number of blocks of the task, 1 to 2^20 */
  uint32_t shared_bytes; /**< shared memory of a block, in bytes, at most 32,768 */
  bool uses_barrier;     /**< whether the body calls SyncBlock [syncBlock] */
  /** The task starts when the task `after` has ended, and sees what that one wrote. The device
   * keeps this order. Sequence 0: the task waits for no other. */
  cupola_task_id after;
} cupola_task_shape;

/** @cond the sizes that the ABI fixes */
#ifdef __cplusplus
static_assert(sizeof(cupola_task_id) == 16 && sizeof(cupola_task_shape) == 32, "the ABI of tasks");
#else
_Static_assert(sizeof(cupola_task_id) == 16 && sizeof(cupola_task_shape) == 32, "the ABI of tasks");
#endif
/** @endcond */

/** Finds the number of a body. Makes no CUDA call.
 * @param tasks      the handle
 * @param name       the body's name, as ForC was given it
 * @param[out] body  the body's number, from 0. Unchanged on an error
 * @return OK, UNKNOWN_BODY
 */
cupola_tasks_error cupola_tasks_find(const cupola_tasks* tasks, const char* name, uint32_t* body);

/** Puts a task in. Does not wait for the device unless the table is full. The first call allocates.
 * Where no MasterKernel runs, the call launches on a stream of the handle's own: so what other
 * streams do to memory that the task uses must be over before the call. [taskSpawn]
 * @param tasks           the handle
 * @param body            number of the body (cupola_tasks_find)
 * @param shape           what the task needs
 * @param arguments       a pointer to each argument, as for cudaLaunchKernel [CUDA Runtime API,
 *                        "Execution Control"]; the call copies the values, with the sizes of the
 *                        body's parameters. May be NULL where the body has none
 * @param argument_count  number of arguments; must be that of the body's parameters
 * @param[out] id         of the task. Unchanged on an error
 * @return OK. On an error nothing was put in: TOO_MANY_THREADS, TOO_MANY_BLOCKS, TOO_MUCH_SHARED,
 *         UNKNOWN_TASK (`after`), TIMED_OUT (the table stays full), NO_MEMORY, DEVICE,
 *         UNKNOWN_BODY, BAD_ARGUMENTS, FORKED, VERSION_MISMATCH
 */
cupola_tasks_error cupola_tasks_spawn(cupola_tasks* tasks, uint32_t body,
                                      const cupola_task_shape* shape, void* const* arguments,
                                      uint32_t argument_count, cupola_task_id* id);

/** Waits until the task has run. What the task wrote can be seen afterwards, also by CUDA calls
 * that follow. Synchronises with the task by spinning. [wait]
 * @param tasks  the handle
 * @param id     of a task of this handle
 * @return OK, UNKNOWN_TASK, TIMED_OUT, DEVICE, FORKED
 */
cupola_tasks_error cupola_tasks_wait(cupola_tasks* tasks, cupola_task_id id);

/** Says whether the task has run; does not wait. At most once a millisecond the call asks CUDA for
 * errors. It launches the MasterKernel where that has left. [check]
 * @param tasks         the handle
 * @param id            of a task of this handle
 * @param[out] is_done  whether it has run. Unchanged on an error
 * @return OK, UNKNOWN_TASK, DEVICE (only if the task has not run), FORKED
 */
cupola_tasks_error cupola_tasks_check(cupola_tasks* tasks, cupola_task_id id, bool* is_done);

/** Waits until all tasks have run that were put in before. Synchronises with them by spinning.
 * [waitAll]
 * @param tasks  the handle
 * @return OK, TIMED_OUT, DEVICE, FORKED
 */
cupola_tasks_error cupola_tasks_wait_all(cupola_tasks* tasks);

/** Asks the MasterKernel to leave when it has run all tasks that were put in before, and returns
 * when it has gone: synchronises with it. Without this call it leaves after some 125 us without
 * work.
 * @param tasks  the handle
 * @return OK, TIMED_OUT, DEVICE, FORKED
 */
cupola_tasks_error cupola_tasks_leave(cupola_tasks* tasks);

/** Asks the MasterKernel to leave as soon as the blocks that run have ended, and returns when it
 * has gone: synchronises with it. Tasks that have not begun are kept. They run when the program
 * puts a task in, waits for one, or, after this call has returned, checks one.
 * @param tasks  the handle
 * @return OK, TIMED_OUT, DEVICE, FORKED
 */
cupola_tasks_error cupola_tasks_leave_now(cupola_tasks* tasks);

/** Sets how long the calls above wait before they give up with TIMED_OUT.
 * @param tasks     the handle
 * @param limit_ns  in nanoseconds; 60 s by default
 */
void cupola_tasks_set_time_limit(cupola_tasks* tasks, uint64_t limit_ns);

/** Writes what an error means and what to do: the limit that it is about with its value, CUDA's
 * words for DEVICE, the last id that was not known for UNKNOWN_TASK, and the names of the bodies
 * for UNKNOWN_BODY and BAD_ARGUMENTS. Does not wait.
 * @param tasks      the handle, or NULL: then limits of the handle are left out
 * @param error      any value
 * @param[out] text  one line without its end; never more than `size` bytes, the last of which is 0.
 *                   May be NULL where `size` is 0
 * @param size       in bytes
 * @return the length of the whole text without the 0, as snprintf does
 */
size_t cupola_tasks_error_text(const cupola_tasks* tasks, cupola_tasks_error error, char* text,
                               size_t size);

/** The name of an error, for logs. Pure.
 * @param error  any value
 * @return CUPOLA_TASKS_TIMED_OUT and so on, as a string that is never freed; "?" for a value that
 *         is no error
 */
const char* cupola_tasks_error_name(cupola_tasks_error error);

/** Waits for all tasks, and frees the handle and everything that it holds. No other thread may use
 * the handle meanwhile.
 * @param tasks  the handle; NULL: does nothing
 */
void cupola_tasks_destroy(cupola_tasks* tasks);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CUPOLA_TASK_C_H_ */
