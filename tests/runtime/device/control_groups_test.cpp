#include "runtime/device/control_groups.h"

#include <filesystem>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

// A made-up system of control groups in a directory of the test.
class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(system.path() + path).parent_path());
    system.write(path.substr(1), text);
  }
  std::optional<GroupMemory> memory() { return group_memory(system.path()); }

  testing::TemporaryDirectory system;
};

TEST_F(ControlGroups, FileCachesCountAsFreeMemoryOfAGroup) {
  EXPECT_FALSE(memory());
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_FALSE(memory());
  write("/sys/fs/cgroup/memory.max", "8000\n");
  write("/sys/fs/cgroup/memory.current", "7900\n");
  write("/sys/fs/cgroup/memory.stat", "anon 900\ninactive_file 4000\nactive_file 3000\n");
  ASSERT_TRUE(memory());
  EXPECT_EQ(memory()->limit, 8000);
  EXPECT_EQ(memory()->free, 7100);
}

TEST_F(ControlGroups, TheSmallestLimitOfAllParentGroupsApplies) {
  write("/proc/self/cgroup", "0::/user.slice/job.scope/task\n");
  write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  const std::string group = "/sys/fs/cgroup/user.slice";
  write(group + "/job.scope/task/memory.max", "max\n");
  write(group + "/job.scope/memory.max", "5000\n");
  write(group + "/job.scope/memory.current", "1000\n");
  write(group + "/memory.max", "6000\n");
  write(group + "/memory.current", "5500\n");
  ASSERT_TRUE(memory());
  EXPECT_EQ(memory()->limit, 5000);
  EXPECT_EQ(memory()->free, 500) << "other groups below a parent use its memory, too";
  write(group + "/job.scope/task/memory.high", "3000\n");
  EXPECT_EQ(memory()->limit, 3000) << "above `memory.high` a process is slowed down until it gives memory back";
  write(group + "/other/memory.max", "10\n");
  EXPECT_EQ(memory()->limit, 3000);
}

TEST_F(ControlGroups, LimitsAreFoundInAContainer) {
  write("/proc/self/cgroup", "0::/docker/abc/worker\n");
  write("/proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/my\\040groups ro - cgroup2 cgroup rw\n");
  write("/sys/fs/my groups/worker/memory.max", "700\n");
  ASSERT_TRUE(memory());
  EXPECT_EQ(memory()->limit, 700);
  write("/sys/fs/my groups/memory.max", "600\n");
  EXPECT_EQ(memory()->limit, 600);
  write("/proc/self/cgroup", "0::/../elsewhere\n");
  EXPECT_EQ(memory()->limit, 600) << "a group that the mount does not show is below its top";
}

TEST_F(ControlGroups, LimitsOfVersionOneAreRead) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/fast\n4:memory,hugetlb:/batch/job\n0::/\n");
  write("/proc/self/mountinfo",
        "33 31 0:30 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 master:1 - cgroup cgroup rw,memory,hugetlb\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  const std::string group = "/sys/fs/cgroup/memory/batch";
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/cpu/fast/memory.limit_in_bytes", "1\n");
  EXPECT_FALSE(memory()) << "a number that no machine has is no limit";
  write(group + "/memory.limit_in_bytes", "9000\n");
  write(group + "/memory.usage_in_bytes", "4000\n");
  write(group + "/memory.stat", "inactive_file 1\ntotal_inactive_file 1500\ntotal_active_file 500\n");
  write(group + "/job/memory.limit_in_bytes", "8000\n");
  ASSERT_TRUE(memory());
  EXPECT_EQ(memory()->limit, 8000);
  EXPECT_EQ(memory()->free, 7000);
}

}  // namespace
}  // namespace xrun::runtime
