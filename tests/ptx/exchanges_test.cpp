// Exchanges between lanes: shfl, vote, match and redux against loops over lanes.
#include <algorithm>
#include <functional>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

using Lanes = std::array<uint32_t, 32>;

constexpr const char* kLoad =
    "mov.u32 %r0, %tid.x;\nmul.wide.u32 %d0, %r0, 4;\nld.param.u64 %d1, [p0];\nadd.s64 %d2, %d1, %d0;\n"
    "ld.global.u32 %r1, [%d2];\n";
constexpr const char* kStore = "ld.param.u64 %d1, [p1];\nadd.s64 %d2, %d1, %d0;\nst.global.u32 [%d2], %r9;\n";

// Executes lines that compute %r9 from the operand %r1 of each lane, in one warp; a fault leaves its kind.
Execution run(const std::string& lines, const Lanes& operands, Lanes& results) {
  const auto module = module_of(kernel_text(kLoad + lines + kStore));
  if (module == nullptr) {
    return {};
  }
  Memory memory;
  const uint64_t in = add(memory, "in", std::vector<uint32_t>(operands.begin(), operands.end()));
  const uint64_t out = add(memory, "out", std::vector<uint32_t>(32));
  Execution done = execute(*module, "test", {.threads = {32, 1, 1}, .arguments = {in, out, 0, 0}}, memory, {});
  std::ranges::copy(values_of<uint32_t>(memory, out, 32), results.begin());
  return done;
}

void check(const std::string& lines, const std::function<uint32_t(const Lanes&, uint32_t)>& meaning,
           uint32_t range = UINT32_MAX) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 40; ++i) {
    Lanes operands;
    std::ranges::generate(operands, [&] { return static_cast<uint32_t>(random() % range); });
    Lanes results{};
    const Execution done = run(lines, operands, results);
    ASSERT_FALSE(done.fault) << lines << done.fault->print();
    for (uint32_t lane = 0; lane < 32; ++lane) {
      ASSERT_EQ(results[lane], meaning(operands, lane)) << lines << "lane " << lane << ", seed " << kSeed;
    }
  }
}

TEST(Exchanges, Shuffles) {
  check("shfl.sync.down.b32 %r9, %r1, 3, 31, -1;\n",
        [](const Lanes& v, uint32_t lane) { return v[lane + 3 < 32 ? lane + 3 : lane]; });
  check("shfl.sync.up.b32 %r9, %r1, 5, 0, -1;\n",
        [](const Lanes& v, uint32_t lane) { return v[lane >= 5 ? lane - 5 : lane]; });
  check("shfl.sync.bfly.b32 %r9, %r1, 16, 31, -1;\n", [](const Lanes& v, uint32_t lane) { return v[lane ^ 16]; });
  check("shfl.sync.idx.b32 %r9, %r1, 7, 31, -1;\n", [](const Lanes& v, uint32_t /*lane*/) { return v[7]; });
  // Groups of eight lanes: the bounds are ((32 - 8) << 8) + 7.
  check("shfl.sync.idx.b32 %r9, %r1, 2, 6151, -1;\n",
        [](const Lanes& v, uint32_t lane) { return v[lane / 8 * 8 + 2]; });
  check("shfl.sync.down.b32 %r9, %r1, 4, 6151, -1;\n",
        [](const Lanes& v, uint32_t lane) { return v[lane % 8 < 4 ? lane + 4 : lane]; });
  check("shfl.sync.up.b32 %r8|%p1, %r1, 1, 0, -1;\nselp.b32 %r9, 1, 0, %p1;\n",
        [](const Lanes& /*v*/, uint32_t lane) { return lane >= 1 ? 1U : 0U; });
}

