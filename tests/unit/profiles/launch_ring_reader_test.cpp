#include "profiles/launch_ring_reader.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "ring_writer.h"

namespace cupola {
namespace {

class LaunchRingReaderTest : public testing::Test {
 protected:
  LaunchRingReaderTest() {
    char folder[] = "/tmp/cupola-ring-XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/ring";
  }
  ~LaunchRingReaderTest() override { std::filesystem::remove_all(folder_); }

  ErrorCode OpenError() {
    auto reader = LaunchRingReader::Open(path_);
    EXPECT_FALSE(reader.ok());
    if (reader.ok()) return ErrorCode::kInternal;
    EXPECT_EQ(reader.error().where.file, path_);
    return reader.error().code;
  }

  static std::vector<Launch> DrainAll(LaunchRingReader& reader, WriterState state) {
    std::vector<Launch> launches;
    auto count = reader.Drain(state, [&](const Launch& launch) { launches.push_back(launch); });
    EXPECT_TRUE(count.ok());
    EXPECT_EQ(*count, launches.size());
    return launches;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(LaunchRingReaderTest, ReadsEveryField) {
  RingWriter writer(path_);
  const uint32_t name = writer.AddName("_Z3fooPf");
  writer.Write([&](LaunchRecord& r) {
    r.call_start_ns = 1;
    r.call_end_ns = 2;
    r.device_start_ns = 3;
    r.device_end_ns = 4;
    r.stream = 5;
    r.context = 6;
    r.name_offset = name;
    r.thread_id = 7;
    for (uint32_t i = 0; i < 3; ++i) r.grid[i] = 8 + i, r.block[i] = 11 + i;
    r.shared_bytes = 14;
    r.kernel_nodes = 15;
    r.result = 16;
    r.flags = kFlagCooperative;
    r.kind = RecordKind::kGraph;
    r.door = LaunchDoor::kLaunchGraph;
  });
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.error().ToString();
  EXPECT_EQ((*reader)->pid(), static_cast<uint32_t>(getpid()));
  EXPECT_EQ((*reader)->start_ns(), 1000u);
  EXPECT_EQ((*reader)->executable(), "/bin/program");
  const auto launches = DrainAll(**reader, WriterState::kAlive);
  ASSERT_EQ(launches.size(), 1u);
  const Launch& l = launches[0];
  EXPECT_EQ(l.call_start_ns, 1u);
  EXPECT_EQ(l.call_end_ns, 2u);
  EXPECT_EQ(l.device_start_ns, 3u);
  EXPECT_EQ(l.device_end_ns, 4u);
  EXPECT_EQ(l.stream, 5u);
  EXPECT_EQ(l.context, 6u);
  EXPECT_EQ(l.name, "_Z3fooPf");
  EXPECT_EQ(l.thread_id, 7u);
  EXPECT_EQ(l.grid[2], 10u);
  EXPECT_EQ(l.block[0], 11u);
  EXPECT_EQ(l.shared_bytes, 14u);
  EXPECT_EQ(l.kernel_nodes, 15u);
  EXPECT_EQ(l.result, 16);
  EXPECT_EQ(l.flags, kFlagCooperative);
  EXPECT_EQ(l.kind, RecordKind::kGraph);
  EXPECT_EQ(l.door, LaunchDoor::kLaunchGraph);
  EXPECT_TRUE(DrainAll(**reader, WriterState::kGone).empty());
}

TEST_F(LaunchRingReaderTest, SeveralThreadsEveryRecordOnceAndInOrder) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kEach = 50'000;  // three rings' worth in all
  RingWriter writer(path_);
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kEach;) {
        const bool written = writer.Write([&](LaunchRecord& r) {
          r.thread_id = t;
          r.stream = i;
          r.context = i * 3 + t;  // tears show
        });
        if (written) ++i; else std::this_thread::yield();
      }
    });
  }
  std::vector<uint64_t> next(kThreads, 0);
  uint64_t total = 0;
  bool sound = true;
  while (total < kThreads * kEach) {
    auto count = (*reader)->Drain(WriterState::kAlive, [&](const Launch& l) {
      sound = sound && l.thread_id < kThreads && l.stream == next[l.thread_id] &&
              l.context == l.stream * 3 + l.thread_id;
      if (l.thread_id < kThreads) next[l.thread_id] = l.stream + 1;
    });
    ASSERT_TRUE(count.ok());
    total += *count;
    if (*count == 0) std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(sound);
  EXPECT_EQ(next, std::vector<uint64_t>(kThreads, kEach));
  EXPECT_EQ((*reader)->holes(), 0u);
}

