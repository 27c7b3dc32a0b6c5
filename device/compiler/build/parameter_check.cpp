#include "device/compiler/build/parameter_check.h"

#include <fmt/format.h>

namespace cupola::build {

std::string CompareOriginal(const fatbin::CubinKernel* original,
                            const std::vector<passes::ParameterFact>& facts) {
  if (original == nullptr || original->params.size() != facts.size()) {
    return "the program's code does not say where its parameters lie";
  }
  for (size_t i = 0; i < facts.size(); ++i) {
    const fatbin::CubinParam& found = original->params[i];
    if (found.ordinal == i && found.offset == facts[i].offset && found.size == facts[i].bytes) {
      continue;
    }
    return fmt::format("parameter {} lies at {} with {} bytes in the program's code, not at {} with {}",
                       i, found.offset, found.size, facts[i].offset, facts[i].bytes);
  }
  return "";
}

std::string CompareVariant(const fatbin::CubinKernel& original, const fatbin::CubinKernel& variant,
                           uint32_t launch_bytes) {
  const size_t count = original.params.size();
  if (variant.params.size() != count + 1) {
    return "the variant's code does not say where its parameters lie";
  }
  for (size_t i = 0; i < count; ++i) {
    const fatbin::CubinParam& own = original.params[i];
    const fatbin::CubinParam& found = variant.params[i];
    if (found.ordinal == own.ordinal && found.offset == own.offset && found.size == own.size) {
      continue;
    }
    return fmt::format("parameter {} lies at {} in the variant, at {} in the program's code", i,
                       found.offset, own.offset);
  }
  const fatbin::CubinParam& last = variant.params.back();
  const uint32_t end = count == 0 ? 0 : original.params[count - 1].offset + original.params[count - 1].size;
  if (last.ordinal != count || last.size != launch_bytes || last.offset < end) {
    return "the variant's own parameter is not behind the program's";
  }
  return "";
}

}  // namespace cupola::build
