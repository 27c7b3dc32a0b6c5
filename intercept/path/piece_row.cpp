#include "intercept/path/piece_row.h"

#include <algorithm>

#include "intercept/launch/gates.h"
#include "intercept/launch/gpu_board.h"
#include "intercept/launch/launch_context.h"
#include "intercept/path/node_launches.h"
#include "intercept/process/driver_calls.h"

namespace cupola::intercept {

using graphs::kMostQueuedEntries, graphs::kMostQueuedPieces, graphs::kEntriesOfPiece;
using Trial = graphs::PieceSet::Trial;

PieceRow::PieceRow(LaunchContext& context, graphs::PieceSet& set) noexcept : context_(&context), set_(&set) {
  Trial wanted = Trial::kWanted;
  is_trial_ = is_timed_ = set.trial.compare_exchange_strong(wanted, Trial::kBegun);
}

void PieceRow::Promise() noexcept {
  context_->pieces.promised.fetch_add(size());
  is_promised_ = true;
}

// A piece in a trial has two events as well, and counts twice. A graph that is one piece, for the sake of its priority, is
// launched as a whole one would be.
uint32_t PieceRow::Fitting() const noexcept {
  const uint32_t rest = size() - next_, counted = is_trial_ ? 2 : 1;
  if (!set_->is_cut) return rest;
  const uint32_t left = context_->pieces.left();
  if (left == 0 && next_ == 0 && MayFit()) return rest;
  const uint32_t most = kMostQueuedEntries * size() / (set_->nodes + kEntriesOfPiece * size());
  const uint32_t by_entries = most > left ? most - left : 0;
  const uint32_t by_pieces = kMostQueuedPieces > left ? (kMostQueuedPieces - left) / counted : 0;
  const uint32_t fitting = std::min({rest, by_entries, by_pieces});
  return fitting == 0 && left == 0 ? 1 : fitting;
}

bool PieceRow::MayFit() const noexcept {
  const uint32_t counted = is_trial_ ? 2 * size() : size();
  return size() == 1 ||
         (counted <= kMostQueuedPieces && set_->nodes + kEntriesOfPiece * size() <= kMostQueuedEntries);
}

CUresult PieceRow::Put(CUstream stream, bool per_thread, uint32_t most) noexcept {
  const auto launch = Real<PFN_cuGraphLaunch_v10000>(per_thread ? Call::k_cuGraphLaunch_ptsz : Call::k_cuGraphLaunch);
  if (next_ == 0 && is_trial_) set_->wake = context_->gpu->slot().wake.load();
  context_->pieces.longest_ns.store(set_->longest_ns);
  context_->pieces.mean_rest_ns.store(set_->mean_rest_ns);
  const uint32_t end = next_ + std::min(most, size() - next_);
  uint32_t unwritten = 0;
  CUresult result = CUDA_SUCCESS;
  while (next_ < end && result == CUDA_SUCCESS) {
    // A guard holds the stream until its kernel has ended, so that what is written behind it is true.
    if (nodes_ == nullptr || !nodes_->Launch(next_, &result)) {
      GatePiece(*context_, stream, per_thread);  // plant: piece_ungated
      is_timed_ = is_timed_ && RecordEvent(2 * next_, stream, per_thread);
      result = launch(set_->execs[next_], stream);  // plant: piece_early
      is_timed_ = is_timed_ && result == CUDA_SUCCESS && RecordEvent(2 * next_ + 1, stream, per_thread);
    }
    if (result == CUDA_SUCCESS) {
      ++next_;
      ++unwritten;
    }
    if (unwritten == kPiecesAWrite || ((next_ == end || result != CUDA_SUCCESS) && unwritten != 0)) {
      WriteEnded(unwritten, stream, per_thread);
      unwritten = 0;
    }
  }
  return result;
}

void PieceRow::End() noexcept {
  if (is_promised_) context_->pieces.promised.fetch_sub(size() - next_);
  if (!is_trial_) return;
  if (is_over() && is_timed_) return graphs::OnTrialSubmitted(*set_);
  set_->trial.store(next_ == 0 ? Trial::kWanted : Trial::kNone);
}

bool PieceRow::RecordEvent(size_t event, CUstream stream, bool per_thread) {
  return StreamRecordsEvent(stream, per_thread, set_->events[event]) == CUDA_SUCCESS;
}

// The stream writes how many pieces have ended, `count` more than the last time. Where the driver refuses that they are not
// counted.
void PieceRow::WriteEnded(uint32_t count, CUstream stream, bool per_thread) {
  PieceQueue& queue = context_->pieces;
  const uint32_t number = queue.given.fetch_add(count) + count;
  if (StreamWritesWord(stream, per_thread, queue.ended_word(), number) == CUDA_SUCCESS) return;
  queue.given.fetch_sub(count);
  queue.promised.fetch_sub(count);
}

}  // namespace cupola::intercept
