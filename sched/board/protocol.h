// The messages between `cupola serve` and its clients, over a Unix socket of type SOCK_SEQPACKET: one
// message each way is one packet. Plain structs of fixed size for programs (Join), JSON text for
// `cupola ctl` and `cupola top` (Control). A connection serves one exchange or several, and nothing
// hangs on it afterwards: whether a client lives is told by its process, not by its socket.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupola::sched {

inline constexpr uint32_t kMessageMagic = 0x4D504F43;  // "COPM"
/// Both sides refuse another major version; the refusal names both.
inline constexpr uint16_t kProtocolVersion = 1;

enum class MessageType : uint16_t {
  kJoin = 1,       ///< JoinMessage, client to daemon; with a descriptor when it brings its board
  kJoined = 2,     ///< JoinAnswer, daemon to client; with the board's descriptor
  kControl = 3,    ///< JSON request, from `cupola ctl`
  kAnswer = 4,     ///< JSON answer, in pieces
};

struct MessageHead {
  uint32_t magic = kMessageMagic;
  uint16_t version = kProtocolVersion;
  uint16_t type = 0;   ///< MessageType
  uint32_t bytes = 0;  ///< of the whole message, this head included
  uint32_t more = 0;   ///< kAnswer: 1 = another piece follows
};
static_assert(sizeof(MessageHead) == 16);

/// Largest packet either side sends.
inline constexpr size_t kMaxMessage = 64 * 1024;

inline constexpr uint32_t kNoSlot = 0xFFFFFFFF;

/// A process wants a slot, or brings the board and the slot that it has of an earlier daemon.
struct JoinMessage {
  MessageHead head;
  uint32_t capabilities = 0;      ///< SlotCapability
  uint32_t sm_count = 0;          ///< of the GPU
  uint32_t slot = kNoSlot;        ///< that it has on the board that it brings; kNoSlot = none
  uint32_t reserved = 0;
  char gpu_uuid[64] = {};         ///< letters, digits, '-', '_' and '.'
  char executable[256] = {};      ///< its path, for the rules of the configuration
  char label[64] = {};            ///< value of CUPOLA_LABEL, as much as fits
};
static_assert(sizeof(JoinMessage) == 416);

/// Behind a JoinMessage, in the same packet, may follow what does not fit into it: texts, each with a NUL behind it,
/// each shorter than kMostJoinText: the whole label; the path by which the program was started (AT_EXECFN,
/// getauxval(3)); the folder that it is in; then, to the end of the packet, its command line, each word with a NUL
/// behind it. What does not fit is cut; "" is what the process does not know or tell.
inline constexpr size_t kMostJoinText = 1024;
inline constexpr size_t kMostJoinTexts = 4 * kMostJoinText;

enum class JoinStatus : uint32_t {
  kAccepted = 0,
  kFull,             ///< no slot is free
  kForeignUser,      ///< the configuration does not admit this user
  kBadVersion,
  kBadMessage,
  kNoBoard,          ///< the board it brought cannot be used
  kFailed,           ///< the daemon ran out of something
};

/// Which form of a kernel a client uses; the configuration's word, `kAuto` where it has none.
enum class VariantChoice : uint32_t { kAuto = 0, kOriginal = 1, kPreemptible = 2, kSliced = 3 };

/// "auto", "original", "preemptible", "sliced".
const char* VariantName(VariantChoice choice);

/// Rules for kernels by name; the last one that matches counts.
struct KernelRule {
  char pattern[124] = {};  ///< as fnmatch(3), against the demangled or the mangled name
  uint32_t variant = 0;    ///< VariantChoice
};

inline constexpr uint32_t kMaxKernelRules = 16;

struct JoinAnswer {
  MessageHead head;
  uint32_t status = 0;  ///< JoinStatus
  uint32_t slot = kNoSlot;
  uint32_t variant = 0;  ///< VariantChoice, for kernels that no rule names
  uint32_t kernel_rules = 0;
  char reason[240] = {};  ///< of a refusal
  KernelRule kernels[kMaxKernelRules];
};
static_assert(sizeof(JoinAnswer) == 16 + 16 + 240 + 128 * kMaxKernelRules);

}  // namespace cupola::sched
