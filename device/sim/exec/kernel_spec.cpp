#include "device/sim/exec/kernel_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "device/sim/exec/half.h"
#include "device/sim/exec/submit_and_wait.h"

namespace cupola::sim {
namespace {

Error Invalid(std::string message) {
  return MakeError(ErrorCode::kInvalidArgument, std::move(message));
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (true) {
    const size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end == std::string_view::npos ? end : end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::optional<uint64_t> ParseInteger(const std::string& text) {
  if (text.empty()) return std::nullopt;
  errno = 0;
  char* end = nullptr;
  const bool negative = text[0] == '-';
  const uint64_t value = negative ? static_cast<uint64_t>(std::strtoll(text.c_str(), &end, 0))
                                  : std::strtoull(text.c_str(), &end, 0);
  if (errno != 0 || *end != '\0') return std::nullopt;
  return value;
}

/// The bits of a value. A float may also be given as its bits, "0x3f800000".
std::optional<uint64_t> ParseValue(Type type, const std::string& text) {
  const bool hex = text.starts_with("0x");
  if (!IsFloat(type) || hex) return ParseInteger(text);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  switch (type) {
    case Type::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case Type::kF16:
      return RoundToHalf(value);
    case Type::kBF16:
      return RoundToBfloat(value);
    case Type::kF64:
      return std::bit_cast<uint64_t>(value);
    default:
      return std::nullopt;
  }
}

void AppendValue(std::vector<std::byte>* bytes, Type type, uint64_t bits) {
  const size_t at = bytes->size();
  bytes->resize(at + TypeBytes(type));
  std::memcpy(bytes->data() + at, &bits, std::min(TypeBytes(type), 8u));
}

}  // namespace

Result<Dim3> ParseDim3(std::string_view text) {
  const auto parts = Split(text, ',');
  uint32_t values[3] = {1, 1, 1};
  if (parts.size() > 3) return Invalid(fmt::format("\"{}\": expected X[,Y[,Z]]", text));
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto value = ParseInteger(parts[i]);
    if (!value || *value == 0 || *value > 0x7FFFFFFF)
      return Invalid(fmt::format("\"{}\": expected X[,Y[,Z]]", text));
    values[i] = static_cast<uint32_t>(*value);
  }
  return Dim3{values[0], values[1], values[2]};
}

Result<ArgSpec> ParseArg(std::string_view text) {
  ArgSpec arg;
  const auto parts = Split(text, ':');
  if (parts.size() == 2) {
    arg.type = ParseType(parts[0]);
    const auto value = ParseValue(arg.type, parts[1]);
    if (TypeBytes(arg.type) == 0 || !value)
      return Invalid(fmt::format("\"{}\": expected TYPE:VALUE, like u32:5", text));
    AppendValue(&arg.bytes, arg.type, *value);
    return arg;
  }
  if (parts.size() != 3 || parts[0] != "buf") {
    return Invalid(fmt::format("\"{}\": expected TYPE:VALUE or buf:TYPE:COUNT[=VALUES]", text));
  }
  arg.is_buffer = true;
  arg.type = ParseType(parts[1]);
  const size_t equals = parts[2].find('=');
  const auto count = ParseInteger(parts[2].substr(0, equals));
  if (TypeBytes(arg.type) == 0 || !count || *count == 0 || *count > (1u << 28)) {
    return Invalid(fmt::format("\"{}\": expected buf:TYPE:COUNT[=VALUES]", text));
  }
  const std::string fill = equals == std::string::npos ? "0" : parts[2].substr(equals + 1);
  std::vector<uint64_t> values;
  for (const std::string& word : Split(fill, ';')) {
    if (fill == "iota") break;
    const auto value = ParseValue(arg.type, word);
    if (!value) return Invalid(fmt::format("\"{}\": \"{}\" is no value of its type", text, word));
    values.push_back(*value);
  }
  for (uint64_t i = 0; i < *count; ++i) {
    const uint64_t bits =
        values.empty() ? *ParseValue(arg.type, std::to_string(i)) : values[i % values.size()];
    AppendValue(&arg.bytes, arg.type, bits);
  }
  return arg;
}

Result<DumpSpec> ParseDump(std::string_view text) {
  const auto parts = Split(text, ':');
  DumpSpec dump;
  if (parts.size() == 3) {
    const auto arg = ParseInteger(parts[0]), count = ParseInteger(parts[2]);
    dump.type = ParseType(parts[1]);
    if (arg && count && TypeBytes(dump.type) != 0) {
      dump.arg = static_cast<uint32_t>(*arg);
      dump.count = *count;
      return dump;
    }
  }
  return Invalid(fmt::format("\"{}\": expected ARG:TYPE:COUNT, like 0:u32:16", text));
}

std::string FormatValues(Type type, const std::byte* bytes, uint64_t count) {
  std::string text;
  const uint32_t size = TypeBytes(type);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes + i * size, std::min(size, 8u));
    if (i != 0) text += ' ';
    const uint32_t shift = 64 - std::min(size, 8u) * 8;
    if (type == Type::kF32) {
      text += fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(bits)));
    } else if (type == Type::kF64) {
      text += fmt::format("{}", std::bit_cast<double>(bits));
    } else if (IsSigned(type)) {
      text += fmt::format("{}", static_cast<int64_t>(bits << shift) >> shift);
    } else if (type == Type::kU8 || type == Type::kU16 || type == Type::kU32 ||
               type == Type::kU64) {
      text += fmt::format("{}", bits);
    } else {
      text += fmt::format("{:#0{}x}", bits, size * 2 + 2);
    }
  }
  return text;
}

