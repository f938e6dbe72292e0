// Tests of the devices with memory of their own that other tests use (tests/support/guarded_device.h).
#include "tests/support/guarded_device.h"

#include <array>
#include <gtest/gtest.h>
#include <latch>

namespace xrun::runtime {
namespace {

// Reads a byte in a way that the compiler cannot leave out.
std::byte read_byte(const std::byte* address) { return *static_cast<const volatile std::byte*>(address); }

TEST(GuardedDevice, OnlyTasksCanUseTheAddressesOfADevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // workers run concurrently with the test
  const std::vector<int> threads{1};
  const testing::GuardedDeviceSet devices(threads);
  const auto memory = devices.device(0).map(4096).value();
  memory->fill(0, 4096, std::byte{7});
  std::byte* const address = memory->kernel_address(64);
  EXPECT_DEATH(*address = std::byte{1}, "");
  const auto add_one = [&](Device&) {
    *address = std::byte{8};
    return Status();
  };
  ASSERT_TRUE(run_on_each(devices, add_one).ok());
  std::byte found{};
  memory->read(64, {&found, 1});
  EXPECT_EQ(found, std::byte{8});
}

TEST(GuardedDevice, InstructionsReadTheHostArenaAtAddressesThatTheHostCannotUse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<int> threads{1};
  const testing::GuardedDeviceSet devices(threads);
  const auto arena = devices.map_host(4096).value();
  EXPECT_EQ(arena->bytes(), 4096);
  EXPECT_EQ(arena->at(64)[0], std::byte{0});
  arena->at(64)[0] = std::byte{7};
  const std::byte* const address = arena->kernel_address(64);
  EXPECT_DEATH(read_byte(address), "");
  std::byte found{};
  const auto read = [&](Device&) {
    found = read_byte(address);
    return Status();
  };
  ASSERT_TRUE(run_on_each(devices, read).ok());
  EXPECT_EQ(found, std::byte{7});
}

TEST(GuardedDevice, TasksCannotReadTheHostArenaOfAProgramThatCopiesInputs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<int> threads{1};
  const testing::GuardedDeviceSet devices(threads, 0, true);
  const auto arena = devices.map_host(4096).value();
  const std::byte* const address = arena->kernel_address(64);
  const auto read = [&](Device&) {
    read_byte(address);
    return Status();
  };
  EXPECT_DEATH((void)run_on_each(devices, read), "");
}

// Work that waits keeps the copy from being made.
TEST(GuardedDevice, AnotherThreadMakesCopiesAfterTheCallThatBeginsThem) {
  const std::vector<int> threads{1, 1};
  const testing::GuardedDeviceSet devices(threads);
  const auto from = devices.device(0).map(64).value();
  const auto to = devices.device(1).map(64).value();
  from->fill(0, 64, std::byte{5});
  std::latch opens(1);
  std::latch copied(1);
  devices.late().add({testing::LateWork::Kind::kQueues, 0}, [&] { opens.wait(); });
  const auto copy = [&](Device& device) {
    if (device.index() == 1) {
      to->copy_from(*from, 0, 8, 16,
                    {[](void* latch, Status status) {
                       EXPECT_TRUE(status.ok());
                       static_cast<std::latch*>(latch)->count_down();
                     },
                     &copied});
    }
    return Status();
  };
  ASSERT_TRUE(run_on_each(devices, copy).ok());
  std::array<std::byte, 64> found{};
  to->read(0, found);
  EXPECT_EQ(found[8], std::byte{0});
  opens.count_down();
  copied.wait();
  to->read(0, found);
  EXPECT_EQ(found[7], std::byte{0});
  EXPECT_EQ(found[8], std::byte{5});
  EXPECT_EQ(found[23], std::byte{5});
  EXPECT_EQ(found[24], std::byte{0});
}

}  // namespace
}  // namespace xrun::runtime
