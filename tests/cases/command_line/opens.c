// Opens a library that has the runtime linked in, and uses it.   opens LIBRARY
#include <dlfcn.h>
int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
  int (*use)(void) = library ? (int (*)(void))dlsym(library, "Use") : 0;
  return use ? use() : 77;
}
