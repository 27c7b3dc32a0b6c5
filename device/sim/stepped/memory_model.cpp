#include "device/sim/stepped/memory_model.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cupola::sim {
namespace {

constexpr size_t kMessages = 8;  // messages kept for one location; reads cannot return older ones

bool Acquires(Order order) {
  return order == Order::kAcquire || order == Order::kAcquireRelease || order == Order::kSc;
}
bool Releases(Order order) {
  return order == Order::kRelease || order == Order::kAcquireRelease || order == Order::kSc;
}

uint64_t ValueAt(const void* from, uint32_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}

/// Calls body(piece, offset) for the pieces of at most eight bytes of an access.
template <typename Body>
void ForPieces(const Access& access, Body body) {
  for (uint32_t at = 0; at < access.bytes;) {
    Access piece = access;
    piece.at = access.at + at;
    piece.bytes = std::min(access.bytes - at, 8u);
    body(piece, at);
    at += piece.bytes;
  }
}

}  // namespace

void MemoryModel::Knowledge::Take(const Knowledge& other) {
  if (epochs.size() < other.epochs.size()) epochs.resize(other.epochs.size());
  // A fast path: for most threads both know the same epoch.
  constexpr size_t kPiece = 32;
  for (size_t first = 0; first < other.epochs.size(); first += kPiece) {
    const size_t end = std::min(first + kPiece, other.epochs.size());
    if (std::memcmp(&epochs[first], &other.epochs[first], (end - first) * sizeof(uint32_t)) == 0)
      continue;
    for (size_t i = first; i < end; ++i) epochs[i] = std::max(epochs[i], other.epochs[i]);
  }
  auto mine = newest.begin();
  for (const auto& [location, number] : other.newest) {
    while (mine != newest.end() && mine->first < location) ++mine;
    if (mine == newest.end() || mine->first != location)
      mine = newest.emplace_hint(mine, location, number);
    mine->second = std::max(mine->second, number);
  }
}

// ---- causality ------------------------------------------------------------------------------

ThreadId MemoryModel::AddThread(ThreadId parent, uint32_t block) {
  const ThreadId id = static_cast<ThreadId>(threads_.size());
  Snapshot known = id == 0 ? nullptr : Release(parent);
  Thread& thread = threads_.emplace_back();
  if (known) thread.known = *known;
  thread.at_start = std::move(known);
  thread.block = block;
  return id;
}

/// The thread's knowledge as it is now, to be handed on. What the thread does from here on is in a
/// new epoch, which that knowledge does not cover.
MemoryModel::Snapshot MemoryModel::Release(ThreadId id) {
  Thread& thread = threads_[id];
  if (thread.known.epochs.size() <= id) thread.known.epochs.resize(id + 1);
  thread.known.epochs[id] = thread.epoch++;
  return std::make_shared<const Knowledge>(thread.known);
}

void MemoryModel::Join(ThreadId to, ThreadId from) { threads_[to].known.Take(*Release(from)); }

void MemoryModel::Barrier(std::span<const ThreadId> released, std::span<const ThreadId> acquired) {
  Knowledge all;
  for (const ThreadId id : released) {
    Thread& thread = threads_[id];
    if (thread.known.epochs.size() <= id) thread.known.epochs.resize(id + 1);
    thread.known.epochs[id] = thread.epoch++;
    all.Take(thread.known);
  }
  for (const ThreadId id : acquired) threads_[id].known.Take(all);
}

void MemoryModel::Fence(ThreadId id, Order order, Scope scope) {
  Thread& thread = threads_[id];
  const size_t reach = static_cast<size_t>(scope);
  if (Acquires(order)) {
    for (size_t s = 0; s <= reach; ++s) {
      if (thread.has_pending[s]) thread.known.Take(thread.pending[s]);
    }
  }
  if (order == Order::kSc && config_.stale_reads) {
    // All fence.sc are in one order: each knows what the fences before it knew.
    for (const auto& [location, number] : fenced_newest_) {
      uint32_t& mine = thread.known.newest[location];
      mine = std::max(mine, number);
    }
    fenced_newest_ = thread.known.newest;
  }
  if (!Releases(order)) return;
  const Head head = HeadOf(id, scope);
  for (size_t s = 0; s <= reach; ++s) thread.fenced[s] = head;
}

