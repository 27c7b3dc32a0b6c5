// One line on standard error per thing that the simulated device lacks. Thread-safe.
#pragma once

namespace cupola::sim {

/// Says, once per `what` in a process, that the simulated device does not support it.
void SayLacks(const char* what);

}  // namespace cupola::sim