Status RunKernel(Device& device, std::string_view ptx, std::string_view name, KernelSpec* spec) {
  auto module = device.LoadPtx(ptx, name);
  if (!module) return module.error();
  const auto& kernels = (*module)->kernels();
  uint32_t index = 0;
  while (index < kernels.size() && !spec->kernel.empty() && kernels[index].name != spec->kernel)
    ++index;
  if (index == kernels.size() || (spec->kernel.empty() && kernels.size() != 1)) {
    std::string known;
    for (const KernelInfo& kernel : kernels) known += (known.empty() ? "" : ", ") + kernel.name;
    return MakeError(ErrorCode::kNotFound,
                     fmt::format("no kernel \"{}\"; the module has: {}", spec->kernel, known));
  }
  const KernelInfo& kernel = kernels[index];
  if (kernel.params.size() != spec->args.size()) {
    return Invalid(fmt::format("kernel {} takes {} arguments, {} given", kernel.name,
                               kernel.params.size(), spec->args.size()));
  }
  GridLaunch launch;
  launch.module = *module;
  launch.kernel_index = index;
  launch.grid = spec->grid;
  launch.block = spec->block;
  launch.dynamic_shared_bytes = spec->dynamic_shared_bytes;
  launch.cooperative = spec->cooperative;
  launch.params.resize(kernel.param_bytes);
  const uint32_t threads = spec->block.x * spec->block.y * spec->block.z;
  if (device.MaxResidentBlocks(kernel, threads, spec->dynamic_shared_bytes) == 0) {
    return Invalid(
        fmt::format("a block of {} threads with {} bytes of shared memory does not fit on an SM",
                    threads, kernel.static_shared_bytes + spec->dynamic_shared_bytes));
  }
  std::vector<uint64_t> buffers;
  for (size_t i = 0; i < spec->args.size(); ++i) {
    const ArgSpec& arg = spec->args[i];
    const ParamInfo& param = kernel.params[i];
    uint64_t address = 0;
    const void* from = arg.bytes.data();
    size_t bytes = arg.bytes.size();
    if (arg.is_buffer) {
      address = device.Allocate(bytes);
      if (address == 0) return MakeError(ErrorCode::kExhausted, "not enough device memory");
      std::memcpy(reinterpret_cast<void*>(address), from, bytes);
      from = &address;
      bytes = 8;
    }
    buffers.push_back(address);
    if (bytes > param.size)
      return Invalid(
          fmt::format("argument {} has {} bytes, the parameter {}", i, bytes, param.size));
    std::memcpy(launch.params.data() + param.offset, from, bytes);
  }
  const std::optional<Fault> fault = SubmitAndWait(device, std::move(launch));
  device.FlushPrintf();
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i] == 0) continue;
    std::memcpy(spec->args[i].bytes.data(), reinterpret_cast<void*>(buffers[i]),
                spec->args[i].bytes.size());
    device.Free(buffers[i]);
  }
  if (!fault) return {};
  spec->fault = fault->kind;
  return MakeError(
      fault->kind == FaultKind::kUnsupported ? ErrorCode::kUnsupported : ErrorCode::kInternal,
      fault->message);
}

}  // namespace cupola::sim
