// The functions that the device provides and device code calls: vprintf, __assertfail, malloc, free
// [CUDA C++ Programming Guide: formatted output, assertion, dynamic global memory allocation].
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "device/sim/exec/lanes.h"
#include "device/sim/exec/printer.h"

namespace cupola::sim {
namespace {

constexpr uint32_t kMaxString = 1u << 16;

uint64_t Argument(Warp& warp, const CallSite& site, size_t index, uint32_t lane) {
  if (index >= site.args.size()) return 0;
  const ArgSlot& slot = site.args[index];
  uint64_t value = 0;
  const uint8_t* from =
      slot.in_memory
          ? warp.local_memory.data() + size_t{lane} * warp.local_stride + warp.group_local + slot.at
          : warp.Row<uint8_t>(slot.at) + size_t{lane} * slot.bytes;
  std::memcpy(&value, from, std::min(slot.bytes, 8u));
  return value;
}

void SetReturn(Warp& warp, const CallSite& site, uint32_t lane, uint64_t value) {
  if (site.returns.empty()) return;
  const ArgSlot& slot = site.returns[0];
  if (!slot.in_memory && warp.observer != nullptr) {
    warp.NoteWritten(warp.group_frame + slot.at, std::max(slot.bytes * kLanes, 4u));
  }
  uint8_t* to = slot.in_memory ? warp.local_memory.data() + size_t{lane} * warp.local_stride +
                                     warp.group_local + slot.at
                               : warp.Row<uint8_t>(slot.at) + size_t{lane} * slot.bytes;
  std::memcpy(to, &value, std::min(slot.bytes, 8u));
}

/// Reads a NUL-terminated string from memory. False after a fault.
bool ReadString(Warp& warp, uint64_t address, uint32_t lane, std::string* text) {
  for (uint32_t i = 0; i < kMaxString; ++i) {
    const uint8_t* p = warp.Generic(address + i, 1, lane);
    if (p == nullptr) return false;
    if (*p == 0) return true;
    text->push_back(static_cast<char>(*p));
  }
  return true;
}

/// Reads the arguments of printf from the packed buffer that the compiler's code has filled.
class VarArgs {
 public:
  VarArgs(Warp& warp, uint64_t address, uint32_t lane) : warp_(warp), at_(address), lane_(lane) {}
  uint64_t Next(uint32_t bytes) {
    at_ = (at_ + bytes - 1) / bytes * bytes;
    const uint8_t* p = warp_.Generic(at_, bytes, lane_);
    at_ += bytes;
    uint64_t value = 0;
    if (p == nullptr) return 0;
    std::memcpy(&value, p, bytes);
    ++count_;
    return value;
  }
  uint32_t count() const { return count_; }