/// The narrowest scope that includes threads of both blocks.
Scope MemoryModel::Between(uint32_t block_a, uint32_t block_b) const {
  if (block_a == kHostBlock || block_b == kHostBlock)
    return block_a == block_b ? Scope::kCta : Scope::kSys;
  return block_a == block_b ? Scope::kCta : Scope::kGpu;
}

bool MemoryModel::Head::Covers(const Head& older) const {
  return block == older.block && scope >= older.scope && older.thread < known->epochs.size() &&
         known->epochs[older.thread] >= older.epoch;
}

MemoryModel::Head MemoryModel::HeadOf(ThreadId id, Scope scope) {
  const uint32_t epoch = threads_[id].epoch;
  return {Release(id), threads_[id].block, scope, id, epoch};
}

/// The release patterns of which a strong write is the last part.
std::vector<MemoryModel::Head> MemoryModel::HeadsOf(ThreadId id, const Access& access) {
  if (Releases(access.order)) return {HeadOf(id, access.scope)};
  // A releasing fence and a strong write behind it are a release pattern, of the narrower scope of
  // the two.
  std::vector<Head> heads;
  for (int s = 2; s >= 0; --s) {
    Head head = threads_[id].fenced[static_cast<size_t>(s)];
    if (!head.known || (!heads.empty() && heads.back().known == head.known)) continue;
    head.scope = std::min(access.scope, static_cast<Scope>(s));
    heads.push_back(std::move(head));
  }
  return heads;
}

/// A strong read of a message takes over the knowledge of its release patterns whose scope includes
/// the thread: at once if the read acquires, else at the thread's next acquiring fence of the
/// needed scope.
void MemoryModel::Acquire(Thread& thread, const Access& access, const Message& message) {
  for (const Head& head : message.heads) {
    const Scope needed = Between(head.block, thread.block);
    if (std::min(head.scope, access.scope) < needed) continue;
    if (Acquires(access.order)) {
      thread.known.Take(*head.known);
      continue;
    }
    const size_t s = static_cast<size_t>(needed);
    thread.pending[s].Take(*head.known);
    thread.has_pending[s] = true;
  }
}

/// An agent here is a thread of the model that stands for the asynchronous copies of a GPU thread;
/// it is not the agent of the glossary.
ThreadId MemoryModel::Agent(ThreadId id) {
  if (threads_[id].agent == 0) {
    const ThreadId agent = AddThread(id, threads_[id].block);
    threads_[id].agent = agent;
    return agent;
  }
  Join(threads_[id].agent, id);
  return threads_[id].agent;
}

void MemoryModel::CommitCopies(ThreadId id, bool bulk) {
  threads_[id].copies[bulk].push_back(Release(Agent(id)));
}

void MemoryModel::WaitForCopies(ThreadId id, bool bulk, uint32_t pending) {
  auto& groups = threads_[id].copies[bulk];
  for (; groups.size() > pending; groups.pop_front()) threads_[id].known.Take(*groups.front());
}

// ---- races ----------------------------------------------------------------------------------

bool MemoryModel::OrderedAtStart(const Entry& entry, ThreadId before) const {
  const Snapshot& known = threads_[before].at_start;
  return known != nullptr && entry.thread < known->epochs.size() &&
         known->epochs[entry.thread] >= entry.epoch;
}

void MemoryModel::Report(uint64_t address, const Entry& first, const Entry& second,
                         bool same_value) {
  if (!reported_.insert({first.site, second.site, first.write, second.write}).second) return;
  Race race;
  race.address = address;
  race.threads[0] = first.thread;
  race.threads[1] = second.thread;
  race.sites[0] = first.site;
  race.sites[1] = second.site;
  race.writes[0] = first.write;
  race.writes[1] = second.write;
  race.same_value = same_value;
  races_.push_back(race);
}

