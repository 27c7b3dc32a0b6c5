#include "base/settings/variables.h"
#include "tests/unit/sim/oracle/instruction_runner.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "device/sim/exec/submit_and_wait.h"

namespace cupola::sim {
namespace {

uint32_t Bits(const std::string& type) {
  return type == "pred" ? 32 : static_cast<uint32_t>(std::atoi(type.c_str() + 1));
}

/// "$0" becomes "%s0", "%0" becomes "%d0".
std::string WithRegisters(const std::string& code) {
  std::string text;
  for (size_t i = 0; i < code.size(); ++i) {
    const bool digit = i + 1 < code.size() && code[i + 1] >= '0' && code[i + 1] <= '9';
    if (digit && code[i] == '$') {
      text += "%s";
    } else if (digit && code[i] == '%') {
      text += "%d";
    } else {
      text += code[i];
    }
  }
  return text;
}

std::string Kernel(const std::string& code, const std::vector<std::string>& sources,
                   const std::vector<std::string>& results) {
  std::string declare, load, store;
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string n = std::to_string(i), bits = std::to_string(Bits(sources[i]));
    declare += "  .reg ." + sources[i] + " %s" + n + ";\n";
    load += "  ld.global.b" + bits + " %s" + n + ", [%in+" + std::to_string(8 * i) + "];\n";
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string n = std::to_string(i), bits = std::to_string(Bits(results[i]));
    const std::string at = "[%out+" + std::to_string(8 * i) + "]";
    declare += "  .reg ." + results[i] + " %d" + n + ";\n";
    if (results[i] == "pred") {
      store += "  selp.b32 %word, 1, 0, %d" + n + ";\n  st.global.b32 " + at + ", %word;\n";
    } else {
      store += "  st.global.b" + bits + " " + at + ", %d" + n + ";\n";
    }
  }
  return ".version 8.6\n.target sm_90\n.address_size 64\n"
         ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 rows)\n{\n" +
         declare +
         "  .reg .b32 %word, %i, %n;\n  .reg .b64 %in, %out, %offset;\n  .reg .pred %done;\n"
         "  ld.param.u64 %in, [in];\n  ld.param.u64 %out, [out];\n  ld.param.u32 %n, [rows];\n"
         "  mov.u32 %i, %ctaid.x;\n  mov.u32 %word, %tid.x;\n"
         "  mad.lo.u32 %i, %i, 256, %word;\n"
         "  setp.ge.u32 %done, %i, %n;\n  @%done exit;\n  mul.wide.u32 %offset, %i, " +
         std::to_string(8 * sources.size()) + ";\n  add.s64 %in, %in, %offset;\n" +
         "  mul.wide.u32 %offset, %i, " + std::to_string(8 * results.size()) +
         ";\n  add.s64 %out, %out, %offset;\n" + load + "  " + WithRegisters(code) + "\n" + store +
         "  ret;\n}\n";
}

}  // namespace

InstructionRunner::InstructionRunner() {
  DeviceConfig config;
  config.sm_count = 2;
  device_ = Device::Create(config);
}

std::vector<Row> InstructionRunner::Run(const std::string& code,
                                        const std::vector<std::string>& sources,
                                        const std::vector<std::string>& results,
                                        const std::vector<Row>& rows) {
  auto module = device_->LoadPtx(Kernel(code, sources, results), "instruction.ptx");
  if (!module) {
    ADD_FAILURE() << code << ": " << module.error().ToString();
    return {};
  }
  const uint64_t in = device_->Allocate(rows.size() * sources.size() * 8);
  const uint64_t out = device_->Allocate(rows.size() * results.size() * 8);
  std::memset(reinterpret_cast<void*>(out), 0, rows.size() * results.size() * 8);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(reinterpret_cast<uint64_t*>(in) + i * sources.size(), rows[i].data(),
                sources.size() * 8);
  }
  const KernelInfo& kernel = (*module)->kernels()[0];
  GridLaunch launch;
  launch.module = *module;
  launch.grid = {static_cast<uint32_t>((rows.size() + 255) / 256), 1, 1};
  launch.block = {256, 1, 1};
  launch.params.resize(kernel.param_bytes);
  const uint32_t count = static_cast<uint32_t>(rows.size());
  std::memcpy(launch.params.data() + kernel.params[0].offset, &in, 8);
  std::memcpy(launch.params.data() + kernel.params[1].offset, &out, 8);
  std::memcpy(launch.params.data() + kernel.params[2].offset, &count, 4);
  const std::optional<Fault> fault = SubmitAndWait(*device_, std::move(launch));
  std::vector<Row> values;
  if (fault) {
    ADD_FAILURE() << code << ": " << fault->message;
  } else {
    const uint64_t* words = reinterpret_cast<const uint64_t*>(out);
    for (size_t i = 0; i < rows.size(); ++i) {
      values.emplace_back(words + i * results.size(), words + (i + 1) * results.size());
    }
  }
  device_->Free(in);
  device_->Free(out);
  return values;
}

std::vector<Row> AllTuples(const std::vector<uint64_t>& values, size_t operands) {
  std::vector<Row> rows = {{}};
  for (size_t i = 0; i < operands; ++i) {
    std::vector<Row> longer;
    for (const Row& row : rows) {
      for (const uint64_t value : values) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

uint64_t TestSeed() {
  return settings::NumberIfSet("CUPOLA_SEED").value_or(20250917);
}

void ReportRow(const std::string& code, const Row& row, uint64_t got, uint64_t want) {
  std::string operands;
  char buffer[32];
  for (const uint64_t value : row) {
    std::snprintf(buffer, sizeof(buffer), " 0x%llx", static_cast<unsigned long long>(value));
    operands += buffer;
  }
  ADD_FAILURE() << code << " of" << operands << std::hex << ": got 0x" << got << ", expected 0x"
                << want << std::dec << " (CUPOLA_SEED=" << TestSeed() << ")";
}

}  // namespace cupola::sim
