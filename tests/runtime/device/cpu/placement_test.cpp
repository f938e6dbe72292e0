// Placement of devices on machines with several NUMA nodes, which hwloc simulates, and the system calls that place
// memory and threads on this machine.
#include "runtime/device/cpu/placement.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <numeric>
#include <set>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "runtime/device/cpu/cpu_device.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns two packages with 32 cores each and two hyperthreads per core; each package is a NUMA node. Processors 0 and
// 1 belong to the first core.
CpuTopology two_nodes() { return synthetic_cpu_topology("package:2 numa:1 core:32 pu:2"); }

int node_of(const CpuTopology& topology, int cpu) {
  for (const Core& core : topology.cores) {
    if (std::ranges::count(core.cpus, cpu) > 0) {
      return core.node;
    }
  }
  return -1;
}

// Checks what holds for every placement that binds: there are as many processors as workers, they are on the named
// nodes, and no processor is used twice.
std::vector<DeviceCpus> placed(const CpuTopology& topology, const std::vector<int>& workers) {
  const auto devices = place_devices(topology, workers);
  EXPECT_EQ(devices.size(), workers.size());
  std::set<int> taken;
  for (size_t d = 0; d < devices.size(); ++d) {
    EXPECT_EQ(std::ssize(devices[d].cpus), workers[d]) << "device " << d;
    std::set<int> nodes;
    for (const int cpu : devices[d].cpus) {
      EXPECT_TRUE(taken.insert(cpu).second) << "processor " << cpu << " has two workers";
      nodes.insert(node_of(topology, cpu));
    }
    EXPECT_EQ(devices[d].nodes, std::vector<int>(nodes.begin(), nodes.end())) << "device " << d;
  }
  return devices;
}

std::vector<std::vector<int>> nodes_of(const std::vector<DeviceCpus>& devices) {
  std::vector<std::vector<int>> nodes;
  std::ranges::transform(devices, std::back_inserter(nodes), &DeviceCpus::nodes);
  return nodes;
}

TEST(Placement, ReadsCoresWithTheirPackagesNodesAndHyperthreads) {
  const CpuTopology topology = two_nodes();
  ASSERT_EQ(topology.cores.size(), 64U);
  EXPECT_FALSE(topology.here);
  EXPECT_EQ(topology.nodes(), (std::vector<int>{0, 1}));
  EXPECT_EQ(topology.cores[0].cpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(topology.cores[63].cpus, (std::vector<int>{126, 127}));
  EXPECT_EQ(topology.cores[31].package, 0);
  EXPECT_EQ(topology.cores[32].package, 1);
  EXPECT_EQ(topology.cores[32].node, 1);
  EXPECT_TRUE(synthetic_cpu_topology("package:nonsense").cores.empty());
}

TEST(Placement, EachDeviceHasItsOwnNodeIfThereAreEnough) {
  const CpuTopology topology = two_nodes();
  const auto devices = placed(topology, {32, 32});
  EXPECT_EQ(nodes_of(devices), (std::vector<std::vector<int>>{{0}, {1}}));
  for (const DeviceCpus& device : devices) {
    EXPECT_TRUE(std::ranges::all_of(device.cpus, [](int cpu) { return cpu % 2 == 0; })) << "one worker a core";
  }
  EXPECT_EQ(describe_placement(topology, devices), "cpu 0 on node 0, cpu 1 on node 1");
}

TEST(Placement, NeighbouringDevicesShareANode) {
  const CpuTopology topology = two_nodes();
  const auto four = placed(topology, {16, 16, 16, 16});
  EXPECT_EQ(nodes_of(four), (std::vector<std::vector<int>>{{0}, {0}, {1}, {1}}));
  EXPECT_EQ(describe_placement(topology, four), "cpu 0..1 on node 0, cpu 2..3 on node 1");
  const auto single = placed(topology, std::vector<int>(64, 1));
  EXPECT_EQ(single[0].cpus, std::vector<int>{0});
  EXPECT_EQ(single[31].nodes, std::vector<int>{0});
  EXPECT_EQ(single[32].nodes, std::vector<int>{1});
  EXPECT_EQ(describe_placement(topology, single), "cpu 0..31 on node 0, cpu 32..63 on node 1");
}

TEST(Placement, FewWorkersSpreadOverAllNodesAndNoDeviceIsSplit) {
  const auto devices = placed(two_nodes(), {10, 10, 10});
  EXPECT_EQ(nodes_of(devices), (std::vector<std::vector<int>>{{0}, {1}, {1}}));
  EXPECT_EQ(nodes_of(placed(two_nodes(), {10}))[0].size(), 1U);
  EXPECT_EQ(nodes_of(placed(two_nodes(), {20, 30, 10})), (std::vector<std::vector<int>>{{0}, {1}, {0}}));
}

TEST(Placement, ADeviceLargerThanANodeUsesNodesOfOnePackageFirst) {
  EXPECT_EQ(nodes_of(placed(two_nodes(), {64})), (std::vector<std::vector<int>>{{0, 1}}));
  EXPECT_EQ(nodes_of(placed(two_nodes(), {20, 20, 20})), (std::vector<std::vector<int>>{{0}, {1}, {0, 1}}));
  const CpuTopology four = synthetic_cpu_topology("package:2 numa:2 core:8 pu:1");
  const auto devices = placed(four, {16, 16});
  EXPECT_EQ(nodes_of(devices), (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(describe_placement(four, devices), "cpu 0 on nodes 0 and 1, cpu 1 on nodes 2 and 3");
}

TEST(Placement, HyperthreadsAreUsedIfThereAreTooFewCores) {
  const auto devices = placed(two_nodes(), {64, 64});
  EXPECT_EQ(nodes_of(devices), (std::vector<std::vector<int>>{{0}, {1}}));
  EXPECT_EQ(devices[0].cpus[1], 1) << "both of a core";
}

TEST(Placement, NothingIsBoundOnOneNodeOrWithMoreWorkersThanProcessors) {
  const CpuTopology topology = two_nodes();
  const auto many = place_devices(topology, std::vector<int>{65, 64});
  EXPECT_TRUE(many[0].cpus.empty() && many[1].cpus.empty());
  EXPECT_EQ(describe_placement(topology, many), "not bound: more workers than processors");
  const CpuTopology without_hyperthreads = synthetic_cpu_topology("package:2 numa:1 core:32 pu:1");
  EXPECT_TRUE(place_devices(without_hyperthreads, std::vector<int>{33, 32})[0].cpus.empty());
  const CpuTopology one = synthetic_cpu_topology("package:1 numa:1 core:4 pu:1");
  const auto few = place_devices(one, std::vector<int>{2, 2});
  EXPECT_TRUE(few[0].cpus.empty());
  EXPECT_EQ(describe_placement(one, few), "");
  EXPECT_TRUE(place_devices({}, std::vector<int>{1})[0].cpus.empty());
}

TEST(Placement, CoresThatTheProcessMayNotUseAreLeftOut) {
  CpuTopology topology = two_nodes();
  std::erase_if(topology.cores, [](const Core& core) { return core.node == 0 && core.cpus[0] >= 8; });
  ASSERT_EQ(topology.cores.size(), 36U);
  const auto devices = placed(topology, {4, 16, 16});
  EXPECT_EQ(nodes_of(devices), (std::vector<std::vector<int>>{{0}, {1}, {1}}));

  const std::vector<int> all = thread_cpus();
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    bind_thread(std::vector<int>{all.back()});
    EXPECT_EQ(thread_cpus(), std::vector<int>{all.back()});
    const CpuTopology seen = read_cpu_topology();
    ASSERT_EQ(seen.cores.size(), 1U);
    EXPECT_EQ(seen.cores[0].cpus, std::vector<int>{all.back()});
    bind_thread(all);
    EXPECT_EQ(thread_cpus(), all);
  }).join();
}

int policy_of(void* page) {
  int mode = -1;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0, page, MPOL_F_ADDR) == 0 ? mode : -1;
}

