// Kernels have the same bits in 20 orders of warps and blocks, fair and unfair. The tests of kernels check their own
// launches (tests/ops/gpu/launch_checks.h).
#include <algorithm>
#include <gmock/gmock.h>

#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// With XRUN_ALL_PLANS=1, the tests of this binary together launch each kernel in all orders.
class EveryKernel final : public ::testing::Environment {
 public:
  void TearDown() override {
    const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
    bool all = CheckedLaunches::instance().all();
    for (int i = 0; i < tests.total_test_suite_count(); ++i) {
      const ::testing::TestSuite& suite = *tests.GetTestSuite(i);
      const std::string name = suite.name();
      all = all && (name == "GpuTexts" || name == "GpuStatic" || suite.test_to_run_count() == suite.total_test_count());
    }
    if (all) {
      EXPECT_THAT(CheckedLaunches::instance().missing(), IsEmpty()) << "kernels without a launch in all orders";
    }
  }
};
const auto* const kEveryKernel = ::testing::AddGlobalTestEnvironment(new EveryKernel);

TEST(GpuOrders, TwentyOrdersAreDistinctAndOfAllKinds) {
  std::set<std::pair<ptx::Order, uint64_t>> orders;
  std::set<ptx::Order> kinds;
  for (int index = 0; index < kOrderCount; ++index) {
    orders.insert({order_of(index).order, order_of(index).seed});
    kinds.insert(order_of(index).order);
  }
  EXPECT_EQ(orders.size(), 20U);
  EXPECT_EQ(kinds.size(), ptx::kOrders.size());
}

// All threads store their number at one address.
constexpr const char* kLastWriter =
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry last_writer(.param .u64 out)\n{\n"
    ".reg .b32 %r<2>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\n"
    "st.global.u32 [%rd1], %r1;\nret;\n}\n";

TEST(GpuOrders, OtherBitsAndFaultsAreFound) {
  const auto module = module_of(kLastWriter);
  ASSERT_NE(module, nullptr);
  ptx::Memory before;
  const ptx::Launch launch{.threads = {64, 1, 1}, .arguments = {before.add("out", 4)}};
  ptx::Options options{.races = false};
  ptx::Memory after = before;
  ASSERT_FALSE(ptx::execute(*module, "last_writer", launch, after, options).fault);
  const auto bits = same_in_all_orders(*module, "last_writer", launch, before, after, options);
  EXPECT_FALSE(bits);
  EXPECT_THAT(bits.message(), HasSubstr("other bits at out + 0"));
  options.races = true;
  const auto race = same_in_all_orders(*module, "last_writer", launch, before, after, options);
  EXPECT_FALSE(race);
  EXPECT_THAT(race.message(), HasSubstr("data race"));
}

TEST(GpuOrders, MemoryWithAndWithoutValuesDiffers) {
  ptx::Memory memory;
  const uint64_t x = memory.add("x", 8);
  ptx::Memory copy = memory;
  EXPECT_EQ(memory.difference(copy), "");
  const std::array<std::byte, 2> two{};
  copy.write(x + 5, two);
  EXPECT_EQ(memory.difference(copy), "x + 5");
  memory.write(x + 5, two);
  EXPECT_EQ(memory.difference(copy), "");
}

}  // namespace
}  // namespace xrun::ops::gpu
