// How graphs are cut into pieces (intercept/graphs/piece_cut.h).
#include "intercept/graphs/piece_cut.h"
#include "intercept/graphs/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cupola::intercept::graphs {
namespace {

// Whether the pieces hold all nodes once, in order, and say what they take.
void CheckWhole(const std::vector<PieceRange>& pieces, const std::vector<uint64_t>& node_ns) {
  uint32_t next = 0;
  for (const PieceRange& piece : pieces) {
    ASSERT_EQ(piece.first, next);
    ASSERT_GT(piece.count, 0u);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < piece.count; ++i) sum += node_ns[piece.first + i];
    EXPECT_EQ(piece.ns, sum);
    next += piece.count;
  }
  EXPECT_EQ(next, node_ns.size());
}

TEST(CutIntoPieces, HoldsTheLimits) {
  std::mt19937_64 prng(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> node_ns(prng() % 100);
    for (uint64_t& ns : node_ns) ns = prng() % 1000;
    const PieceLimits limits{.ns = 1 + prng() % 2000, .nodes = static_cast<uint32_t>(1 + prng() % 20)};
    const std::vector<PieceRange> pieces = CutIntoPieces(node_ns, std::vector<bool>(node_ns.size()), limits);
    CheckWhole(pieces, node_ns);
    for (const PieceRange& piece : pieces) {
      EXPECT_LE(piece.count, limits.nodes);
      if (piece.count > 1) {
        EXPECT_LE(piece.ns, limits.ns);
      }
    }
    // No two neighbours would fit into one piece.
    for (size_t i = 1; i < pieces.size(); ++i) {
      const bool fits = pieces[i - 1].ns + node_ns[pieces[i].first] <= limits.ns && pieces[i - 1].count < limits.nodes;
      EXPECT_FALSE(fits);
    }
  }
}

TEST(CutIntoPieces, ALongNodeIsAPieceByItself) {
  const std::vector<PieceRange> pieces = CutIntoPieces({10, 900, 10, 10}, std::vector<bool>(4), {.ns = 100, .nodes = 8});
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[1].first, 1u);
  EXPECT_EQ(pieces[1].count, 1u);
}

TEST(CutIntoPieces, IsNotCutBeforeATiedNode) {
  const std::vector<uint64_t> node_ns(12, 60);
  std::vector<bool> is_tied(12);
  for (uint32_t at : {1u, 2u, 3u, 7u, 11u}) is_tied[at] = true;
  const std::vector<PieceRange> pieces = CutIntoPieces(node_ns, is_tied, {.ns = 120, .nodes = 2});
  CheckWhole(pieces, node_ns);
  for (const PieceRange& piece : pieces) EXPECT_FALSE(is_tied[piece.first]);
  EXPECT_EQ(pieces[0].count, 4u);
}

TEST(OrderNodes, IsBehindWhatItDependsOn) {
  std::mt19937 prng(2);
  for (int round = 0; round < 100; ++round) {
    const uint32_t count = 1 + prng() % 60;
    std::vector<uint32_t> rank(count);
    for (uint32_t i = 0; i < count; ++i) rank[i] = i;
    std::shuffle(rank.begin(), rank.end(), prng);
    std::vector<std::pair<uint32_t, uint32_t>> edges;
    for (uint32_t e = prng() % (2 * count); e > 0; --e) {
      const uint32_t a = prng() % count, b = prng() % count;
      if (rank[a] < rank[b]) edges.emplace_back(a, b);
    }
    const std::vector<uint32_t> order = OrderNodes(count, edges);
    ASSERT_EQ(order.size(), count);
    std::vector<uint32_t> place(count, count);
    for (uint32_t i = 0; i < count; ++i) place[order[i]] = i;
    EXPECT_EQ(std::count(place.begin(), place.end(), count), 0);
    for (const auto& [a, b] : edges) EXPECT_LT(place[a], place[b]);
  }
}

TEST(OrderNodes, KeepsTheOrderOfTheProgramWhereTheEdgesAllow) {
  EXPECT_EQ(OrderNodes(4, {{3, 1}}), (std::vector<uint32_t>{0, 2, 3, 1}));
}

TEST(OrderNodes, RefusesACycle) { EXPECT_TRUE(OrderNodes(3, {{0, 1}, {1, 2}, {2, 1}}).empty()); }

// However long the nodes are, a few trials find pieces that are not too long.
TEST(LearnFromPieces, FindsLongNodes) {
  std::vector<uint64_t> truth(200, 20'000), known(200, 0);
  for (uint32_t at : {7u, 50u, 51u, 120u, 199u}) truth[at] = 900'000;
  std::vector<PieceRange> pieces = CutIntoPieces(known, std::vector<bool>(200), {.ns = 500'000, .nodes = 4});
  for (int trial = 0; trial < 3; ++trial) {
    std::vector<uint64_t> took;
    for (const PieceRange& piece : pieces) {
      uint64_t ns = 0;
      for (uint32_t i = 0; i < piece.count; ++i) ns += truth[piece.first + i];
      took.push_back(ns);
    }
    LearnFromPieces(pieces, took, &known);
    pieces = CutIntoPieces(known, std::vector<bool>(200), {.ns = 500'000, .nodes = 64});
  }
  for (const PieceRange& piece : pieces) {
    uint64_t ns = 0;
    for (uint32_t i = 0; i < piece.count; ++i) ns += truth[piece.first + i];
    if (piece.count > 1) {
      EXPECT_LE(ns, 625'000u);
    }
  }
  EXPECT_LE(pieces.size(), 40u);
}

TEST(LearnFromPieces, SpreadsATimeAsWasExpected) {
  std::vector<uint64_t> known{100, 300, 0, 0};
  LearnFromPieces({{.first = 0, .count = 2, .ns = 400}, {.first = 2, .count = 2, .ns = 0}}, {800, 50}, &known);
  EXPECT_EQ(known, (std::vector<uint64_t>{200, 600, 25, 25}));
}

// Somebody who asks at any moment of 1,000 ns, 900 of which are one piece: 450 ns of it are left then, or 50 of another.
TEST(MeanRest, LongPiecesAreMoreOfTheTime) {
  EXPECT_EQ(MeanRestNs({{.count = 1, .ns = 900}, {.first = 1, .count = 1, .ns = 100}}), 410u);
  EXPECT_EQ(MeanRestNs({{.count = 1, .ns = 300}, {.first = 1, .count = 2, .ns = 300}}), 150u);
  EXPECT_EQ(MeanRestNs({{.count = 7}}), 0u);
}

// A launch in pieces must fit into an empty queue, or it would never go out; in a trial each piece has two events as well, and
// the driver took 1,020 calls (pieces.h).
TEST(MostPieces, FitIntoTheDriversQueue) {
  for (uint32_t nodes = 1; nodes <= kMostNodesUnfed; ++nodes) {
    const uint32_t pieces = MostPieces(nodes, /*is_trial=*/false, /*is_fed=*/false);
    const uint32_t in_trial = MostPieces(nodes, /*is_trial=*/true, /*is_fed=*/false);
    ASSERT_LE(nodes + kEntriesOfPiece * pieces, kMostQueuedEntries) << nodes;
    ASSERT_LE(pieces, kMostQueuedPieces);
    ASSERT_LE(4 * in_trial + in_trial / 8 + 1, 1020u);
    ASSERT_GE(in_trial, 200u) << nodes;
  }
}

}  // namespace
}  // namespace cupola::intercept::graphs
