// The Chooser, which decides in stepped mode everything that a real GPU leaves open: which thread
// runs next, which block starts, on which SM, which older value a read returns. Each decision is
// one call of Choose, so the list of its answers determines a run. The test owns the chooser; the
// thread that steps the device calls it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/prng.h"

namespace cupola::sim {

enum class ChoiceKind : uint8_t {
  kActor,  ///< which actor makes the next step
  kBlock,  ///< which block of a grid starts
  kSm,     ///< on which SM the block starts
  kValue,  ///< which of the values that a read may see it returns; 0 is the newest
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Chooses one of `options` (two or more) and returns its index. An option of kActor is the
  /// actor's name, which is the same in every run (ActorId::Key); one of kSm is the SM's number;
  /// other options are 0, 1, 2...
  virtual uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) = 0;
};

/// Chooses every option with equal probability. Equal seeds give equal runs on every machine.
class RandomChooser final : public Chooser {
 public:
  explicit RandomChooser(uint64_t seed) : random_(seed) {}
  uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) override;

 private:
  Prng random_;
};

/// Probabilistic concurrency testing [Burckhardt et al., ASPLOS 2010]. Actors have random
/// priorities, and the actor with the highest priority runs. At `depth` - 1 random steps among the
/// first `steps`, the running actor's priority falls below all others. A bug that needs `depth`
/// ordered events is found with a probability of at least 1 / (actors * steps^(depth - 1)), most
/// often far sooner than by RandomChooser.
class PctChooser final : public Chooser {
 public:
  PctChooser(uint64_t seed, uint32_t depth, uint64_t steps);
  uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) override;

 private:
  Prng random_;
  std::map<uint64_t, uint64_t> priorities_;  ///< actor -> priority
  std::vector<uint64_t> changes_;  ///< numbers of the steps at which a priority falls, ascending
  size_t next_change_ = 0;         ///< index into changes_
  uint64_t step_ = 0;              ///< number of the step
  uint64_t lowest_;                ///< below it lies the priority of the next actor that falls
};

/// Gives the answers of an earlier run, and then always option 0.
class ReplayChooser final : public Chooser {
 public:
  explicit ReplayChooser(std::vector<uint32_t> answers) : answers_(std::move(answers)) {}
  uint32_t Choose(ChoiceKind kind, std::span<const uint64_t> options) override;
  /// Whether every answer was one of the options, as it is when the run is the one that was
  /// recorded.
  bool faithful() const { return faithful_; }

 private:
  std::vector<uint32_t> answers_;
  size_t next_ = 0;
  bool faithful_ = true;
};

/// Asks another chooser, and keeps its answers for a ReplayChooser.
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
