// Who decides in stepped mode. Everything that a real GPU leaves open (which thread runs next,
// which block starts, on which SM, which older value a weak read returns) is one call of Choose: a
// run is its list of answers. Owned by the test; used by the thread that steps the device.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/prng.h"

namespace cupola::sim {

enum class ChoiceKind : uint8_t {
  kActor,  ///< who makes the next step
  kBlock,  ///< which block of a grid starts
  kSm,     ///< where it starts
  kValue,  ///< which of the values that it may see a read returns; 0 is the newest
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  /// One of `options` (two or more), by index. An option of kActor is the actor's name, the same in
  /// every run (ActorId::Key); otherwise options are 0, 1, 2...
  virtual uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) = 0;
};

/// Every option is equally likely. Runs of equal seeds are equal on every machine.
class RandomChooser final : public Chooser {
 public:
  explicit RandomChooser(uint64_t seed) : random_(seed) {}
  uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) override;

 private:
  Prng random_;
};

/// Probabilistic concurrency testing [Burckhardt et al., ASPLOS 2010]: actors have random
/// priorities, the highest runs, and at `depth` - 1 random steps of the first `steps` the running
/// one falls below all others. A bug that needs `depth` ordered events is found with probability of
/// at least 1 / (actors * steps^(depth - 1)), most often far sooner than by RandomChooser.
class PctChooser final : public Chooser {
 public:
  PctChooser(uint64_t seed, uint32_t depth, uint64_t steps);
  uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) override;

 private:
  Prng random_;
  std::map<uint64_t, uint64_t> priorities_;
  std::vector<uint64_t> changes_;  ///< numbers of steps, ascending
  size_t next_change_ = 0;
  uint64_t step_ = 0;
  uint64_t lowest_;  ///< the next priority of one that falls
};

/// The answers of an earlier run, then option 0.
class ReplayChooser final : public Chooser {
 public:
  explicit ReplayChooser(std::vector<uint32_t> answers) : answers_(std::move(answers)) {}
  uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) override;
  /// Whether every answer fitted: the run is the one that was recorded.
  bool faithful() const { return faithful_; }

 private:
  std::vector<uint32_t> answers_;
  size_t next_ = 0;
  bool faithful_ = true;
};

/// Keeps the answers of another chooser, for ReplayChooser.
class RecordingChooser final : public Chooser {
 public:
  explicit RecordingChooser(Chooser* chooser) : chooser_(chooser) {}
  uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) override;
  const std::vector<uint32_t>& answers() const { return answers_; }

 private:
  Chooser* chooser_;
  std::vector<uint32_t> answers_;
};

}  // namespace cupola::sim
