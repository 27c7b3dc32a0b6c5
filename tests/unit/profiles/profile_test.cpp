#include "profiles/profile.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "profiles/profile_file.h"
#include "tests/paths.h"

namespace cupola::profiles {
namespace {

namespace fs = std::filesystem;

Profile RandomProfile(uint64_t seed) {
  Prng random(seed);
  Profile profile;
  profile.gpu = {random.Below(5), "NVIDIA H200", "13.0", 90, 132, 2048, 32, 65536, 233472};
  for (int k = 0; k < 3; ++k) {
    KernelProfile& kernel = profile.kernels[{"kernel" + std::to_string(random.Below(4)),
                                             random.Below(2) == 0 ? "" : "image"}];
    kernel.registers = static_cast<uint32_t>(16 + 8 * random.Below(2));
    kernel.parameters = {{0, 8, random.Below(2) == 0}, {8, random.Below(4) == 0 ? 8u : 4u, false}};
    for (int i = 0; i < 300; ++i) {
      LaunchSample sample;
      sample.when = random.Below(1000);
      sample.ns = 1 + random.Below(5);
      sample.grid[0] = static_cast<uint32_t>(1 + random.Below(3));
      if (random.Below(3) != 0) sample.input_bytes = random.Below(2);
      sample.arguments = {std::nullopt, random.Below(2)};
      kernel.launches.push_back(sample);
    }
    for (int i = 0; i < 400; ++i) {
      kernel.preemptions.push_back({random.Below(1000), static_cast<int64_t>(random.Below(9)) - 4,
                                    static_cast<uint32_t>(1 + random.Below(3))});
    }
    if (random.Below(2) == 0) {
      kernel.tuned =
          TunedBatch{random.Below(9), 4, 0.25, 0.5, true, 10'000, {{1, 0.75}, {4, 0.25}}};
      if (random.Below(2) == 0) {
        kernel.tuned->batch |= kClaimsInGridOrder;
        kernel.tuned->tried[4 | kClaimsInGridOrder] = 0.125;
      } else if (random.Below(2) == 0) {
        kernel.tuned->batch |= kOneWorkerLess;
        kernel.tuned->tried[4 | kOneWorkerLess] = 0.125;
        kernel.tuned->tried[4 | WorkerEighths(5)] = 0.25;
      }
    }
  }
  return profile;
}

Profile Merged(const Profile& a, const Profile& b) {
  Profile both = a;
  EXPECT_TRUE(Merge(b, &both).ok());
  return both;
}

TEST(Profile, MergingIsAssociativeCommutativeAndIdempotent) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Profile a = RandomProfile(3 * seed), b = RandomProfile(3 * seed + 1),
                  c = RandomProfile(3 * seed + 2);
    EXPECT_EQ(Merged(Merged(a, b), c), Merged(a, Merged(b, c))) << "seed " << seed;
    EXPECT_EQ(Merged(a, b), Merged(b, a)) << "seed " << seed;
    const Profile once = Merged(a, a);
    EXPECT_EQ(Merged(once, a), once) << "seed " << seed;
    for (const auto& [key, kernel] : Merged(a, b).kernels) {
      EXPECT_LE(kernel.preemptions.size(), kPreemptionsOfKernel);
    }
  }
}

TEST(Profile, KeepsTheLatestOfAConfigurationAndABoundedNumberOfThem) {
  Profile profile;
  auto& kernel = profile.kernels[{"k", ""}];
  for (uint64_t i = 0; i < 500; ++i) {
    LaunchSample sample;
    sample.when = 499 - i;
    sample.ns = 1;
    kernel.launches.push_back(sample);
  }
  Normalize(&profile);
  ASSERT_EQ(kernel.launches.size(), kSamplesOfConfiguration);
  EXPECT_EQ(kernel.launches.front().when, 500 - kSamplesOfConfiguration);
  for (uint32_t i = 0; i < 3000; ++i) {
    LaunchSample sample;
    sample.grid[0] = i + 2;
    kernel.launches.push_back(sample);
  }
  Normalize(&profile);
  EXPECT_LE(kernel.launches.size(), kConfigurationsOfKernel + kSamplesOfConfiguration);
  EXPECT_GE(kernel.launches.size(), kConfigurationsOfKernel);
}

TEST(Profile, OfDifferentGpusStayApart) {
  Profile a = RandomProfile(1), b = RandomProfile(2);
  b.gpu.name = "NVIDIA A100";
  const Profile before = a;
  const Status merged = Merge(b, &a);
  ASSERT_FALSE(merged.ok());
  EXPECT_EQ(merged.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(a, before);
}

TEST(ProfileFile, JsonAndBackIsTheSame) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Profile profile = RandomProfile(seed);
    Normalize(&profile);
    const std::string text = ToJson(profile);
    const auto back = FromJson(text, "f");
    ASSERT_TRUE(back.ok()) << back.error().ToString();
    EXPECT_EQ(*back, profile) << "seed " << seed;
    EXPECT_EQ(ToJson(*back), text);
  }
}