 private:
  Warp& warp_;
  uint64_t at_;
  uint32_t lane_;
  uint32_t count_ = 0;
};

template <typename T>
std::string Printed(const std::string& spec, T value) {
  char buffer[512];
  const int length = std::snprintf(buffer, sizeof(buffer), spec.c_str(), value);
  if (length < 0) return "";
  if (static_cast<size_t>(length) < sizeof(buffer))
    return std::string(buffer, static_cast<size_t>(length));
  std::string large(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(large.data(), large.size(), spec.c_str(), value);
  large.resize(static_cast<size_t>(length));
  return large;
}

/// Formats one conversion that starts behind the '%' at `at`; moves `at` behind it.
std::string Conversion(Warp& warp, const std::string& format, size_t* at, VarArgs& args,
                       uint32_t lane) {
  std::string spec = "%";
  size_t i = *at;
  while (i < format.size() && std::strchr("-+ #0", format[i]) != nullptr) spec += format[i++];
  const auto number = [&] {
    if (i < format.size() && format[i] == '*') {
      spec += std::to_string(static_cast<int32_t>(args.Next(4)));
      ++i;
    }
    while (i < format.size() && format[i] >= '0' && format[i] <= '9') spec += format[i++];
  };
  number();
  if (i < format.size() && format[i] == '.') {
    spec += format[i++];
    number();
  }
  bool wide = false;
  std::string shortness;
  while (i < format.size() && std::strchr("hljztL", format[i]) != nullptr) {
    if (format[i] == 'h') shortness += 'h';
    wide |= format[i] != 'h' && format[i] != 'L';
    ++i;
  }
  const char kind = i < format.size() ? format[i++] : '\0';
  *at = i;
  switch (kind) {
    case '%':
      return "%";
    case 'd':
    case 'i': {
      const uint64_t value = args.Next(wide ? 8 : 4);
      if (wide) return Printed(spec + "ll" + kind, static_cast<long long>(value));
      return Printed(spec + shortness + kind, static_cast<int>(value));
    }
    case 'u':
    case 'x':
    case 'X':
    case 'o': {
      const uint64_t value = args.Next(wide ? 8 : 4);
      if (wide) return Printed(spec + "ll" + kind, static_cast<unsigned long long>(value));
      return Printed(spec + shortness + kind, static_cast<unsigned>(value));
    }
    case 'c':
      return Printed(spec + kind, static_cast<int>(args.Next(4)));
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return Printed(spec + kind, std::bit_cast<double>(args.Next(8)));
    case 'p':
      return Printed(spec + kind, reinterpret_cast<void*>(args.Next(8)));
    case 's': {
      const uint64_t address = args.Next(8);
      std::string text;
      if (address == 0) {
        text = "(null)";
      } else if (!ReadString(warp, address, lane, &text)) {
        return "";
      }
      return Printed(spec + kind, text.c_str());
    }
    default:
      return spec + kind;
  }
}

void VPrintf(Warp& warp, const CallSite& site, uint32_t active) {
  ForLanes(active, [&](uint32_t lane) {
    std::string format, text;
    const uint64_t address = Argument(warp, site, 0, lane);
    if (address == 0) {
      SetReturn(warp, site, lane, ~0ull);
      return;
    }
    if (!ReadString(warp, address, lane, &format)) return;
    VarArgs args(warp, Argument(warp, site, 1, lane), lane);
    for (size_t i = 0; i < format.size();) {
      if (format[i] != '%') {
        text += format[i++];
        continue;
      }
      ++i;
      text += Conversion(warp, format, &i, args, lane);
      if (warp.block->fault) return;
    }
    warp.block->machine->printer->Append(text);
    SetReturn(warp, site, lane, args.count());
  });
}

void AssertFail(Warp& warp, const CallSite& site, uint32_t active) {
  const Block& block = *warp.block;
  const Dim3 shape = block.grid->block;
  ForLanes(active, [&](uint32_t lane) {
    std::string message, file, function;
    if (!ReadString(warp, Argument(warp, site, 0, lane), lane, &message) ||
        !ReadString(warp, Argument(warp, site, 1, lane), lane, &file) ||
        !ReadString(warp, Argument(warp, site, 3, lane), lane, &function)) {
      return;
    }
    const uint32_t thread = warp.index * kLanes + lane;
    const std::string line =
        fmt::format("{}:{}: {}: block: [{},{},{}], thread: [{},{},{}] Assertion `{}` failed.\n",
                    file, static_cast<uint32_t>(Argument(warp, site, 2, lane)), function,
                    block.index.x, block.index.y, block.index.z, thread % shape.x,
                    thread / shape.x % shape.y, thread / shape.x / shape.y, message);
    std::fwrite(line.data(), 1, line.size(), stderr);
  });
  warp.Raise(FaultKind::kAssert, static_cast<uint32_t>(std::countr_zero(active)),
             "assertion failed");
}

void Malloc(Warp& warp, const CallSite& site, uint32_t active) {
  ForLanes(active, [&](uint32_t lane) {
    SetReturn(warp, site, lane,
              warp.block->machine->memory->Allocate(Argument(warp, site, 0, lane)));
  });
}

void FreeMemory(Warp& warp, const CallSite& site, uint32_t active) {
  ForLanes(active, [&](uint32_t lane) {
    const uint64_t address = Argument(warp, site, 0, lane);
    if (address != 0 && !warp.block->machine->memory->Free(address)) {
      warp.Raise(FaultKind::kIllegalAddress, lane,
                 fmt::format("free of {:#x}, which is no allocation", address));
    }
  });
}

}  // namespace

Builtin FindBuiltin(std::string_view name) {
  if (name == "vprintf") return VPrintf;
  if (name == "__assertfail") return AssertFail;
  if (name == "malloc") return Malloc;
  if (name == "free") return FreeMemory;
  return nullptr;
}

void PrintBuffer::Append(const std::string& text) {
  std::lock_guard lock(mutex_);
  if (text_.size() + text.size() <= kBytes) text_ += text;
}

void PrintBuffer::Flush() {
  std::lock_guard lock(mutex_);
  if (text_.empty()) return;
  std::fwrite(text_.data(), 1, text_.size(), stdout);
  std::fflush(stdout);
  text_.clear();
}

}  // namespace cupola::sim
