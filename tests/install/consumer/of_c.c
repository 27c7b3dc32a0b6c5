/* Puts a task in from C: cupola/cupola.h is the only header of Cupola that a source includes. */
#include <cupola/cupola.h>

int double_from_c(cupola_tasks* tasks, int* values, int count) {
  uint32_t body;
  cupola_task_id id;
  void* arguments[] = {&values, &count};
  const cupola_task_shape shape = {.threads = 64, .blocks = 1};
  if (cupola_tasks_find(tasks, "Double", &body) != CUPOLA_TASKS_OK) return 1;
  if (cupola_tasks_spawn(tasks, body, &shape, arguments, 2, &id) != CUPOLA_TASKS_OK) return 2;
  return cupola_tasks_wait(tasks, id) == CUPOLA_TASKS_OK ? 0 : 3;
}
