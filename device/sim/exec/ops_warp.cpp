#include "device/sim/exec/families.h"
namespace cupola::sim { void AddWarpOps(OpTable&) {} }
#include "device/sim/exec/state.h"
void cupola::sim::Warp::CheckWarpSync() {}
