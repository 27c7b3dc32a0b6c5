// libFuzzer: any text is parsed or refused with a place; what parses is validated, written, and
// parsed to the same module again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "device/compiler/ptx/dump.h"
#include "device/compiler/ptx/parse.h"
#include "device/compiler/ptx/validate.h"
#include "device/compiler/ptx/write.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cupola;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<ptx::Module> module = ptx::Parse(text, "fuzz.ptx");
  if (!module) {
    if (module.error().where.line == 0 || module.error().message.empty()) std::abort();
    return 0;
  }
  ptx::Validate(*module);
  ptx::Dump(*module);
  const Result<ptx::Module> again = ptx::Parse(ptx::Write(*module), "fuzz.ptx");
  if (!again || !(*again == *module)) std::abort();
  return 0;
}