TEST_F(LaunchRingReaderTest, ReadsEveryFieldOfALane) {
  RingWriter writer(path_);
  const uint32_t name = writer.AddName("_Z3barPf");
  ASSERT_TRUE(writer.WriteLane(kLanes - 1, [&](LaneRecord& r) {
    r.call_start_ns = 1;
    r.context = 2;
    r.call_ns = 3;
    r.stream = 4;
    r.name_offset = name;
    r.thread_id = 5;
    for (uint32_t i = 0; i < 3; ++i) r.grid[i] = 6 + i, r.block[i] = static_cast<uint16_t>(9 + i);
    r.shared_bytes = 12;
    r.flags = kFlagPackedArgs;
    r.door = LaunchDoor::kLaunchKernelEx;
  }));
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  const auto launches = DrainAll(**reader, WriterState::kAlive);
  ASSERT_EQ(launches.size(), 1u);
  const Launch& l = launches[0];
  EXPECT_EQ(l.call_start_ns, 1u);
  EXPECT_EQ(l.call_end_ns, 4u);
  EXPECT_EQ(l.context, 2u);
  EXPECT_EQ(l.stream, 4u);
  EXPECT_EQ(l.name, "_Z3barPf");
  EXPECT_EQ(l.thread_id, 5u);
  EXPECT_EQ(l.grid[1], 7u);
  EXPECT_EQ(l.block[2], 11u);
  EXPECT_EQ(l.shared_bytes, 12u);
  EXPECT_EQ(l.flags, kFlagPackedArgs);
  EXPECT_EQ(l.kind, RecordKind::kKernel);
  EXPECT_EQ(l.door, LaunchDoor::kLaunchKernelEx);
  EXPECT_EQ((*reader)->totals().launches, 1u);
  EXPECT_TRUE(DrainAll(**reader, WriterState::kAlive).empty());
}

TEST_F(LaunchRingReaderTest, LanesOfSeveralThreadsEveryRecordOnceAndInOrder) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kEach = 8 * uint64_t{kLaneSlots} + 7;
  RingWriter writer(path_);
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kEach;) {
        const bool written = writer.WriteLane(t, [&](LaneRecord& r) {
          r.thread_id = t;
          r.call_start_ns = i;
          r.context = i * 3 + t;  // tears show
        });
        if (written) ++i; else std::this_thread::yield();
      }
    });
  }
  std::vector<uint64_t> next(kThreads, 0);
  uint64_t total = 0;
  bool sound = true;
  while (total < kThreads * kEach) {
    auto count = (*reader)->Drain(WriterState::kAlive, [&](const Launch& l) {
      sound = sound && l.thread_id < kThreads && l.call_start_ns == next[l.thread_id] &&
              l.context == l.call_start_ns * 3 + l.thread_id;
      if (l.thread_id < kThreads) next[l.thread_id] = l.call_start_ns + 1;
    });
    ASSERT_TRUE(count.ok());
    total += *count;
    if (*count == 0) std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(sound);
  EXPECT_EQ(next, std::vector<uint64_t>(kThreads, kEach));
  EXPECT_EQ((*reader)->totals().launches, kThreads * kEach);
}

TEST_F(LaunchRingReaderTest, RefusesALaneThatDoesNotFit) {
  RingWriter writer(path_);
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  writer.header().lanes[3].tail = uint64_t{kLaneSlots} + 1;
  auto count = (*reader)->Drain(WriterState::kGone, [](const Launch&) {});
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.error().code, ErrorCode::kDamaged);
}

