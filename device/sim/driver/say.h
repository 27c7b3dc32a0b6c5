// The simulated driver's messages to the user, on the standard error that the program was started
// with (base/standard_error.h). Any thread.
#pragma once

#include <string>

namespace cupola::sim {

/// Writes "cupola simulated device: <sentence>\n".
void Say(const std::string& sentence);

/// Says that the simulated device does not support `what`: once per `what` in a process.
void SayLacks(const char* what);

}  // namespace cupola::sim
