#include "sched/board/socket_path.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>
#include <unistd.h>

#include "base/settings/variables.h"

namespace cupola::sched {
namespace {

/// Adds the formatted path, unless it is there already. False: it does not fit.
template <typename... Words>
bool Add(ArbiterPlaces& places, const char* format, Words... words) {
  char(&path)[kSocketPathBytes] = places.paths[places.count];
  const int written = std::snprintf(path, sizeof(path), format, words...);
  if (written <= 0 || static_cast<size_t>(written) >= sizeof(path)) return false;
  for (uint32_t i = 0; i < places.count; ++i) {
    if (std::strcmp(places.paths[i], path) == 0) return true;
  }
  ++places.count;
  return true;
}

}  // namespace

ArbiterPlaces NamedPlace(const char* path) {
  ArbiterPlaces places;
  places.is_named = true;
  if (*path != '/' || !Add(places, "%s", path)) {
    places.problem = "the path of the socket must be absolute and shorter than 108 bytes";
  }
  return places;
}

ArbiterPlaces FindArbiterPlaces() {
  if (const char* named = settings::TextIfAny("CUPOLA_SOCKET")) {
    ArbiterPlaces places = NamedPlace(named);
    if (places.count == 0) places.problem = "CUPOLA_SOCKET must be an absolute path shorter than 108 bytes";
    return places;
  }
  ArbiterPlaces places;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/' && !Add(places, "%s/cupola/arbiter.sock", runtime)) {
    places.problem = "XDG_RUNTIME_DIR is too long: cupola/arbiter.sock in it must be shorter than 108 bytes";
    return places;
  }
  const auto uid = static_cast<unsigned>(geteuid());
  Add(places, "/run/user/%u/cupola/arbiter.sock", uid);
  Add(places, "/tmp/cupola-%u/arbiter.sock", uid);
  return places;
}

bool IsTrustedPeer(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

}  // namespace cupola::sched
