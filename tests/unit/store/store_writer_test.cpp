#include "device/compiler/store/store_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <fstream>
#include <thread>

#include "base/prng.h"
#include "tests/unit/store/sample_bundle.h"
#include "tests/unit/store/store_folder.h"

namespace cupola::store {
namespace {

constexpr int kTrouble = 3;  // how a child says that an expectation of its own failed

class StoreWriterTest : public StoreTest {
 protected:
  StoreWriter Writer() {
    Result<StoreWriter> writer = StoreWriter::Open(folder_);
    EXPECT_TRUE(writer) << writer.error().ToString();
    return *std::move(writer);
  }
  size_t Files(const std::string& part) {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(At(part)))
      ++count;
    return count;
  }
  void SetUsed(const std::string& key, time_t when) {
    const timespec times[2] = {{when, 0}, {when, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, At("bundles/" + key).c_str(), times, 0), 0);
  }
  // Runs `body` in a process of its own and gives its wait status.
  template <typename Body>
  pid_t Start(Body&& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    return child;
  }
  int Wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }
};

TEST_F(StoreWriterTest, FoldersAreTheUsersAlone) {
  umask(0);
  const StoreWriter writer = Writer();
  for (const std::string& folder : {folder_, At("bundles"), At("locks"), At("tmp"), At("places"),
                                    At("contents"), outer_ + "/made"}) {
    struct stat facts {};
    ASSERT_EQ(stat(folder.c_str(), &facts), 0) << folder;
    EXPECT_EQ(facts.st_mode & 07777, 0700u) << folder;
  }
  ASSERT_TRUE(writer.Publish(KeyOf('1'), SampleBundle()));
  struct stat facts {};
  ASSERT_EQ(stat(At("bundles/" + KeyOf('1')).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_EQ(Files("tmp"), 0u);
}

TEST_F(StoreWriterTest, FoldersOfOthersAreRefused) {
  Writer();
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(StoreWriter::Open(folder_).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(StoreWriter::Open("/proc/no/such"));
  EXPECT_FALSE(StoreWriter::Open(""));
  std::ofstream(outer_ + "/file") << "x";
  EXPECT_FALSE(StoreWriter::Open(outer_ + "/file"));
  EXPECT_FALSE(StoreWriter::Open(outer_ + "/file/below"));
}

TEST_F(StoreWriterTest, UnwritableStore) {
  if (geteuid() == 0) {
    // Root may write anywhere but where nobody may.
    EXPECT_FALSE(StoreWriter::Open("/proc/self/cupola"));
    return;
  }
  const StoreWriter writer = Writer();
  ASSERT_EQ(chmod(At("tmp").c_str(), 0500), 0);
  EXPECT_EQ(writer.Publish(KeyOf('1'), SampleBundle()).error().code, ErrorCode::kIo);
  ASSERT_EQ(chmod(At("tmp").c_str(), 0700), 0);
}

TEST_F(StoreWriterTest, LinksAreReplaced) {
  const StoreWriter writer = Writer();
  const std::string link = PlaceLink(std::vector<uint8_t>{1, 2}, 64, 90);
  ASSERT_TRUE(writer.Publish(KeyOf('1'), SampleBundle("one")));
  ASSERT_TRUE(writer.Publish(KeyOf('2'), SampleBundle("two")));
  ASSERT_TRUE(writer.Link(link, KeyOf('1')));
  ASSERT_TRUE(writer.Link(link, KeyOf('2')));
  EXPECT_EQ(writer.store().FindAt(std::vector<uint8_t>{1, 2}, 64, 90)->key(), KeyOf('2'));
  EXPECT_EQ(Files("tmp"), 0u);
}

TEST_F(StoreWriterTest, OnlyOneBuilderOfAKeyAtATime) {
  Writer();
  // Each child increments a counter in a file, unprotected but for the key's lock.
  const std::string file = outer_ + "/count";
  std::ofstream(file) << 0;
  constexpr int kChildren = 6, kTimes = 30;
  std::vector<pid_t> children;
  for (int i = 0; i < kChildren; ++i) {
    children.push_back(Start([&] {
      Result<StoreWriter> writer = StoreWriter::Open(folder_);
      for (int k = 0; writer && k < kTimes; ++k) {
        const Result<KeyLock> lock = writer->Lock(KeyOf('5'));
        if (!lock) return kTrouble;
        int count = 0;
        std::ifstream(file) >> count;
        std::ofstream(file) << count + 1;
        // Sweeps run beside: they must not take the lock file from under a builder.
        if (k % 5 == 0 && !writer->Evict(kDefaultStoreLimit)) return kTrouble;
      }
      return writer ? 0 : kTrouble;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(Wait(child), 0);
  int count = 0;
  std::ifstream(file) >> count;
  EXPECT_EQ(count, kChildren * kTimes);
}

TEST_F(StoreWriterTest, ReadersSeeWholeBundlesOnly) {
  const StoreWriter writer = Writer();
  const std::string link = PlaceLink(std::vector<uint8_t>{7}, 64, 90);
  ASSERT_TRUE(writer.Publish(KeyOf('7'), SampleBundle()));
  ASSERT_TRUE(writer.Link(link, KeyOf('7')));
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(Start([&] {
      Result<StoreWriter> own = StoreWriter::Open(folder_);
      for (int k = 0; own && k < 40; ++k) {
        const Result<KeyLock> lock = own->Lock(KeyOf('7'));
        const std::vector<std::byte> bundle = SampleBundle(std::string(100 + 999 * k, 'b'));
        if (!lock || !own->Publish(KeyOf('7'), bundle) || !own->Link(link, KeyOf('7'))) {
          return kTrouble;
        }
      }
      return own ? 0 : kTrouble;
    }));
  }
  size_t found = 0;
  for (int k = 0; k < 300; ++k) {
    const Result<MappedBundle> bundle = writer.store().FindAt(std::vector<uint8_t>{7}, 64, 90);
    ASSERT_TRUE(bundle) << bundle.error().ToString();
    ++found;
  }
  EXPECT_EQ(found, 300u);
  for (const pid_t child : children) EXPECT_EQ(Wait(child), 0);
}

// A builder is killed at any point; what it leaves is whole or nothing, and the next one goes on.
TEST_F(StoreWriterTest, KilledBuildersLeaveNothingHalf) {
  const StoreWriter writer = Writer();
  const std::vector<std::byte> large = SampleBundle(std::string(8 << 20, 'c'));
  size_t left_behind = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    const std::string key = KeyOf('9');
    unlink(At("bundles/" + key).c_str());
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = Start([&] {
      Result<StoreWriter> own = StoreWriter::Open(folder_);
      const Result<KeyLock> lock = own->Lock(key);
      if (write(ready[1], "x", 1) != 1) return kTrouble;
      while (own->Publish(key, large).ok()) {
      }
      return kTrouble;
    });
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    for (uint64_t spins = prng.Below(200); spins > 0; --spins) Files("tmp");
    kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(Wait(child)));
    close(ready[0]);
    close(ready[1]);
    left_behind += Files("tmp");
    const Result<MappedBundle> bundle = writer.store().FindByKey(key);
    if (!bundle) {
      EXPECT_EQ(bundle.error().code, ErrorCode::kNotFound);
    }
    ASSERT_TRUE(writer.Lock(key));  // the dead one's lock is free
    ASSERT_TRUE(writer.Evict(kDefaultStoreLimit));
    EXPECT_EQ(Files("tmp"), 0u);
  }
  EXPECT_GT(left_behind, 0u);  // else no kill came in the middle, and this showed nothing
}

TEST_F(StoreWriterTest, FullStore) {
  const pid_t child = Start([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return kTrouble;
    Result<StoreWriter> writer = StoreWriter::Open(folder_);
    if (!writer || !writer->Publish(KeyOf('1'), SampleBundle("small"))) return kTrouble;
    const Status large = writer->Publish(KeyOf('2'), SampleBundle(std::string(9000, 'x')));
    return !large && large.error().code == ErrorCode::kExhausted ? 0 : kTrouble;
  });
  EXPECT_EQ(Wait(child), 0);
  const StoreWriter writer = Writer();
  EXPECT_TRUE(writer.store().FindByKey(KeyOf('1')));
  EXPECT_EQ(writer.store().FindByKey(KeyOf('2')).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Files("tmp"), 0u);
}

TEST_F(StoreWriterTest, EvictsTheLeastRecentlyUsed) {
  const StoreWriter writer = Writer();
  const std::vector<std::byte> bundle = SampleBundle(std::string(1000, 'x'));
  for (int i = 0; i < 5; ++i) {
    const std::string key = KeyOf(static_cast<char>('1' + i));
    ASSERT_TRUE(writer.Publish(key, bundle));
    ASSERT_TRUE(writer.Link(PlaceLink(std::vector<uint8_t>{static_cast<uint8_t>(i)}, 64, 90), key));
    SetUsed(key, 1000 + 100 * ((i + 2) % 5));  // the fourth is the oldest
  }
  const Result<Eviction> nothing = writer.Evict(5 * bundle.size());
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->bundles, 0u);
  const Result<Eviction> done = writer.Evict(3 * bundle.size() + 10);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->bundles, 2u);
  EXPECT_EQ(done->bytes, 2 * bundle.size());
  const Result<std::vector<StoredBundle>> left = writer.List();
  ASSERT_TRUE(left);
  ASSERT_EQ(left->size(), 3u);
  EXPECT_EQ((*left)[0].key, KeyOf('1'));
  EXPECT_EQ((*left)[2].key, KeyOf('3'));
  EXPECT_EQ(Files("places"), 3u);  // links of what is gone went too
  EXPECT_EQ(Files("locks"), 0u);
  ASSERT_TRUE(writer.Evict(0));
  EXPECT_EQ(Files("bundles"), 0u);
  EXPECT_EQ(Files("places"), 0u);
}

TEST_F(StoreWriterTest, SweepsSpareWhatIsBeingMade) {
  const StoreWriter writer = Writer();
  std::ofstream(At("tmp/" + KeyOf('a') + ".1.0")) << "held";
  std::ofstream(At("tmp/" + KeyOf('b') + ".1.0")) << "left";
  {
    const Result<KeyLock> lock = writer.Lock(KeyOf('a'));
    ASSERT_TRUE(lock);
    ASSERT_TRUE(writer.Evict(kDefaultStoreLimit));
    EXPECT_EQ(Files("tmp"), 1u);
    EXPECT_EQ(Files("locks"), 1u);
  }
  ASSERT_TRUE(writer.Evict(kDefaultStoreLimit));
  EXPECT_EQ(Files("tmp"), 0u);
  EXPECT_EQ(Files("locks"), 0u);
}

}  // namespace
}  // namespace cupola::store
