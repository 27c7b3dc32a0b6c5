/* Tasks for C (C11; no header of CUDA is needed): small kernels that run on the GPU without a
 * launch for each (Pagoda, PPoPP 2017). A thin layer over cupola/task.h, which says what a task is.
 *
 * CUDA C++ makes the handle for its set of `__device__` functions, the bodies, and gives each a
 * name (cupola/task_for_c.h):
 *
 *   extern "C" cupola_tasks* open_tasks(void) {
 *     return cupola::task::ForC(cupola::task::Named<Scale>{"Scale"});
 *   }
 *
 * C finds bodies by name and puts tasks in:
 *
 *   cupola_tasks* tasks = open_tasks();
 *   uint32_t scale;
 *   cupola_task_id id;
 *   void* arguments[] = {&values, &count, &factor};
 *   const cupola_task_shape shape = {.threads = 128, .blocks = 1};
 *   if (cupola_tasks_find(tasks, "Scale", &scale) != CUPOLA_TASKS_OK ||
 *       cupola_tasks_spawn(tasks, scale, &shape, arguments, 3, &id) != CUPOLA_TASKS_OK) ...
 *   cupola_tasks_wait(tasks, id);
 *   cupola_tasks_destroy(tasks);
 *
 * Bodies have 32 registers a thread; those that need more belong into a cupola::task::TaskSystemOf.
 *
 * Any number of threads may use a handle at once, but for its destruction. Functions return an
 * error, and print nothing. Handles and pointers are not NULL unless it is said. In square brackets
 * what the paper calls it (Table 1); getTid, syncBlock and getSMPtr are for bodies, in
 * cupola/task.h.
 */
#ifndef CUPOLA_TASK_C_H_
#define CUPOLA_TASK_C_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* cupola::task::Error, by value. cupola_tasks_error_text says it in words, with limits. */
typedef enum cupola_tasks_error {
  CUPOLA_TASKS_OK = 0,
  CUPOLA_TASKS_TOO_MANY_THREADS = 1, /* of a block; or none */
  CUPOLA_TASKS_TOO_MANY_BLOCKS = 2,  /* of a task; or none */
  CUPOLA_TASKS_TOO_MUCH_SHARED = 3,  /* shared memory of a block */
  CUPOLA_TASKS_UNKNOWN_TASK = 4,     /* an id that this handle has not given */
  CUPOLA_TASKS_TIMED_OUT = 5,        /* not within the time limit; the task goes on */
  CUPOLA_TASKS_NO_MEMORY = 6,
  CUPOLA_TASKS_DEVICE = 7, /* CUDA failed, now or before; so will all that follows */
  CUPOLA_TASKS_UNKNOWN_BODY = 8,
  CUPOLA_TASKS_BAD_ARGUMENTS = 9, /* not as many as the body has parameters */
  CUPOLA_TASKS_FORKED = 10        /* this process is a fork of the one that has used the handle */
} cupola_tasks_error;

/* A MasterKernel, and what was put in for it. */
typedef struct cupola_tasks cupola_tasks;

/* A task. */
typedef struct cupola_task_id {
  uint32_t column;
  uint32_t table;    /* of the handle that gave it */
  uint64_t sequence; /* 0: no task */
} cupola_task_id;

/* What a task needs. Members that an initialiser leaves out are 0, which is an error for the first
 * two. */
typedef struct cupola_task_shape {
  uint32_t threads;      /* of a block */
  uint32_t blocks;       /* of the task */
  uint32_t shared_bytes; /* of a block */
  bool uses_barrier;     /* the body waits for all threads of its block [syncBlock] */
  /* The task starts when this one has ended, and sees what it wrote. The device sees to that. */
  cupola_task_id after;
} cupola_task_shape;

/* The number of the body of that name. Makes no call of CUDA.
 * Errors: UNKNOWN_BODY. */
cupola_tasks_error cupola_tasks_find(const cupola_tasks* tasks, const char* name, uint32_t* body);

/* Puts a task in. `arguments` holds a pointer to each argument, as for cudaLaunchKernel; the values
 * are copied, their sizes are those of the body's parameters. NULL where it has none.
 * `argument_count` must be the number of parameters. Does not wait for the device unless the table
 * is full; the first one allocates, and where no MasterKernel runs it is launched, on a stream of
 * its own: what a stream does to memory that the task uses must be over. [taskSpawn]
 * Errors: TOO_MANY_THREADS, TOO_MANY_BLOCKS, TOO_MUCH_SHARED, UNKNOWN_TASK (`after`), TIMED_OUT (the
 * table stays full), NO_MEMORY, DEVICE, UNKNOWN_BODY, BAD_ARGUMENTS, FORKED; nothing was put in. */
cupola_tasks_error cupola_tasks_spawn(cupola_tasks* tasks, uint32_t body,
                                      const cupola_task_shape* shape, void* const* arguments,
                                      uint32_t argument_count, cupola_task_id* id);

/* Until the task has run; what it wrote can be seen, also by CUDA calls that follow. Synchronises
 * with the task, spinning. [wait]
 * Errors: UNKNOWN_TASK, TIMED_OUT, DEVICE, FORKED. */
cupola_tasks_error cupola_tasks_wait(cupola_tasks* tasks, cupola_task_id id);

/* Whether the task has run; does not wait. Asks CUDA now and then, and launches the MasterKernel
 * where that has left. [check]
 * Errors: UNKNOWN_TASK, DEVICE (then it has not run), FORKED. */
cupola_tasks_error cupola_tasks_check(cupola_tasks* tasks, cupola_task_id id, bool* is_done);

/* Until all tasks that were put in before have run. Synchronises with them, spinning. [waitAll]
 * Errors: TIMED_OUT, DEVICE, FORKED. */
cupola_tasks_error cupola_tasks_wait_all(cupola_tasks* tasks);

/* Has the MasterKernel leave when it has run what was put in before, and returns when it is gone:
 * synchronises with it. It leaves by itself after some 125 us without work.
 * Errors: TIMED_OUT, DEVICE, FORKED. */
cupola_tasks_error cupola_tasks_leave(cupola_tasks* tasks);

/* Has it leave as soon as the blocks that run have ended, and returns when it is gone: synchronises.
 * What has not begun is run when a task is put in, waited for or, behind that, asked for.
 * Errors: TIMED_OUT, DEVICE, FORKED. */
cupola_tasks_error cupola_tasks_leave_now(cupola_tasks* tasks);

/* How long the calls above wait, in nanoseconds, before they give up with TIMED_OUT; 60 s by
 * default. */
void cupola_tasks_set_time_limit(cupola_tasks* tasks, uint64_t limit_ns);

/* Writes what an error means, with the limit that it is about and its value, CUDA's words for
 * DEVICE, the last id that was not known for UNKNOWN_TASK, and what bodies there are for
 * UNKNOWN_BODY and BAD_ARGUMENTS. Never writes more than `size` bytes, of which the last is 0;
 * returns how many the whole text has without that, as snprintf does. `tasks` may be NULL: then
 * limits of the handle are left out. */
size_t cupola_tasks_error_text(const cupola_tasks* tasks, cupola_tasks_error error, char* text,
                               size_t size);

/* Waits for all tasks, and gives everything back. NULL: does nothing. */
void cupola_tasks_destroy(cupola_tasks* tasks);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* CUPOLA_TASK_C_H_ */
