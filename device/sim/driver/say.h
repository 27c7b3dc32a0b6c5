// What the simulated driver has to say, on the standard error that the program was started with
// (base/standard_error.h). Thread-safe.
#pragma once

#include <string>

namespace cupola::sim {

/// Writes "cupola simulated device: <sentence>\n".
void Say(const std::string& sentence);

/// Says, once per `what` in a process, that the simulated device does not support it.
void SayLacks(const char* what);

}  // namespace cupola::sim
