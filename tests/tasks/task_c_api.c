/* The task API as C sees it: results, and every bad use with its code and the limit that its text
 * names. C11; no header of CUDA. Prints what failed, then how much. */
#include "task_c_api.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int failures = 0;

static void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "task_c_api: %s\n", what);
}

static void good(const cupola_tasks* tasks, cupola_tasks_error error, const char* what) {
  char text[256];
  if (error == CUPOLA_TASKS_OK) return;
  cupola_tasks_error_text(tasks, error, text, sizeof text);
  fprintf(stderr, "task_c_api: %s: error %d, %s\n", what, (int)error, text);
  ++failures;
}

/* The error is the expected one, and its text says this. */
static void bad(const cupola_tasks* tasks, cupola_tasks_error error, cupola_tasks_error expected,
                const char* words) {
  char text[256];
  const size_t length = cupola_tasks_error_text(tasks, error, text, sizeof text);
  if (error == expected && length == strlen(text) && strstr(text, words) != NULL) return;
  fprintf(stderr, "task_c_api: error %d, \"%s\"; not %d, \"%s\"\n", (int)error, text, (int)expected,
          words);
  ++failures;
}

static uint32_t find(const cupola_tasks* tasks, const char* name) {
  uint32_t body = 0;
  good(tasks, cupola_tasks_find(tasks, name, &body), name);
  return body;
}

/* Scaled twice, the second time behind the first; then summed; and waited for in every way. */
static void check_results(cupola_tasks* tasks, unsigned* words, unsigned* device) {
  enum { kBlocks = 3, kThreads = 100, kWords = kBlocks * kThreads };
  const uint32_t scale = find(tasks, "Scale"), sum = find(tasks, "Sum"),
                 nothing = find(tasks, "Nothing");
  unsigned count = kWords, factor = 5;
  unsigned* sums = device + kWords;
  double share = 0.5;
  char tag = 'c';
  bool is_done = false;
  cupola_task_id first = {0, 0, 0}, id = {0, 0, 0};
  cupola_task_shape shape = {.threads = kThreads, .blocks = kBlocks};
  void* const of_scale[] = {&device, &count, &factor};
  void* const of_sum[] = {&device, &sums, &share, &tag};
  for (unsigned i = 0; i < kWords; ++i) words[i] = 2 * i;
  good(tasks, cupola_tasks_spawn(tasks, scale, &shape, of_scale, 3, &first), "spawn");
  shape.after = first;
  factor = 7;
  count = kWords - 50;
  good(tasks, cupola_tasks_spawn(tasks, scale, &shape, of_scale, 3, &id), "spawn behind it");
  good(tasks, cupola_tasks_wait(tasks, id), "wait");
  good(tasks, cupola_tasks_check(tasks, first, &is_done), "check");
  expect(is_done, "the first had to run before the second");
  for (unsigned i = 0; i < kWords; ++i) {
    expect(words[i] == 2 * i * 5 * (i < kWords - 50 ? 7 : 1), "a word scaled twice");
  }
  shape.after = (cupola_task_id){0, 0, 0};
  shape.shared_bytes = kThreads * sizeof(unsigned);
  shape.uses_barrier = true;
  good(tasks, cupola_tasks_spawn(tasks, sum, &shape, of_sum, 4, &id), "spawn with a barrier");
  for (is_done = false; !is_done && failures == 0;) {
    good(tasks, cupola_tasks_check(tasks, id, &is_done), "check");
  }
  for (unsigned block = 0; block < kBlocks; ++block) {
    unsigned expected = 0;
    for (unsigned i = 0; i < kThreads; ++i) expected += words[block * kThreads + i];
    expect(words[kWords + block] == expected / 2 + 'c', "a sum");
  }
  shape = (cupola_task_shape){.threads = 1, .blocks = 1};
  good(tasks, cupola_tasks_spawn(tasks, nothing, &shape, NULL, 0, &id), "spawn without arguments");
  good(tasks, cupola_tasks_wait_all(tasks), "wait for all");
  good(tasks, cupola_tasks_check(tasks, id, &is_done), "check");
  expect(is_done, "all were waited for");
  good(tasks, cupola_tasks_spawn(tasks, nothing, &shape, NULL, 0, &id), "spawn");
  good(tasks, cupola_tasks_leave(tasks), "leave");
  good(tasks, cupola_tasks_check(tasks, id, &is_done), "check");
  expect(is_done, "the MasterKernel left before it had run what there was");
}

