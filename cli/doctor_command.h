// The subcommand `cupola doctor`, which prints what is missing on this machine and how to mend it (doctor.h finds it
// out). See commands.h for the rules.
#pragma once

namespace CLI {
class App;
}

namespace cupola {

/// Adds the command `doctor` to `app`.
void AddDoctorCommand(CLI::App& app);

}  // namespace cupola
