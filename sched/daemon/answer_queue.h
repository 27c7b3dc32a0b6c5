// AnswerQueue: the text of an answer to `cupola ctl` on its way to a peer that may read slowly, in pieces that fit into
// packets (protocol.h). Belongs to one connection, on the server's thread; never waits.
#pragma once

#include <cstddef>
#include <string>

namespace cupola::sched {

class AnswerQueue {
 public:
  /// Begins to send another text. Only where `IsEmpty`.
  void Put(std::string text);

  bool IsEmpty() const { return !is_sending_; }

  /// Sends as much as the socket takes. False: the peer is gone.
  bool Send(int fd);

 private:
  std::string text_;
  size_t sent_ = 0;
  bool is_sending_ = false;
};

}  // namespace cupola::sched