static void check_bad_shapes(cupola_tasks* tasks) {
  static const struct {
    cupola_task_shape shape;
    cupola_tasks_error error;
    const char* words;
  } rows[] = {
      {{.threads = 0, .blocks = 1}, CUPOLA_TASKS_TOO_MANY_THREADS, "1 to 992 threads"},
      {{.threads = 993, .blocks = 1}, CUPOLA_TASKS_TOO_MANY_THREADS, "1 to 992 threads"},
      {{.threads = 32, .blocks = 0}, CUPOLA_TASKS_TOO_MANY_BLOCKS, "1 to 1048576 blocks"},
      {{.threads = 32, .blocks = 1048577}, CUPOLA_TASKS_TOO_MANY_BLOCKS, "1 to 1048576 blocks"},
      {{.threads = 32, .blocks = 1, .shared_bytes = 32769},
       CUPOLA_TASKS_TOO_MUCH_SHARED,
       "at most 32768 bytes"},
      {{.threads = 32, .blocks = 1, .after = {.sequence = 1}}, CUPOLA_TASKS_UNKNOWN_TASK, "table 0"},
  };
  const cupola_task_shape most = {.threads = 992, .blocks = 1, .shared_bytes = 32768};
  const uint32_t nothing = find(tasks, "Nothing");
  cupola_task_id id = {7, 7, 7};
  for (size_t i = 0; i < COUNT(rows); ++i) {
    bad(tasks, cupola_tasks_spawn(tasks, nothing, &rows[i].shape, NULL, 0, &id), rows[i].error,
        rows[i].words);
  }
  expect(id.column == 7 && id.table == 7 && id.sequence == 7, "what was not put in has no id");
  good(tasks, cupola_tasks_spawn(tasks, nothing, &most, NULL, 0, &id), "spawn the widest");
  good(tasks, cupola_tasks_wait(tasks, id), "wait for the widest");
}

static void check_bad_use(cupola_tasks* tasks, unsigned* words, unsigned* device) {
  const cupola_task_shape shape = {.threads = 32, .blocks = 1};
  cupola_task_id never = {.column = 0, .sequence = 0x70000000}, none = {0};
  cupola_task_id nowhere = {.column = 0xffff, .sequence = 1};
  const uint32_t scale = find(tasks, "Scale"), endless = find(tasks, "Endless");
  unsigned count = 0, factor = 1;
  void* const arguments[] = {&device, &count, &factor};
  char text[8];
  uint32_t body = 0;
  bool is_done = false;
  cupola_task_id id = none;
  bad(tasks, cupola_tasks_find(tasks, "Scales", &body), CUPOLA_TASKS_UNKNOWN_BODY,
      "Scale, Sum, Nothing, Endless");
  bad(tasks, cupola_tasks_spawn(tasks, 4, &shape, NULL, 0, &id), CUPOLA_TASKS_UNKNOWN_BODY, "Sum");
  bad(tasks, cupola_tasks_spawn(tasks, scale, &shape, arguments, 2, &id),
      CUPOLA_TASKS_BAD_ARGUMENTS, "Scale has 3, Sum has 4, Nothing has 0, Endless has 1");
  good(tasks, cupola_tasks_spawn(tasks, find(tasks, "Nothing"), &shape, NULL, 0, &id), "spawn");
  never.table = nowhere.table = id.table;
  bad(tasks, cupola_tasks_wait(tasks, never), CUPOLA_TASKS_UNKNOWN_TASK,
      "number 1879048192 of column 0, which has had ");
  bad(tasks, cupola_tasks_wait(tasks, nowhere), CUPOLA_TASKS_UNKNOWN_TASK, "column 65535 of ");
  bad(tasks, cupola_tasks_wait(tasks, none), CUPOLA_TASKS_UNKNOWN_TASK, "sequence 0");
  bad(tasks, cupola_tasks_check(tasks, never, &is_done), CUPOLA_TASKS_UNKNOWN_TASK, "number");
  ++id.table;
  bad(tasks, cupola_tasks_wait(tasks, id), CUPOLA_TASKS_UNKNOWN_TASK, "it is of table ");
  cupola_tasks_set_time_limit(tasks, 50 * 1000 * 1000);
  *(volatile unsigned*)words = 0;
  good(tasks, cupola_tasks_spawn(tasks, endless, &shape, &arguments[0], 1, &id), "spawn endless");
  bad(tasks, cupola_tasks_wait(tasks, id), CUPOLA_TASKS_TIMED_OUT, "50000 us");
  bad(tasks, cupola_tasks_wait_all(tasks), CUPOLA_TASKS_TIMED_OUT, "50000 us");
  bad(tasks, cupola_tasks_leave(tasks), CUPOLA_TASKS_TIMED_OUT, "50000 us");
  bad(tasks, cupola_tasks_leave_now(tasks), CUPOLA_TASKS_TIMED_OUT, "50000 us");
  *(volatile unsigned*)words = 1;
  cupola_tasks_set_time_limit(tasks, UINT64_MAX);
  good(tasks, cupola_tasks_wait(tasks, id), "wait for what was let");
  expect(cupola_tasks_error_text(NULL, CUPOLA_TASKS_TOO_MANY_BLOCKS, text, sizeof text) >
                 sizeof text &&
             strcmp(text, "a task ") == 0,
         "a text that is cut");
}

int main(void) {
  unsigned *device = NULL, *const words = make_words(512, &device);
  cupola_tasks *tasks = open_tasks(), *unused = open_tasks();
  const cupola_task_id never = {0, 1, 1};
  if (words == NULL || tasks == NULL || unused == NULL) {
    fprintf(stderr, "task_c_api: nothing to work with\n");
    return 1;
  }
  bad(unused, cupola_tasks_wait(unused, never), CUPOLA_TASKS_UNKNOWN_TASK, "id");
  good(unused, cupola_tasks_wait_all(unused), "wait for nothing");
  check_results(tasks, words, device);
  check_bad_shapes(tasks);
  check_bad_use(tasks, words, device);
  cupola_tasks_destroy(tasks);
  cupola_tasks_destroy(unused);
  cupola_tasks_destroy(NULL);
  printf("task_c_api: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