/// Checks a new access to a word against the earlier ones, and keeps it for later ones.
void MemoryModel::CheckWord(uint64_t word, Entry entry, bool same_value) {
  std::vector<Entry>& entries = words_[word];
  const std::span<const uint32_t> known = threads_[entry.thread].known.epochs;
  for (size_t i = 0; i < entries.size();) {
    Entry& old = entries[i];
    const uint8_t common = old.mask & entry.mask;
    if (common == 0) {
      ++i;
      continue;
    }
    // Whether causality orders the new access behind the old one. A word that many threads poll has an entry of each.
    const bool ordered = old.thread == entry.thread || (old.thread < known.size() && known[old.thread] >= old.epoch);
    if (!ordered && (old.write || entry.write)) {
      const Scope needed = Between(threads_[old.thread].block, threads_[entry.thread].block);
      const bool strong = old.strong && entry.strong && std::min(old.scope, entry.scope) >= needed;
      if (!strong) {
        Report(word * 8 + static_cast<uint64_t>(std::countr_zero(common)), old, entry,
               same_value && old.write && entry.write);
      }
    }
    if (ordered && old.write && entry.read_only && !OrderedAtStart(old, entry.thread)) {
      Report(word * 8 + static_cast<uint64_t>(std::countr_zero(common)), old, entry, false);
    }
    // Where the new access hides the old one, the old one need not be kept: a later access that
    // races with the old one also races with the new one, or that race was reported, or it is
    // ordered behind both.
    const bool hides = ordered && (entry.write || !old.write) &&
                       (!entry.strong || (old.strong && old.scope >= entry.scope));
    if (hides) old.mask = static_cast<uint8_t>(old.mask & ~entry.mask);
    if (old.mask == 0) {
      entries[i] = entries.back();
      entries.pop_back();
    } else {
      ++i;
    }
  }
  entries.push_back(entry);
}

void MemoryModel::Check(ThreadId id, const Access& access, uint64_t site, bool write,
                        bool same_value) {
  if (!config_.find_races) return;
  Entry entry;
  entry.thread = id;
  entry.epoch = threads_[id].epoch;
  entry.write = write;
  entry.strong = access.order != Order::kWeak;
  entry.read_only = access.read_only;
  entry.scope = access.scope;
  entry.site = site;
  uint64_t at = reinterpret_cast<uint64_t>(access.at);
  const uint64_t end = at + access.bytes;
  while (at < end) {
    const uint64_t word = at / 8, first = at % 8, count = std::min(end - at, 8 - first);
    entry.mask = static_cast<uint8_t>(((1u << count) - 1) << first);
    CheckWord(word, entry, same_value);
    at += count;
  }
}

// ---- values ---------------------------------------------------------------------------------

/// The history of exactly these bytes; null if there is none. Removes overlapping histories of
/// other places or sizes, because their old values can no longer be told apart.
MemoryModel::History* MemoryModel::Find(uint64_t address, uint32_t bytes) {
  auto it = histories_.lower_bound(address < 8 ? 0 : address - 7);
  while (it != histories_.end() && it->first < address + bytes) {
    if (it->first == address && it->second.bytes == bytes) return &it->second;
    it = it->first + it->second.bytes > address ? histories_.erase(it) : std::next(it);
  }
  return nullptr;
}

/// `value` is what memory held before the access. If that is not the newest known value, memory was
/// changed without a call of the model (by a host that writes directly), and `value` becomes the
/// newest.
MemoryModel::History* MemoryModel::FindOrMake(uint64_t address, uint32_t bytes, uint64_t value) {
  History* history = Find(address, bytes);
  if (history == nullptr) {
    history = &histories_[address];
    history->bytes = bytes;
    history->messages.push_back({0, value, {}});
  } else if (history->messages.back().value != value) {
    history->messages.push_back({history->messages.back().number + 1, value, {}});
  }
  return history;
}

/// From now on the thread must see this message or a newer one. Kept only with stale_reads, which
/// alone needs it, because every release copies it.
void MemoryModel::NoteSeen(Thread& thread, uint64_t address, const Message& message) {
  if (!config_.stale_reads) return;
  uint32_t& newest = thread.known.newest[address];
  newest = std::max(newest, message.number);
}

void MemoryModel::Append(Thread& thread, uint64_t address, History& history, uint64_t value,
                         std::vector<Head> heads) {
  const uint32_t number = history.messages.back().number + 1;
  history.messages.push_back({number, value, std::move(heads)});
  if (history.messages.size() > kMessages) history.messages.pop_front();
  if (config_.stale_reads) thread.known.newest[address] = number;
}