TEST_F(LaunchRingReaderTest, JoinsLaunchesWithTheTimesThatFollow) {
  RingWriter writer(path_);
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  const auto launch = [&](uint64_t stream) {
    writer.Write([&](LaunchRecord& r) { r.stream = stream, r.flags = kFlagTimesFollow; });
  };
  const auto times = [&](uint64_t ticket, uint16_t flags) {
    writer.Write([&](LaunchRecord& r) {
      r.kind = RecordKind::kDeviceTimes;
      r.launch_ticket = ticket;
      r.flags = flags;
      r.device_start_ns = 100 + ticket;
      r.device_end_ns = 200 + ticket;
    });
  };
  for (uint64_t i = 0; i < 4; ++i) launch(i);
  EXPECT_TRUE(DrainAll(**reader, WriterState::kAlive).empty());
  times(2, kFlagDeviceTimed);
  times(0, 0);                 // given up
  times(2, kFlagDeviceTimed);  // nobody waits for it
  auto got = DrainAll(**reader, WriterState::kAlive);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].stream, 2u);
  EXPECT_EQ(got[0].flags, kFlagDeviceTimed);
  EXPECT_EQ(got[0].device_start_ns, 102u);
  EXPECT_EQ(got[0].device_end_ns, 202u);
  EXPECT_EQ(got[1].stream, 0u);
  EXPECT_EQ(got[1].flags, 0u);
  got = DrainAll(**reader, WriterState::kGone);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].stream, 1u);
  EXPECT_EQ(got[1].stream, 3u);
  EXPECT_EQ(got[1].flags, 0u);
}

TEST_F(LaunchRingReaderTest, TheOldestOfTooManyWaitingGoesUntimed) {
  RingWriter writer(path_);
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  constexpr size_t kMore = 3;
  size_t handed_on = 0;
  for (uint64_t i = 0; i < LaunchRingReader::kMostWaiting + kMore; ++i) {
    writer.Write([&](LaunchRecord& r) { r.stream = i, r.flags = kFlagTimesFollow; });
    if (i % 1024 != 0 && i < LaunchRingReader::kMostWaiting) continue;
    for (const Launch& launch : DrainAll(**reader, WriterState::kAlive)) {
      EXPECT_EQ(launch.stream, handed_on++);
      EXPECT_EQ(launch.flags, 0u);
    }
  }
  EXPECT_EQ(handed_on, kMore);
  EXPECT_EQ(DrainAll(**reader, WriterState::kGone).size(), LaunchRingReader::kMostWaiting);
}

TEST_F(LaunchRingReaderTest, FullRingDropsAndCounts) {
  RingWriter writer(path_);
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  for (uint64_t i = 0; i < kSlots + 100; ++i) {
    EXPECT_EQ(writer.Write([&](LaunchRecord& r) { r.stream = i; }), i < kSlots);
  }
  const auto launches = DrainAll(**reader, WriterState::kAlive);
  ASSERT_EQ(launches.size(), kSlots);
  EXPECT_EQ(launches.back().stream, kSlots - 1);
  EXPECT_EQ((*reader)->totals().dropped, 100u);
  EXPECT_EQ((*reader)->totals().launches, kSlots + 100);
  EXPECT_TRUE(writer.Write([](LaunchRecord& r) { r.stream = 77; }));
  const auto more = DrainAll(**reader, WriterState::kAlive);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].stream, 77u);
}

TEST_F(LaunchRingReaderTest, HoleEndsTheDrainWhileTheWriterLives) {
  RingWriter writer(path_);
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  uint64_t hole = 0;
  writer.Write([](LaunchRecord& r) { r.stream = 1; });
  ASSERT_TRUE(writer.Claim(hole));
  writer.Write([](LaunchRecord& r) { r.stream = 3; });
  EXPECT_EQ(DrainAll(**reader, WriterState::kAlive).size(), 1u);
  writer.Complete(hole, [](LaunchRecord& r) { r.stream = 2; });
  const auto rest = DrainAll(**reader, WriterState::kAlive);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].stream, 2u);
  EXPECT_EQ(rest[1].stream, 3u);
}