/// "version1.json", ...
std::string Golden(const std::string& name) {
  std::ifstream file(std::string(CUPOLA_SOURCE_DIR) + "/tests/golden/profiles/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ProfileFile, ClaimsAreOrderedByHowSoonTheyStop) {
  TunedBatch tuned;
  for (const uint32_t word : {16u, 4u | kClaimsInGridOrder, 1u, 1u | kOneWorkerLess, 4u,
                              1u | WorkerEighths(6), 4u | WorkerEighths(4), 1u | WorkerEighths(4)}) {
    tuned.tried[word] = 1;
  }
  std::vector<uint32_t> words;
  for (const auto& [word, overhead] : tuned.tried) words.push_back(word);
  EXPECT_EQ(words, (std::vector<uint32_t>{1 | WorkerEighths(4), 1 | WorkerEighths(6), 1,
                                          1 | kOneWorkerLess, 4 | WorkerEighths(4), 4,
                                          4 | kClaimsInGridOrder, 16}));
}

TEST(ClaimWord, SomeOfTheWorkers) {
  EXPECT_EQ(WorkersOnSm(1, 8), 8u);
  EXPECT_EQ(WorkersOnSm(1 | WorkerEighths(8), 8), 8u);
  EXPECT_EQ(WorkersOnSm(1 | WorkerEighths(5) | kClaimsInGridOrder, 8), 5u);
  EXPECT_EQ(WorkersOnSm(1 | WorkerEighths(4), 3), 1u);
  EXPECT_EQ(WorkersOnSm(1 | WorkerEighths(4), 1), 1u);
  EXPECT_EQ(ClaimBatch(65536 | WorkerEighths(7) | kOneWorkerLess), 65536u);
}

/// What the examples of all versions have in common.
void ExpectTheExample(const Result<Profile>& profile) {
  ASSERT_TRUE(profile.ok()) << profile.error().ToString();
  ASSERT_EQ(profile->kernels.size(), 2u);
  const KernelProfile& kernel = profile->kernels.at({"_Z10vector_addPKfS0_Pfi", ""});
  EXPECT_EQ(profile->gpu.sms, 132u);
  EXPECT_EQ(kernel.registers, 16u);
  ASSERT_EQ(kernel.parameters.size(), 4u);
  EXPECT_TRUE(kernel.parameters[0].pointer);
  EXPECT_FALSE(kernel.parameters[3].pointer);
  ASSERT_EQ(kernel.launches.size(), 2u);
  EXPECT_EQ(kernel.launches[0].ns, 12345u);
  EXPECT_EQ(kernel.launches[0].grid[0], 391u);
  EXPECT_EQ(kernel.launches[0].input_bytes, 1200000u);
  EXPECT_FALSE(kernel.launches[0].arguments[2].has_value());
  EXPECT_EQ(kernel.launches[0].arguments[3], 100000u);
  EXPECT_FALSE(kernel.launches[1].input_bytes.has_value());
  EXPECT_EQ(kernel.launches[1].dynamic_shared, 4096u);
  ASSERT_TRUE(kernel.tuned.has_value());
  EXPECT_EQ(kernel.tuned->batch, 4u);
  EXPECT_EQ(kernel.tuned->tried.at(1), 1.5);
}

// Files of this version are out there: it must be read for ever. What a preemption cost was
// measured otherwise: nothing is known of that.
TEST(ProfileFile, TheFormatOfVersionOne) {
  const auto profile = FromJson(Golden("version1.json"), "version1.json");
  ExpectTheExample(profile);
  for (const auto& [key, kernel] : profile->kernels) EXPECT_TRUE(kernel.preemptions.empty());
}

// This one must be read for ever, and written as it is.
TEST(ProfileFile, TheFormatOfVersionTwo) {
  const std::string golden = Golden("version2.json");
  const auto profile = FromJson(golden, "version2.json");
  ExpectTheExample(profile);
  const KernelProfile& kernel = profile->kernels.at({"_Z10vector_addPKfS0_Pfi", ""});
  EXPECT_EQ(kernel.preemptions, (std::vector<PreemptionSample>{{1795250000000000003, 31000, 1},
                                                               {1795250000000000005, -420, 3}}));
  EXPECT_EQ(ToJson(*profile), golden);
}

TEST(ProfileFile, DamageIsNamed) {
  const std::string golden = Golden("version2.json");
  const auto error_of = [&](const std::string& from, const std::string& to) {
    std::string text = golden;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto profile = FromJson(text, "some.json");
    EXPECT_FALSE(profile.ok()) << from;
    return profile.ok() ? Error{} : profile.error();
  };
  for (const char* version : {"0", "3"}) {
    EXPECT_EQ(error_of("\"cupola_profile\": 2", std::string("\"cupola_profile\": ") + version).code,
              ErrorCode::kUnsupported);
  }
  EXPECT_EQ(error_of("\"ns\":-420", "\"ns\":4e2").ToString(),
            "some.json: kernels[0].preemptions[1].ns: expected a whole number, perhaps below 0");
  EXPECT_EQ(error_of("\"ns\":-420", "\"ns\":18446744073709551615").code, ErrorCode::kDamaged);
  EXPECT_EQ(error_of("\"count\":3", "\"count\":0").ToString(),
            "some.json: kernels[0].preemptions[1].count: expected at least 1");
  const Error ns = error_of("\"ns\":12345", "\"ns\":-3");
  EXPECT_EQ(ns.code, ErrorCode::kDamaged);
  EXPECT_EQ(ns.ToString(), "some.json: kernels[0].launches[0].ns: expected a whole number");
  EXPECT_EQ(error_of("\"ns\":12345,", "").ToString(),
            "some.json: kernels[0].launches[0]: lacks \"ns\"");
  EXPECT_EQ(error_of("[391,1,1]", "[391,1]").ToString(),
            "some.json: kernels[0].launches[0].grid: expected three whole numbers");
  EXPECT_EQ(error_of("\"sms\":132", "\"sms\":\"many\"").ToString(),
            "some.json: gpu.sms: expected a whole number");
  EXPECT_EQ(error_of("\"registers\": 16", "\"registers\": 5000000000").code, ErrorCode::kDamaged);
  EXPECT_EQ(error_of("4,\"batch\":4", "4,\"batch\":0").ToString(),
            "some.json: kernels[0].tuned.batch: expected at least 1 and less than 2^27");
  EXPECT_EQ(error_of("4,\"batch\":4", "4,\"worker_eighths\":9,\"batch\":4").ToString(),
            "some.json: kernels[0].tuned.worker_eighths: expected 1 to 8");
  EXPECT_EQ(error_of("4,\"batch\":4", "4,\"in_grid_order\":1,\"batch\":4").ToString(),
            "some.json: kernels[0].tuned.in_grid_order: expected true or false");
  EXPECT_EQ(error_of("4,\"batch\":4", "4,\"one_worker_less\":1,\"batch\":4").ToString(),
            "some.json: kernels[0].tuned.one_worker_less: expected true or false");
  EXPECT_EQ(FromJson("", "f").error().code, ErrorCode::kDamaged);
  EXPECT_EQ(FromJson("[]", "f").error().code, ErrorCode::kDamaged);
  EXPECT_EQ(FromJson("{\"a\":1}", "f").error().code, ErrorCode::kDamaged);
  for (size_t cut = 1; cut + 2 < golden.size(); cut += 13) {
    EXPECT_FALSE(FromJson(golden.substr(0, golden.size() - 1 - cut), "f").ok()) << cut;
  }
}

TEST(ProfileFile, NoDamageCrashes) {
  const std::string golden = Golden("version2.json");
  Prng random(99);
  for (int i = 0; i < 3000; ++i) {
    std::string text = golden;
    for (int j = 0; j < 3; ++j) {
      text[random.Below(text.size())] = static_cast<char>(random.Below(256));
    }
    const auto profile = FromJson(text, "f");
    if (profile) ToJson(*profile);
  }
}

class ProfileFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/profiles-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder_;
};

