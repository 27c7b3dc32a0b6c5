#include "intercept/process/participation.h"

namespace cupola::intercept {

std::atomic<Participation> participation{Participation::kUndecided};
std::atomic<bool> makes_tasks{false};
std::atomic<uint32_t> watched{0};
std::atomic<uint64_t> launch_epoch{1};

}  // namespace cupola::intercept
