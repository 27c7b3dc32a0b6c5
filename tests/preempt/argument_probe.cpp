// argument_probe TABLE.txt HOOKS.def: makes every forwarded driver call at the very top of a stack of 8 KiB with
// a guard page at either end, under the library in a process that takes part in preemption, over a driver
// that checks what it is passed (argument_exports.py writes both). Nothing but the arguments is above the
// return address: who reads a word more ends by SIGSEGV.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include <dlfcn.h>
#include <sys/mman.h>

// int call_at_top(void* call, char* top, uint64_t words): `words` words of the stack below `top`, and all
// registers for arguments, are 0x1007 ... and 0x1001 to 0x1006.
__asm__(R"(
    .text
    .type call_at_top,@function
call_at_top:
    pushq %rbp
    movq %rsp, %rbp
    movq %rdi, %r11
    leaq 1(%rdx), %rax
    andq $-2, %rax
    shlq $3, %rax
    movq %rsi, %rsp
    subq %rax, %rsp
    leaq 0x1006(%rdx), %rcx
1:  testq %rdx, %rdx
    je 2f
    decq %rdx
    movq %rcx, (%rsp,%rdx,8)
    decq %rcx
    jmp 1b
2:  movq $0x1001, %rdi
    movq $0x1002, %rsi
    movq $0x1003, %rdx
    movq $0x1004, %rcx
    movq $0x1005, %r8
    movq $0x1006, %r9
    call *%r11
    movq %rbp, %rsp
    popq %rbp
    ret
    .size call_at_top,.-call_at_top
)");
extern "C" int call_at_top(void* call, char* top, uint64_t words);

namespace {

std::string NameIn(const std::string& line) {
  const size_t open = line.find('('), comma = line.find(',');
  return open < comma ? line.substr(open + 1, comma - open - 1) : "";
}

// Hooks look into what their arguments point to; they are tested with real ones.
std::set<std::string> HookedCalls(const char* path) {
  std::set<std::string> names;
  std::ifstream hooks(path);
  for (std::string line; std::getline(hooks, line);) {
    if (line.rfind("CUPOLA_", 0) == 0) names.insert(NameIn(line));
  }
  return names;
}

char* TopOfSmallStack() {
  constexpr size_t kBytes = 8192, kPage = 4096;
  void* const memory = mmap(nullptr, kBytes + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* const low = static_cast<char*>(memory) + kPage;
  return mprotect(low, kBytes, PROT_READ | PROT_WRITE) == 0 ? low + kBytes : nullptr;
}

}  // namespace

int main(int, char** argv) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  char* const top = TopOfSmallStack();
  if (driver == nullptr || top == nullptr) return 2;
  std::ifstream table(argv[1]);
  const std::set<std::string> hooked = HookedCalls(argv[2]);
  int index = 0, called = 0, wrong = 0;
  std::string name;
  for (uint64_t words = 0; table >> name >> words;) {
    const int expected = 1000000 + index++;
    if (hooked.contains(name) || name.rfind("cuStreamBatchMemOp", 0) == 0) continue;  // looked into
    void* const call = dlsym(driver, name.c_str());
    if (call == nullptr) return 3;
    const int result = call_at_top(call, top, words);
    ++called;
    if (result == expected) continue;
    std::printf("%s: %d instead of %d\n", name.c_str(), result, expected);
    ++wrong;
  }
  std::printf("%d calls, %d wrong\n", called, wrong);
  return wrong == 0 && called > 500 ? 0 : 1;
}
