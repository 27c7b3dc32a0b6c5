#include "sched/daemon/answer_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

#include "sched/board/protocol.h"

namespace cupola::sched {

void AnswerQueue::Put(std::string text) {
  text_ = std::move(text);
  sent_ = 0;
  is_sending_ = true;
}

bool AnswerQueue::Send(int fd) {
  constexpr size_t kPiece = kMaxMessage - sizeof(MessageHead);
  while (is_sending_) {
    const size_t bytes = std::min(kPiece, text_.size() - sent_);
    MessageHead head;
    head.type = static_cast<uint16_t>(MessageType::kAnswer);
    head.bytes = static_cast<uint32_t>(sizeof(head) + bytes);
    head.more = sent_ + bytes < text_.size() ? 1 : 0;
    iovec parts[2] = {{&head, sizeof(head)}, {text_.data() + sent_, bytes}};
    msghdr packet{};
    packet.msg_iov = parts;
    packet.msg_iovlen = 2;
    if (sendmsg(fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += bytes;
    is_sending_ = head.more != 0;
  }
  text_.clear();
  text_.shrink_to_fit();
  return true;
}

}  // namespace cupola::sched