TEST(Exchanges, VotesAndMatches) {
  const std::string odd = "and.b32 %r2, %r1, 1;\nsetp.ne.s32 %p1, %r2, 0;\n";
  const auto ballot = [](const Lanes& v) {
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < 32; ++i) {
      lanes |= (v[i] & 1) << i;
    }
    return lanes;
  };
  check(odd + "vote.sync.ballot.b32 %r9, %p1, -1;\n", [&](const Lanes& v, uint32_t /*lane*/) { return ballot(v); });
  check(odd + "vote.sync.ballot.b32 %r9, !%p1, -1;\n", [&](const Lanes& v, uint32_t /*lane*/) { return ~ballot(v); });
  check(odd + "vote.sync.any.pred %p2, %p1, -1;\nselp.b32 %r9, 1, 0, %p2;\n",
        [&](const Lanes& v, uint32_t /*lane*/) { return ballot(v) != 0 ? 1U : 0U; });
  check(odd + "vote.sync.all.pred %p2, %p1, -1;\nselp.b32 %r9, 1, 0, %p2;\n",
        [&](const Lanes& v, uint32_t /*lane*/) { return ballot(v) == UINT32_MAX ? 1U : 0U; });
  check(
      "match.any.sync.b32 %r9, %r1, -1;\n",
      [](const Lanes& v, uint32_t lane) {
        uint32_t lanes = 0;
        for (uint32_t i = 0; i < 32; ++i) {
          lanes |= v[i] == v[lane] ? 1U << i : 0U;
        }
        return lanes;
      },
      4);
  check(
      "match.all.sync.b32 %r9|%p1, %r1, -1;\n",
      [](const Lanes& v, uint32_t /*lane*/) {
        return std::ranges::all_of(v, [&](uint32_t x) { return x == v[0]; }) ? UINT32_MAX : 0U;
      },
      2);
  check("activemask.b32 %r9;\n", [](const Lanes& /*v*/, uint32_t /*lane*/) { return UINT32_MAX; });
}

TEST(Exchanges, Reductions) {
  const auto fold = [](const Lanes& v, const auto& join) {
    uint32_t total = v[0];
    for (size_t i = 1; i < 32; ++i) {
      total = join(total, v[i]);
    }
    return total;
  };
  check("redux.sync.add.s32 %r9, %r1, -1;\n",
        [&](const Lanes& v, uint32_t) { return fold(v, [](uint32_t a, uint32_t b) { return a + b; }); });
  check("redux.sync.min.u32 %r9, %r1, -1;\n",
        [&](const Lanes& v, uint32_t) { return fold(v, [](uint32_t a, uint32_t b) { return std::min(a, b); }); });
  check("redux.sync.max.s32 %r9, %r1, -1;\n", [&](const Lanes& v, uint32_t) {
    return fold(v, [](uint32_t a, uint32_t b) {
      return static_cast<uint32_t>(std::max(static_cast<int32_t>(a), static_cast<int32_t>(b)));
    });
  });
  check("redux.sync.xor.b32 %r9, %r1, -1;\n",
        [&](const Lanes& v, uint32_t) { return fold(v, [](uint32_t a, uint32_t b) { return a ^ b; }); });
}

// Both halves of the warp exchange among themselves, each at its own time.
TEST(Exchanges, HalvesOfAWarpWithTheirOwnMasks) {
  check(
      "setp.lt.u32 %p1, %r0, 16;\nselp.b32 %r2, 65535, -65536, %p1;\n@%p1 bra LOW;\nadd.s32 %r1, %r1, 1;\nLOW:\n"
      "redux.sync.add.s32 %r9, %r1, %r2;\n",
      [](const Lanes& v, uint32_t lane) {
        uint32_t total = 0;
        for (uint32_t i = 0; i < 16; ++i) {
          total += lane < 16 ? v[i] : v[16 + i] + 1;
        }
        return total;
      });
}

TEST(Exchanges, ALaneThatDoesNotTakePartIsAFault) {
  Lanes results{};
  const Execution done =
      run("setp.lt.u32 %p1, %r0, 16;\nmov.u32 %r9, 0;\n@%p1 shfl.sync.idx.b32 %r9, %r1, 20, 31, 65535;\n", Lanes{},
          results);
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kArithmetic);
}

TEST(Exchanges, AMissingLaneIsADivergentWarp) {
  Lanes results{};
  const Execution done =
      run("setp.lt.u32 %p1, %r0, 16;\nmov.u32 %r9, 0;\n@%p1 shfl.sync.idx.b32 %r9, %r1, 2, 31, -1;\n"
          "bar.sync 0;\n",
          Lanes{}, results);
  ASSERT_TRUE(done.fault);
  EXPECT_TRUE(done.fault->kind == FaultKind::kDivergentBarrier || done.fault->kind == FaultKind::kDivergentWarp)
      << done.fault->print();
}

}  // namespace
}  // namespace xrun::ptx
