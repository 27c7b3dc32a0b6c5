#include "device/sim/exec/families.h"
namespace cupola::sim { void AddMatrixOps(OpTable&) {} }