TEST(Placement, PagesOfARangePreferItsNode) {
  constexpr size_t kBytes = 1 << 16;
  void* range = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(range, MAP_FAILED);
  const int before = policy_of(range);
  prefer_nodes(range, kBytes, {});
  EXPECT_EQ(policy_of(range), before);
  prefer_nodes(range, kBytes, std::vector<int>{0});
  const int after = policy_of(range);
  munmap(range, kBytes);
  if (before < 0 || after == before) {
    GTEST_SKIP() << "the system has no memory policies, or does not let a process have one";
  }
  EXPECT_EQ(after, MPOL_PREFERRED);
}

TEST(Placement, WorkersAreBoundOnlyWhileTheyWorkForTheDevice) {
  const std::vector<int> all = thread_cpus();
  const std::vector<DeviceCpus> cpus{{.cpus = {all.front()}, .nodes = {0}}, {.cpus = {all.back()}, .nodes = {0}}};
  const auto devices = make_cpu_devices(std::vector<int>{1, 1}, cpus);
  for (int round = 0; round < 3; ++round) {
    const Status done = run_on_each(*devices, [&](const Device& device) -> Status {
      EXPECT_EQ(thread_cpus(), cpus[static_cast<size_t>(device.index())].cpus);
      return {};
    });
    EXPECT_TRUE(done.ok());
  }
  EXPECT_EQ(thread_cpus(), all) << "this thread is no worker";
  const auto free = make_cpu_devices(std::vector<int>{1});
  const Status done = run_on_each(*free, [&](const Device&) -> Status {
    EXPECT_EQ(thread_cpus(), all);
    return {};
  });
  EXPECT_TRUE(done.ok());
}

TEST(Placement, DoctorAndPlanReportThePlacementOnlyOnSeveralNodes) {
  const auto run = [](std::vector<std::string> words, const std::string& topology) {
    xrun::testing::CommandOptions options;
    if (!topology.empty()) {
      options.environment = {{"HWLOC_SYNTHETIC", topology}};
    }
    const xrun::testing::CommandResult result = xrun::testing::run_xrun(words, options);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.out;
  };
  const std::string two = "package:2 numa:1 core:32 pu:2";
  EXPECT_THAT(run({"doctor"}, two), HasSubstr("\n  nodes    node 0 with 32 cores, node 1 with 32 cores\n"));
  EXPECT_THAT(run({"doctor", "--format", "json"}, two),
              HasSubstr(R"("numa_nodes":[{"node":0,"cores":32},{"node":1,"cores":32}])"));
  EXPECT_THAT(run({"doctor"}, "package:1 numa:1 core:4 pu:1"), Not(HasSubstr("  nodes  ")));

  const std::string model = std::string(XRUN_SOURCE_DIR) + "/models/digits.xgraph";
  const std::vector<std::string> plan{"plan", model, "--dry-run", "--devices", "4", "--threads"};
  const auto with_threads = [&](const std::string& threads, const std::string& topology) {
    auto words = plan;
    words.push_back(threads);
    return run(words, topology);
  };
  EXPECT_THAT(with_threads("64", two), EndsWith("\n\n  nodes      cpu 0..1 on node 0, cpu 2..3 on node 1\n"));
  EXPECT_THAT(with_threads("130", two), EndsWith("\n\n  nodes      not bound: more workers than processors\n"));
  EXPECT_THAT(with_threads("4", "package:1 numa:1 core:4 pu:1"), Not(HasSubstr("\n  nodes ")));
}

}  // namespace
}  // namespace xrun::runtime