TEST_F(LaunchRingReaderTest, SkipsTheHoleOfAKilledWriter) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    RingWriter writer(path_);
    uint64_t hole = 0;
    writer.Write([](LaunchRecord& r) { r.stream = 1; });
    (void)writer.Claim(hole);
    writer.Write([](LaunchRecord& r) { r.stream = 3; });
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  const auto launches = DrainAll(**reader, WriterState::kGone);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].stream, 1u);
  EXPECT_EQ(launches[1].stream, 3u);
  EXPECT_EQ((*reader)->holes(), 1u);
}

TEST_F(LaunchRingReaderTest, NotReadyIsNotDamaged) {
  std::ofstream(path_).flush();
  EXPECT_EQ(OpenError(), ErrorCode::kExhausted);
  std::filesystem::resize_file(path_, 4096);
  EXPECT_EQ(OpenError(), ErrorCode::kExhausted);
  std::filesystem::resize_file(path_, RingWriter::kBytes);
  EXPECT_EQ(OpenError(), ErrorCode::kExhausted);
}

TEST_F(LaunchRingReaderTest, RefusesForeignFiles) {
  EXPECT_EQ(OpenError(), ErrorCode::kIo);  // no such file
  std::ofstream(path_) << "#!/bin/sh\necho not launch records\n";
  EXPECT_EQ(OpenError(), ErrorCode::kDamaged);
  std::filesystem::resize_file(path_, RingWriter::kBytes);
  EXPECT_EQ(OpenError(), ErrorCode::kDamaged);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(OpenError(), ErrorCode::kIo);
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(OpenError(), ErrorCode::kDamaged);
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("/etc/passwd", path_);
  EXPECT_EQ(OpenError(), ErrorCode::kIo);
}

TEST_F(LaunchRingReaderTest, RefusesOtherVersionsAndSizes) {
  RingWriter writer(path_);
  writer.header().version = kRecordsVersion + 1;
  EXPECT_EQ(OpenError(), ErrorCode::kUnsupported);
  writer.header().version = kRecordsVersion;
  writer.header().slots = kSlots * 2;
  EXPECT_EQ(OpenError(), ErrorCode::kDamaged);
}

TEST_F(LaunchRingReaderTest, CutShortBeforeAndAfterOpening) {
  RingWriter writer(path_);
  writer.Write([](LaunchRecord&) {});
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  std::filesystem::resize_file(path_, 8192);
  auto count = (*reader)->Drain(WriterState::kGone, [](const Launch&) {});
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.error().code, ErrorCode::kDamaged);
  EXPECT_EQ((*reader)->totals().launches, 0u);
  EXPECT_EQ(OpenError(), ErrorCode::kDamaged);
}

TEST_F(LaunchRingReaderTest, RefusesTicketsThatDoNotFit) {
  RingWriter writer(path_);
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  writer.header().tail = uint64_t{kSlots} * 5;
  auto count = (*reader)->Drain(WriterState::kGone, [](const Launch&) {});
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.error().code, ErrorCode::kDamaged);
}

TEST_F(LaunchRingReaderTest, NamesOutsideTheirPlaceAreUnknown) {
  RingWriter writer(path_);
  auto reader = LaunchRingReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  std::memset(writer.names() + kNameBytes - 4, 'x', 4);  // no NUL before the end
  for (const uint32_t offset : {0u, static_cast<uint32_t>(kNameBytes), 0xFFFFFFFFu,
                                static_cast<uint32_t>(kNameBytes - 4)}) {
    writer.Write([&](LaunchRecord& r) { r.name_offset = offset; });
  }
  const auto launches = DrainAll(**reader, WriterState::kAlive);
  ASSERT_EQ(launches.size(), 4u);
  EXPECT_EQ(launches[0].name, "");
  EXPECT_EQ(launches[1].name, "");
  EXPECT_EQ(launches[2].name, "");
  EXPECT_EQ(launches[3].name, "xxxx");
}

}  // namespace
}  // namespace cupola