/// Returns whether the read got an older value, which is then in `value`. A weak read never does.
/// It is looked at only where a strong access has made a history, to know which message the thread
/// has seen.
bool MemoryModel::ReadPiece(Thread& thread, const Access& access, uint8_t* value, bool latest) {
  const uint64_t address = reinterpret_cast<uint64_t>(access.at);
  const bool strong = access.order != Order::kWeak;
  const uint64_t now = ValueAt(access.at, access.bytes);
  if (!strong && Find(address, access.bytes) == nullptr) return false;
  History* history = FindOrMake(address, access.bytes, now);
  const auto& messages = history->messages;
  size_t back = 0;  // by how many messages the one that is read is older than the newest
  if (strong && config_.stale_reads && !latest && value != nullptr) {
    const uint32_t newest = thread.known.newest[address];
    size_t seen = 1;
    while (seen < messages.size() && messages[messages.size() - 1 - seen].number >= newest) ++seen;
    if (seen > 1) {
      std::vector<uint64_t> options(seen);
      for (size_t i = 0; i < seen; ++i) options[i] = i;
      back = chooser_->Choose(ChoiceKind::kValue, options);
    }
  }
  const Message& message = messages[messages.size() - 1 - back];
  NoteSeen(thread, address, message);
  if (back != 0) std::memcpy(value, &message.value, access.bytes);
  if (strong) Acquire(thread, access, message);
  return back != 0;
}

bool MemoryModel::Read(ThreadId id, const Access& access, uint64_t site, void* value, bool latest) {
  Check(id, access, site, false, false);
  if (access.order == Order::kWeak && histories_.empty()) return false;
  bool stale = false;
  ForPieces(access, [&](const Access& piece, uint32_t at) {
    uint8_t* to = value == nullptr ? nullptr : static_cast<uint8_t*>(value) + at;
    stale |= ReadPiece(threads_[id], piece, to, latest);
  });
  return stale;
}

void MemoryModel::WritePiece(ThreadId id, const Access& access, const uint8_t* value) {
  const uint64_t address = reinterpret_cast<uint64_t>(access.at);
  const bool strong = access.order != Order::kWeak;
  if (!strong && Find(address, access.bytes) == nullptr) return;
  const uint64_t now = ValueAt(access.at, access.bytes);
  History* history = FindOrMake(address, access.bytes, now);
  std::vector<Head> heads;
  if (strong) heads = HeadsOf(id, access);
  const uint64_t fresh = value == nullptr ? now : ValueAt(value, access.bytes);
  Append(threads_[id], address, *history, fresh, std::move(heads));
}

void MemoryModel::Write(ThreadId id, const Access& access, uint64_t site, const void* value) {
  const bool same = value != nullptr && std::memcmp(access.at, value, access.bytes) == 0;
  Check(id, access, site, true, same);
  if (access.order == Order::kWeak && histories_.empty()) return;
  ForPieces(access, [&](const Access& piece, uint32_t at) {
    WritePiece(id, piece, value == nullptr ? nullptr : static_cast<const uint8_t*>(value) + at);
  });
}

void MemoryModel::Update(ThreadId id, const Access& access, uint64_t site, const void* before,
                         const void* after) {
  Check(id, access, site, after != nullptr, false);
  ForPieces(access, [&](const Access& piece, uint32_t at) {
    const uint64_t address = reinterpret_cast<uint64_t>(piece.at);
    const uint64_t held = ValueAt(static_cast<const uint8_t*>(before) + at, piece.bytes);
    History* history = FindOrMake(address, piece.bytes, held);
    const Message read = history->messages.back();  // an atomic reads the newest value
    Thread& thread = threads_[id];
    NoteSeen(thread, address, read);
    Acquire(thread, piece, read);
    if (after == nullptr) return;
    // An atomic continues the release patterns of the value that it replaces [PTX ISA 8.8].
    std::vector<Head> heads = HeadsOf(id, piece);
    for (const Head& older : read.heads) {
      const bool covered =
          std::ranges::any_of(heads, [&](const Head& head) { return head.Covers(older); });
      if (!covered) heads.push_back(older);
    }
    // More patterns would cost too much. A reader then knows less, so a race may be reported that
    // is none.
    if (heads.size() > 64) heads.resize(64);
    Append(thread, address, *history, ValueAt(static_cast<const uint8_t*>(after) + at, piece.bytes),
           std::move(heads));
  });
}

void MemoryModel::Forget(uint64_t address, uint64_t bytes) {
  for (uint64_t word = address / 8; word <= (address + bytes - 1) / 8; ++word) words_.erase(word);
  auto it = histories_.lower_bound(address);
  while (it != histories_.end() && it->first < address + bytes) it = histories_.erase(it);
}

}  // namespace cupola::sim
