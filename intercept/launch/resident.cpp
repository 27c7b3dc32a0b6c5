#include "intercept/launch/resident.h"

namespace cupola::intercept {

constinit Resident resident;

}  // namespace cupola::intercept
