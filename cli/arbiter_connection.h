// ArbiterConnection: how the subcommands `ctl` and `top` talk to the daemon. One thread.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace cupola {

class ArbiterConnection {
 public:
  /// Connects to the daemon at `socket`, "" = its default place. kNotFound: nobody is there; kIo.
  static Result<ArbiterConnection> Open(const std::string& socket);

  ArbiterConnection(ArbiterConnection&& other) noexcept : fd_(other.fd_), path_(other.path_) {
    other.fd_ = -1;
  }
  ArbiterConnection& operator=(ArbiterConnection&&) = delete;
  ~ArbiterConnection();

  /// One request and its answer (sched/daemon/control.h). Blocks for at most two seconds.
  /// kInvalidArgument: the daemon's own reason for a refusal; kIo: it does not answer.
  Result<nlohmann::json> Ask(const nlohmann::json& request);

 private:
  ArbiterConnection(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  std::string path_;
};

}  // namespace cupola