TEST_F(ProfileFolder, MergesIntoAFileThatNeedNotBeThere) {
  const std::string path = folder_ + "/new/h200.json";
  const Profile a = RandomProfile(1), b = RandomProfile(2);
  ASSERT_TRUE(MergeIntoFile(a, path).ok());
  const auto both = MergeIntoFile(b, path);
  ASSERT_TRUE(both.ok()) << both.error().ToString();
  EXPECT_EQ(*both, Merged(Merged(Profile{}, a), b));
  const auto read = ReadProfile(path);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, *both);
  for (const auto& entry : fs::directory_iterator(folder_ + "/new")) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name == "h200.json" || name == "h200.json.lock") << name;
  }
}

TEST_F(ProfileFolder, ADamagedFileIsLeftAlone) {
  const std::string path = folder_ + "/h200.json";
  std::ofstream(path) << "{\"cupola_profile\": 1, ";
  const auto merged = MergeIntoFile(RandomProfile(1), path);
  ASSERT_FALSE(merged.ok());
  EXPECT_EQ(merged.error().code, ErrorCode::kDamaged);
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, "{\"cupola_profile\": 1, ");
  EXPECT_EQ(ReadProfile(folder_ + "/none.json").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadProfile(folder_).error().code, ErrorCode::kIo);
}

TEST_F(ProfileFolder, TwoAtOnceLoseNothing) {
  const std::string path = folder_ + "/h200.json";
  const auto add = [&](uint64_t first) {
    for (uint64_t i = 0; i < 20; ++i) {
      Profile profile;
      LaunchSample sample;
      sample.when = first + i;
      profile.kernels[{"k", ""}].launches.push_back(sample);
      EXPECT_TRUE(MergeIntoFile(profile, path).ok());
    }
  };
  std::thread other(add, 100);
  add(200);
  other.join();
  EXPECT_EQ(ReadProfile(path)->kernels.at({"k", ""}).launches.size(), 40u);
}

}  // namespace
}  // namespace cupola::profiles
