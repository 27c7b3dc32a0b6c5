// An LD_AUDIT library as profilers have them: in C++, with thread-local state of its own.
#include <string>
static thread_local char state[400];
static thread_local std::string last;
extern "C" unsigned la_version(unsigned version) {
  state[version % sizeof(state)] = 1;
  last.assign(40, 'x');
  return version;
}
