#include "device/sim/driver/say.h"

#include <mutex>
#include <set>
#include <string>

#include "base/standard_error.h"

namespace cupola::sim {

void Say(const std::string& sentence) {
  const std::string line = "cupola simulated device: " + sentence + "\n";
  WriteToStandardError(line.data(), line.size());
}

void SayLacks(const char* what) {
  // Leaked on purpose: used until the process ends.
  static auto* const said = new std::set<std::string>;
  static auto* const mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  if (said->insert(what).second) Say(std::string(what) + " is not supported");
}

}  // namespace cupola::sim
