// ArbiterConnection: a connection to the daemon, on which the subcommands `ctl` and `top` send
// requests. Each connection is for one thread at a time.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace cupola {

class ArbiterConnection {
 public:
  /// Connects to the daemon at the path `socket`, or at its default places for "". Errors:
  /// kNotFound when no daemon listens there; kIo; kInvalidArgument for a path that is too long.
  static Result<ArbiterConnection> Open(const std::string& socket);

  ArbiterConnection(ArbiterConnection&& other) noexcept : fd_(other.fd_), path_(other.path_) {
    other.fd_ = -1;
  }
  ArbiterConnection& operator=(ArbiterConnection&&) = delete;
  ~ArbiterConnection();

  /// Sends a request and returns its answer (sched/daemon/control.h). Blocks for at most two
  /// seconds. Errors: kInvalidArgument when the daemon refuses, with its reason; kIo when it does
  /// not answer.
  Result<nlohmann::json> Ask(const nlohmann::json& request);

 private:
  ArbiterConnection(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  std::string path_;
};

}  // namespace cupola
