// What all forms of an application run on: its tasks, their memory on both sides, their arguments;
// and what is between runs. Owned by main, used by one thread. Host code and CUDA's runtime.
#pragma once

#include <cuda_runtime.h>

#include "app.h"
#include "options.h"
#include "workload.h"

namespace pagoda {

class Bed {
 public:
  /// Allocates all memory, none of it filled.
  Bed(const Config& config, Workload load, size_t table_bytes);
  ~Bed();
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;

  const Config& config() const { return config_; }
  const Workload& load() const { return load_; }
  size_t task_count() const { return load_.tasks.size(); }
  Base host() const { return host_; }
  Base device() const { return device_; }
  std::vector<Record>& records() { return records_; }
  const std::vector<Record>& records() const { return records_; }

  /// When inputs, table and records are filled: table and, for runs without copies, inputs to the
  /// device. Waits.
  void Start(const char* table);

  /// Before a run that will be looked at: nothing of an earlier one is left. Waits.
  void Forget(bool copies);
  /// Before any run, not measured: an in-place problem of a run without copies.
  void Reset(bool copies);
  /// Behind a run without copies: results to the host.
  void Fetch();
  /// Of the results on the host.
  uint64_t Checksum() const;

  // Pieces of measured runs; they do not wait.
  void CopyIn(size_t first, size_t last, cudaStream_t stream) const;   ///< all tasks between
  void CopyOut(size_t first, size_t last, cudaStream_t stream) const;  ///< the same
  /// An in-place problem as a whole; nothing for others.
  void PlaceWhole(cudaStream_t stream) const;
  void FetchWhole(cudaStream_t stream) const;

 private:
  Config config_;
  Workload load_;
  Base host_{}, device_{};
  char* table_ = nullptr;
  size_t table_bytes_;
  std::vector<Record> records_;
};

/// A bed with everything in it.
template <class App>
void Furnish(Bed* bed, std::vector<char>* table) {
  table->resize(App::TableBytes());
  App::FillTable(table->data());
  App::FillInput(bed->load(), bed->config(), bed->host().in);
  ParallelFor(bed->task_count(), [&](size_t i) {
    const Task& task = bed->load().tasks[i];
    Record& record = bed->records()[i];
    record.kind = task.kind;
    record.threads = task.threads;
    App::Describe(bed->load(), bed->config(), i, bed->device(), record.arguments);
  });
  bed->Start(table->data());
}

}  // namespace pagoda
