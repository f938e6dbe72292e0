#include "planner/cost/link_shares.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "graph/base/random.h"

namespace xrun::planner {
namespace {

using Transfers = std::map<size_t, std::vector<LinkUse>>;

// Returns the shares by their definition, found with small steps: all shares grow together, and a transfer stops when
// one of its links is full.
std::map<size_t, double> shares_in_steps(const Transfers& transfers, size_t links, double step) {
  std::map<size_t, double> shares;
  std::map<size_t, bool> stopped;
  for (double level = step; level <= 1 + step / 2; level += step) {
    for (const auto& [number, uses] : transfers) {
      shares[number] = stopped[number] ? shares[number] : level;
    }
    std::vector<double> used(links, 0);
    for (const auto& [number, uses] : transfers) {
      for (const LinkUse& use : uses) {
        used[use.link] += use.part * shares[number];
      }
    }
    for (const auto& [number, uses] : transfers) {
      for (const LinkUse& use : uses) {
        stopped[number] = stopped[number] || used[use.link] >= 1;
      }
    }
  }
  return shares;
}

TEST(LinkShares, ATransferAloneHasAllOfItsLinks) {
  LinkShares shares(2);
  const std::vector<LinkUse> uses{{0, 1}, {1, 0.5}};
  shares.add(3, uses);
  const auto changed = shares.update();
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].transfer, 3U);
  EXPECT_EQ(changed[0].share, 1);
  EXPECT_TRUE(shares.update().empty());
}

TEST(LinkShares, SmallestShareOfATransferCountsAndOthersGetTheRest) {
  // Link 1 has three transfers, one of which also crosses link 0 together with another one.
  LinkShares shares(3);
  const std::vector<std::vector<LinkUse>> uses{{{0, 1}}, {{0, 1}, {1, 1}}, {{1, 1}}, {{1, 1}, {2, 1}}};
  std::map<size_t, double> known;
  const auto update = [&] {
    for (const auto& changed : shares.update()) {
      known[changed.transfer] = changed.share;
    }
  };
  for (size_t t = 0; t < uses.size(); ++t) {
    shares.add(t, uses[t]);
  }
  update();
  EXPECT_DOUBLE_EQ(known[0], 2.0 / 3);
  EXPECT_DOUBLE_EQ(known[1], 1.0 / 3);
  EXPECT_DOUBLE_EQ(known[2], 1.0 / 3);
  EXPECT_DOUBLE_EQ(known[3], 1.0 / 3);
  shares.remove(2);
  update();
  EXPECT_DOUBLE_EQ(known[0], 0.5);
  EXPECT_DOUBLE_EQ(known[1], 0.5);
  EXPECT_DOUBLE_EQ(known[3], 0.5);
  shares.remove(1);
  update();
  EXPECT_DOUBLE_EQ(known[0], 1);
  EXPECT_DOUBLE_EQ(known[3], 1);
}

TEST(LinkShares, ALinkThatATransferUsesLittleLeavesTheRestToOthers) {
  LinkShares shares(2);
  const std::vector<LinkUse> wide{{0, 1}, {1, 0.25}};
  const std::vector<LinkUse> narrow{{1, 1}};
  shares.add(0, wide);
  shares.add(1, narrow);
  std::map<size_t, double> known;
  for (const auto& changed : shares.update()) {
    known[changed.transfer] = changed.share;
  }
  // Both grow to 0.8, where link 1 is full: 0.25 · 0.8 + 0.8.
  EXPECT_DOUBLE_EQ(known[0], 0.8);
  EXPECT_DOUBLE_EQ(known[1], 0.8);
}

TEST(LinkShares, AreThoseOfTheDefinitionAfterAnyChanges) {
  constexpr double kStep = 1e-4;
  constexpr size_t kLinks = 7;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const RandomStream stream(seed, 60);
    uint64_t at = 0;
    LinkShares shares(kLinks);
    Transfers transfers;
    std::map<size_t, double> known;
    for (int change = 0; change < 12; ++change) {
      const size_t number = stream.below(at++, 8);
      if (transfers.contains(number)) {
        shares.remove(number);
        transfers.erase(number);
        known.erase(number);
      } else {
        std::vector<LinkUse>& uses = transfers[number];
        const size_t busiest = stream.below(at++, kLinks);
        for (size_t link = 0; link < kLinks; ++link) {
          if (link == busiest || stream.uniform(at++) < 0.3F) {
            uses.push_back({link, link == busiest ? 1.0 : 0.1 + 0.9 * static_cast<double>(stream.uniform(at++))});
          }
        }
        shares.add(number, uses);
      }
      for (const auto& changed : shares.update()) {
        known[changed.transfer] = changed.share;
      }
      const auto wanted = shares_in_steps(transfers, kLinks, kStep);
      ASSERT_EQ(known.size(), wanted.size()) << "seed " << seed;
      for (const auto& [transfer, share] : wanted) {
        // A transfer of the reference stops up to a step late, which takes up to as much from each of the others.
        ASSERT_NEAR(known.at(transfer), share, 20 * kStep) << "seed " << seed << ", change " << change;
      }
    }
  }
}

}  // namespace
}  // namespace xrun::planner
