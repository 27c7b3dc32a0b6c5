#include "device/sim/driver/say.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

namespace cupola::sim {

void SayLacks(const char* what) {
  static auto* const said = new std::set<std::string>;  // leaked: used until the process ends
  static auto* const mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  if (said->insert(what).second) {
    std::fprintf(stderr, "cupola simulated device: %s is not supported\n", what);
  }
}

}  // namespace cupola::sim
