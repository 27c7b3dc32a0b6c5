// Paths that CMake knows and a test needs. Each is a variable of a small source that CMake writes for the test's
// program (cupola_test_paths in tests/CMakeLists.txt), not a macro. So all else of the program is compiled alike in
// every clone, and the compiler's cache has it. A program has those of the paths that it asks CMake for.
#pragma once

extern const char CUPOLA_BINARY_DIR[];
extern const char CUPOLA_SOURCE_DIR[];

// tests/unit
extern const char CUPOLA_FLEP_PTX_FOLDER[];
extern const char CUPOLA_GOLDEN_KERNELS[];
extern const char CUPOLA_LEAVING_SHAPES[];
extern const char CUPOLA_PTXAS_PATH[];
extern const char CUPOLA_STEPPED_PTX_FOLDER[];

// tests/preload
extern const char CUPOLA_CUPTI_OBJECT[];
extern const char CUPOLA_FAKE_CUPTI[];
extern const char CUPOLA_LIBRARY_FOLDER[];
extern const char CUPOLA_LINKED_PROBE[];
extern const char CUPOLA_NULL_BOARD[];
extern const char CUPOLA_NULL_DRIVER[];
extern const char CUPOLA_NULL_DRIVER_FOLDER[];
extern const char CUPOLA_NULL_DRIVER_LINK[];
extern const char CUPOLA_NULL_DRIVER_NEWER[];
extern const char CUPOLA_NULL_DRIVER_OLDER[];
extern const char CUPOLA_OLDER_NULL_DRIVER[];
extern const char CUPOLA_OLDER_NULL_FOLDER[];
extern const char CUPOLA_OLDER_PROBE[];
extern const char CUPOLA_PRELOAD[];
extern const char CUPOLA_PROBE[];
extern const char CUPOLA_QUIET_PROBE[];
extern const char CUPOLA_RUNTIME_CALLER_12[];
extern const char CUPOLA_RUNTIME_CALLER_13[];
extern const char CUPOLA_SIM_DRIVER[];
extern const char CUPOLA_STEP_PROBE[];

// tests/preempt
extern const char CUPOLA_CONTEXTS_APP[];
extern const char CUPOLA_DEMAND_APP[];
extern const char CUPOLA_LEVELS_APP[];
extern const char CUPOLA_ORDER_APP[];
extern const char CUPOLA_PLANTED_FOLDER[];
extern const char CUPOLA_PREEMPT_APP[];
extern const char CUPOLA_PRIORITY_APP[];
extern const char CUPOLA_SIM_FOLDER[];
extern const char CUPOLA_SIZED_APP[];
extern const char CUPOLA_SLICED_APP[];
extern const char CUPOLA_STRICT_DRIVER[];
extern const char CUPOLA_TEST_BUNDLE[];
extern const char CUPOLA_TOOL_APP[];
extern const char CUPOLA_WAITING_APP[];
