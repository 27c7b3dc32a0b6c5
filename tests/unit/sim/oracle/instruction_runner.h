// Runs one PTX instruction on the simulated device for many operands. The oracle tests compare the
// results with those of an independent computation. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/sim/exec/device.h"

namespace cupola::sim {

/// Operands of one execution, as bits; results likewise.
using Row = std::vector<uint64_t>;

class InstructionRunner {
 public:
  InstructionRunner();

  /// Executes `code` once per row. In the text $0, $1... are the sources, %0, %1... the results;
  /// `sources` and `results` are register types ("b16", "b32", "f64", "pred" for results only).
  /// Fails the running test when the device cannot.
  std::vector<Row> Run(const std::string& code, const std::vector<std::string>& sources,
                       const std::vector<std::string>& results, const std::vector<Row>& rows);

 private:
  std::unique_ptr<Device> device_;
};

/// Every combination of `values` over `operands` places.
std::vector<Row> AllTuples(const std::vector<uint64_t>& values, size_t operands);

/// The seed of a test, printed when it fails: fixed, or CUPOLA_SEED.
uint64_t TestSeed();

/// Expects each row's result to be `expected(row)`; reports the first three that are not, with the code.
template <typename Expected>
void ExpectRows(InstructionRunner& runner, const std::string& code,
                const std::vector<std::string>& sources, const std::string& result,
                const std::vector<Row>& rows, Expected expected);

void ReportRow(const std::string& code, const Row& row, uint64_t got, uint64_t want);

template <typename Expected>
void ExpectRows(InstructionRunner& runner, const std::string& code,
                const std::vector<std::string>& sources, const std::string& result,
                const std::vector<Row>& rows, Expected expected) {
  const std::vector<Row> results = runner.Run(code, sources, {result}, rows);
  int reported = 0;
  for (size_t i = 0; i < results.size() && reported < 3; ++i) {
    const uint64_t want = expected(rows[i]);
    if (results[i][0] == want) continue;
    ReportRow(code, rows[i], results[i][0], want);
    ++reported;
  }
}

}  // namespace cupola::sim
