// One step of stepped mode, as traces, checkers and searches see it. Plain data without a thread
// rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cupola::sim {

enum class ActorKind : uint8_t {
  kHost,        ///< a host thread's next action
  kBlockStart,  ///< a grid's next block becomes resident
  kThreads,     ///< a warp's group, or one thread
};

/// The name of an actor, which makes steps. It is the same in every run of a scenario.
struct ActorId {
  ActorKind kind = ActorKind::kHost;
  uint32_t grid = 0;   ///< number of the submission; for kHost: number of the host thread
  uint32_t block = 0;  ///< linear index in the grid; for kBlockStart: 0
  uint32_t warp = 0;   ///< in the block
  uint32_t lane = 0;   ///< the lowest lane of the group
  uint64_t Key() const {
    return uint64_t{static_cast<uint8_t>(kind)} << 62 | uint64_t{grid} << 38 |
           uint64_t{block} << 11 | uint64_t{warp} << 5 | lane;
  }
};

/// Something that a step used and other actors may use too: bytes of memory, or a barrier. Its
/// name, `object`, is the same in every run.
struct Touch {
  uint64_t object = 0;
  uint32_t bytes = 0;
  bool write = false;
};

struct Step {
  ActorId actor;
  uint32_t pc = 0;      ///< for kThreads: of the visible instruction
  uint32_t lanes = 0;   ///< mask of the lanes that executed it
  uint64_t now_ns = 0;  ///< virtual time after the step
  std::vector<Touch> touches;
  bool touches_all = false;  ///< for a host action: it conflicts with every step
};

/// Whether the order of the two steps can matter.
bool Conflict(const Step& a, const Step& b);

}  // namespace cupola::sim
