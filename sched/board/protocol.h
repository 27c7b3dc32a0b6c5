// The messages between `cupola serve` and its clients. They go over a Unix socket of type SOCK_SEQPACKET; each message
// is one packet. Programs exchange plain structs of fixed size (Join); `cupola ctl` and `cupola top` exchange JSON text
// (Control). A connection serves one exchange or several, and may be closed afterwards without any effect: whether a
// client lives is known from its process, not from its socket.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::sched {

inline constexpr uint32_t kMessageMagic = 0x4D504F43;  // "COPM"
/// Each side refuses another major version; the refusal names both versions.
inline constexpr uint16_t kProtocolVersion = 1;

enum class MessageType : uint16_t {
  kJoin = 1,       ///< JoinMessage, client to daemon; with the board's descriptor when the client brings its board
  kJoined = 2,     ///< JoinAnswer, daemon to client; with the board's descriptor
  kControl = 3,    ///< JSON request, from `cupola ctl`
  kAnswer = 4,     ///< JSON answer, in one or several pieces
};

struct MessageHead {
  uint32_t magic = kMessageMagic;
  uint16_t version = kProtocolVersion;
  uint16_t type = 0;   ///< MessageType
  uint32_t bytes = 0;  ///< size of the whole message, this head included
  uint32_t more = 0;   ///< of kAnswer: 1 = another piece follows
};
static_assert(sizeof(MessageHead) == 16);

/// The largest packet that either side sends.
inline constexpr size_t kMaxMessage = 64 * 1024;

inline constexpr uint32_t kNoSlot = 0xFFFFFFFF;

/// A process wants a board slot, or brings the board and the slot that an earlier daemon gave it.
struct JoinMessage {
  MessageHead head;
  uint32_t capabilities = 0;      ///< SlotCapability
  uint32_t sm_count = 0;          ///< SMs of the GPU
  uint32_t slot = kNoSlot;        ///< its slot on the board that it brings; kNoSlot = it brings none
  uint32_t reserved = 0;
  char gpu_uuid[64] = {};         ///< letters, digits, '-', '_' and '.'
  char executable[256] = {};      ///< path of the executable, for the rules of the configuration
  char label[64] = {};            ///< value of CUPOLA_LABEL, cut to fit
};
static_assert(sizeof(JoinMessage) == 416);

/// A JoinMessage may be followed, in the same packet, by texts that do not fit into it. Each has a NUL at its end and
/// is shorter than kMostJoinText. In order they are: the whole label; the path by which the program was started
/// (AT_EXECFN, getauxval(3)); the process's working directory; then, to the end of the packet, its command line, each
/// word with a NUL at its end. A text that is too long is cut; "" is one that the process does not know or does not
/// tell.
inline constexpr size_t kMostJoinText = 1024;
inline constexpr size_t kMostJoinTexts = 4 * kMostJoinText;

enum class JoinStatus : uint32_t {
  kAccepted = 0,
  kFull,             ///< no slot is free
  kForeignUser,      ///< the configuration does not admit this user
  kBadVersion,
  kBadMessage,
  kNoBoard,          ///< the board that it brought cannot be used
  kFailed,           ///< the daemon ran out of some resource
};

/// Which form of a kernel a client uses, as the configuration says; `kAuto` where it says nothing.
enum class VariantChoice : uint32_t { kAuto = 0, kOriginal = 1, kPreemptible = 2, kSliced = 3 };

/// "auto", "original", "preemptible", "sliced".
const char* VariantName(VariantChoice choice);

/// A rule for kernels by name; of the rules that match, the last one counts.
struct KernelRule {
  char pattern[124] = {};  ///< a pattern of fnmatch(3), compared with the demangled or the mangled name
  uint32_t variant = 0;    ///< VariantChoice
};

inline constexpr uint32_t kMaxKernelRules = 16;

struct JoinAnswer {
  MessageHead head;
  uint32_t status = 0;  ///< JoinStatus
  uint32_t slot = kNoSlot;
  uint32_t variant = 0;  ///< VariantChoice for kernels that no rule names
  uint32_t kernel_rules = 0;
  char reason[240] = {};  ///< why the daemon refuses
  KernelRule kernels[kMaxKernelRules];
};
static_assert(sizeof(JoinAnswer) == 16 + 16 + 240 + 128 * kMaxKernelRules);

}  // namespace cupola::sched
