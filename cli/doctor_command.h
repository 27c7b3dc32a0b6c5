// `cupola doctor`: what is missing on this machine, and how to mend it.
#pragma once

namespace CLI {
class App;
}

namespace cupola {

/// Adds the command `doctor` to `app`.
void AddDoctorCommand(CLI::App& app);

}  // namespace cupola
