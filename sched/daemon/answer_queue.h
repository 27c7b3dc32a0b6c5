// AnswerQueue: the text of an answer to `cupola ctl` on its way to a peer that may read slowly. It sends the text in
// pieces that fit into packets (protocol.h) and never waits. Each of the Server's connections owns one and uses it on
// the server's thread.
#pragma once

#include <cstddef>
#include <string>

namespace cupola::sched {

class AnswerQueue {
 public:
  /// Begins to send another text. Call it only where IsEmpty().
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
