#include "models/train/select.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace cupola::models {
namespace {

constexpr Machine kH200{132, 2048, 32, 65536, 228 * 1024, 0};
constexpr uint64_t kSelectSeed = 7;

using Law = std::function<double(const LaunchFeatures&)>;

/// Launches of random size, with one integer from which the grid follows, as programs have it.
std::vector<TrainingSample> Samples(size_t n, const Law& law, double noise, uint64_t seed) {
  Prng random(seed);
  std::vector<TrainingSample> samples;
  for (size_t i = 0; i < n; ++i) {
    TrainingSample sample;
    const double size = std::exp(random.Uniform(std::log(1e4), std::log(2e8)));
    sample.launch.block[0] = 256;
    sample.launch.integers[0] = static_cast<int64_t>(size);
    sample.launch.integers[1] = static_cast<int64_t>(1 + random.Below(64));
    sample.launch.grid[0] = static_cast<uint32_t>(size / 256) + 1;
    sample.launch.has_input_bytes = true;
    sample.launch.input_bytes = 12 * static_cast<uint64_t>(size);
    sample.ns = {law(sample.launch) * (1 + noise * random.Uniform(-1, 1))};
    samples.push_back(sample);
  }
  return samples;
}

TrainedModel TrainOn(const std::vector<TrainingSample>& samples) {
  return Train(samples, {kH200, {32, 0}, false}, {});
}

TEST(Select, ALineNeedsNoTerms) {
  const auto samples = Samples(
      100, [](const auto& l) { return 3000 + 0.0025 * static_cast<double>(l.integers[0]); }, 0.01,
      kSelectSeed);
  const TrainedModel trained = TrainOn(samples);
  EXPECT_LT(trained.mean_error, 0.01);
  EXPECT_NEAR(trained.model.intercept_ns, 3000, 100);
}

TEST(Select, AConstantStaysOne) {
  const TrainedModel trained =
      TrainOn(Samples(60, [](const auto&) { return 5000.0; }, 0.02, kSelectSeed));
  EXPECT_EQ(trained.form, "constant");
  EXPECT_NEAR(trained.model.intercept_ns, 5000, 50);
  EXPECT_LT(trained.mean_error, 0.02);
}

TEST(Select, FindsAProduct) {
  // So many iterations for each block: neither variable alone says it.
  const auto samples = Samples(
      100,
      [](const auto& l) { return 2500 + 0.004 * l.grid[0] * static_cast<double>(l.integers[1]); },
      0.01, kSelectSeed);
  const TrainedModel trained = TrainOn(samples);
  EXPECT_EQ(trained.form, "terms");
  EXPECT_LT(trained.mean_error, 0.015) << trained.terms.size();
}

TEST(Select, FindsWaves) {
  const auto samples = Samples(
      120,
      [](const auto& l) { return 4000 + 20'000 * std::ceil(l.grid[0] / (132.0 * 8)); },
      0.005, kSelectSeed);
  EXPECT_LT(TrainOn(samples).mean_error, 0.01);
}

TEST(Select, FindsABend) {
  // 3 TB/s while it fits into 50 MB of cache, 12 bytes an element, then slower.
  const auto samples = Samples(
      150,
      [](const auto& l) {
        const double bytes = 12.0 * static_cast<double>(l.integers[0]);
        return 3000 + bytes / 8000 + std::max(0.0, bytes - 50e6) / 4000;
      },
      0.01, kSelectSeed);
  EXPECT_LT(TrainOn(samples).mean_error, 0.03);
}

TEST(Select, NoiseIsNotExplained) {
  Prng random(kSelectSeed);
  auto samples = Samples(80, [](const auto&) { return 1.0; }, 0, kSelectSeed);
  for (auto& sample : samples) sample.ns = {1e5 * random.Uniform(0.5, 1.5)};
  const TrainedModel trained = TrainOn(samples);
  EXPECT_EQ(trained.form, "constant") << trained.lambda << " " << trained.mean_error;
  // Held out, so it tells the truth about what is left: uniform noise of a half.
  EXPECT_GT(trained.mean_error, 0.2);
  EXPECT_GT(trained.model.spread, 0.2);
}

TEST(Select, AnOutlierDoesNotSpoilTheRest) {
  auto samples = Samples(
      100, [](const auto& l) { return 3000 + 0.0025 * static_cast<double>(l.integers[0]); }, 0.01,
      kSelectSeed);
  for (size_t i = 0; i < samples.size(); i += 25) samples[i].ns[0] *= 8;
  const TrainedModel trained = TrainOn(samples);
  size_t close = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double truth = 3000 + 0.0025 * static_cast<double>(samples[i].launch.integers[0]);
    if (std::fabs(trained.held_out[i] - truth) < 0.1 * truth) ++close;
  }
  EXPECT_GE(close, 80u);
}

TEST(Select, FewSamplesAreNotStretched) {
  for (size_t n : {1u, 2u, 3u, 5u}) {
    const auto samples = Samples(
        n, [](const auto& l) { return 3000 + 0.0025 * static_cast<double>(l.integers[0]); }, 0,
        kSelectSeed);
    const TrainedModel trained = TrainOn(samples);
    EXPECT_LE(trained.terms.size(), n / 2) << n;
    EXPECT_GT(trained.model.floor_ns, 0);
    EXPECT_TRUE(std::isfinite(trained.model.intercept_ns));
  }
}

TEST(Select, TheSameSamplesGiveTheSameModel) {
  const auto samples = Samples(
      50, [](const auto& l) { return 3000 + 0.0025 * static_cast<double>(l.integers[0]); }, 0.05,
      kSelectSeed);
  const TrainedModel one = TrainOn(samples);
  const TrainedModel two = TrainOn(samples);
  ASSERT_EQ(one.terms.size(), two.terms.size());
  EXPECT_EQ(one.model.intercept_ns, two.model.intercept_ns);
  EXPECT_EQ(one.held_out, two.held_out);
}

}  // namespace
}  // namespace cupola::models
