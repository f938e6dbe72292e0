// Plans for several nodes: the bytes that cross the network, the time that this takes, and the places of stages,
// replicas and shards.
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/cost/cost_model.h"
#include "planner/cost/simulate.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/program/links.h"
#include "planner/report/classes.h"
#include "planner/report/cluster_traffic.h"
#include "planner/report/json.h"
#include "planner/report/text.h"
#include "planner/search/chain.h"
#include "planner/search/class_fit.h"
#include "planner/search/space.h"
#include "planner/verify/verify_program.h"
#include "tests/planner/test_graphs.h"
#include "tests/support/golden.h"

namespace xrun::planner {
namespace {

using ::testing::HasSubstr;

constexpr double kThin = 25e6;    // 200 Mbit/s
constexpr double kWide = 1.25e9;  // 10 Gbit/s

ClusterSpec cluster_of(int64_t nodes, int64_t cores, double rate, Bytes memory = 4 * kGiB) {
  return {.nodes = nodes,
          .network = {.name = "ethernet", .rate = rate, .latency = 1e-4},
          .cores = cores,
          .memory = memory,
          .reserve = 0};
}

Machine machine_of(int64_t nodes, int64_t cores, double rate, Bytes memory = 4 * kGiB) {
  return make_machine(cluster_of(nodes, cores, rate, memory), {}, 1, kGiB);
}

struct Planned {
  Module module;
  Plan plan;
};

Result<Plan> plan_on(const Machine& machine, const Module& module) {
  const Module training = testing::prepare_training(module);
  const Module inference = testing::prepare_inference(module);
  return make_plan(training, inference, testing::make_facts(training), testing::make_facts(inference), machine, {});
}

Module head_model() {
  return testing::make_module(
      {.layers = 4, .input = 256, .width = 256, .classes = 20902, .head = true, .batch = 512, .norm_rows = 32});
}

TEST(Machine, HasAtMostADevicePerThreadUnlessDevicesAreGiven) {
  EXPECT_EQ(make_machine({}, {}, 4, kGiB).devices, 4);
  EXPECT_EQ(make_machine({}, {.threads = 1}, 4, kGiB).devices, 1);
  EXPECT_EQ(make_machine({}, {.threads = 3}, 4, kGiB).devices, 3);
  EXPECT_EQ(make_machine({}, {.threads = 8}, 4, kGiB).devices, 4);
  EXPECT_EQ(make_machine({}, {.devices = 2, .threads = 1}, 4, kGiB).threads, 2) << "each device needs a thread";
}

TEST(Cluster, NodesHaveContiguousDevicesAndAReserveEach) {
  ClusterSpec cluster = cluster_of(3, 2, kWide, 2 * kGiB);
  cluster.reserve = kGiB / 2;
  const Machine machine = make_machine(cluster, {}, 64, 512 * kGiB);
  EXPECT_EQ(machine.name, "6 x cpu on 3 nodes");
  EXPECT_EQ(machine.nodes(), 3);
  EXPECT_EQ(machine.ranks, 3) << "one process for each node";
  EXPECT_EQ(machine.device_nodes, (std::vector{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(machine.cores, 6);
  EXPECT_EQ(machine.memory, 3 * (2 * kGiB - kGiB / 2));
  EXPECT_EQ(machine.node_memory, 2 * kGiB - kGiB / 2);
  EXPECT_EQ(machine.network.rate, kWide);
  EXPECT_EQ(make_machine(cluster_of(1024, 64, kWide), {}, 1, kGiB).devices, 1024);
  // Without `node`, every node is like the one that makes the plan.
  EXPECT_EQ(make_machine(cluster_of(3, 0, kWide, 0), {}, 4, 2 * kGiB).cores, 12);
  EXPECT_EQ(make_machine(cluster_of(3, 0, kWide, 0), {}, 4, 2 * kGiB).memory, 6 * kGiB);
}

TEST(Cluster, NodesFollowFromTheRanksOfALauncher) {
  const NetworkSpec measured{.name = "measured", .rate = kThin, .latency = 1e-4};
  // Five ranks on two hosts, in an order in which the ranks of a host are not contiguous. Cores and memory are the sums
  // over both hosts.
  const MachineRequest request{
      .devices = 5, .ranks = 5, .rank_nodes = {0, 1, 0, 1, 0}, .node_memory = 3 * kGiB, .network = measured};
  const Machine machine = make_machine({.reserve = 0}, request, 8, 10 * kGiB);
  EXPECT_EQ(machine.device_nodes, (std::vector{0, 1, 0, 1, 0}));
  EXPECT_EQ(machine.ranks, 5);
  EXPECT_EQ(machine.cores, 8);
  EXPECT_EQ(machine.memory, 10 * kGiB);
  EXPECT_EQ(machine.node_memory, 3 * kGiB);
  EXPECT_EQ(machine.network, measured);
  EXPECT_EQ(make_machine(cluster_of(1, 0, kWide), request, 8, 10 * kGiB).network.rate, kWide) << "the text is obeyed";
}

TEST(Links, CountBytesSentAndReceivedByEachNode) {
  const Machine machine = machine_of(2, 2, kThin);
  const std::vector all{0, 1, 2, 3};
  LinkLoad shared(machine);
  shared.add_shared(all, all, 100);  // two blocks of each node go to the other node's rank
  EXPECT_EQ(shared.links()[0].sent, 200);
  EXPECT_EQ(shared.links()[1].received, 200);
  LinkLoad own(machine);
  for (const auto& [from, to] : {std::pair(0, 2), {0, 3}, {1, 2}, {1, 3}}) {
    own.add(from, to, 100);
  }
  EXPECT_EQ(own.links()[0].sent, 400);
  EXPECT_EQ(own.busiest(), 400);
  EXPECT_DOUBLE_EQ(own.time(), 1e-4 + 400 / kThin);
  LinkLoad inside(machine);
  inside.add(0, 1, 100);
  EXPECT_EQ(inside.time(), 0);
  LinkLoad gather(machine);
  gather.add_shared(std::vector{0}, all, 100);
  EXPECT_EQ(gather.links()[0].sent, 100);
  EXPECT_EQ(gather.links()[0].received, 0);
}

// Sending 25 MB between nodes takes a second on the link, and two such sends of one node take two.
TEST(Links, ExchangesOnOneLinkShareIt) {
  const Machine machine = machine_of(3, 1, kThin);
  Program program;
  program.devices = 3;
  program.stages.push_back({.devices = {0, 1, 2}});
  program.buffers.resize(1);
  const auto add = [&](Kind kind, int device, int peer, int group) {
    Instruction one{.id = InstructionId(program.instructions.size()),
                    .kind = kind,
                    .device = device,
                    .stream = Stream::kComm,
                    .group = group,
                    .predicted = 1};
    one.operands.push_back({.role = kind == Kind::kSend ? Role::kSent : Role::kReceived,
                            .buffer = BufferId(0),
                            .index = peer,
                            .offset = 64 * group,
                            .bytes = 25'000'000});
    program.instructions.push_back(std::move(one));
  };
  add(Kind::kSend, 0, 1, 0);
  add(Kind::kRecv, 1, 0, 0);
  add(Kind::kSend, 0, 2, 1);  // uses the same sending link
  add(Kind::kRecv, 2, 0, 1);
  add(Kind::kSend, 1, 0, 2);  // uses the other direction of both links
  add(Kind::kRecv, 0, 1, 2);
  const auto times = simulate(program, machine);
  ASSERT_TRUE(times.ok());
  EXPECT_DOUBLE_EQ(times->instructions[0].end, 2);
  EXPECT_DOUBLE_EQ(times->instructions[2].end, 2);
  EXPECT_DOUBLE_EQ(times->instructions[4].end, 1);
  EXPECT_DOUBLE_EQ(simulate(program)->makespan, 1) << "without a network nothing is shared";
}

TEST(Cluster, ASlowNetworkIsNotUsedAndAFastOneIs) {
  const Module module = head_model();
  const auto thin = plan_on(machine_of(4, 2, kThin), module);
  ASSERT_TRUE(thin.ok()) << thin.error().message;
  EXPECT_EQ(network_of(*thin).busiest(), 0) << network_text(*thin);
  EXPECT_THAT(network_text(*thin), HasSubstr("ethernet 200 Mbit/s, 100.0 us: a step moves nothing between them"));
  const auto wide = plan_on(machine_of(4, 2, kWide), module);
  ASSERT_TRUE(wide.ok()) << wide.error().message;
  EXPECT_GT(network_of(*wide).busiest(), 0);
  EXPECT_LT(wide->predicted.step, thin->predicted.step);
  const auto one = plan_on(machine_of(1, 2, kWide), module);
  ASSERT_TRUE(one.ok());
  EXPECT_DOUBLE_EQ(thin->predicted.step, one->predicted.step) << "as fast as one node by itself";
}

// The state of the head does not fit into one node, so a plan has to spread it, however slow the network is.
TEST(Cluster, EachNodeHasItsOwnMemory) {
  const Module module = testing::make_module(
      {.layers = 1, .input = 64, .width = 64, .classes = 400'000, .head = true, .batch = 64, .norm_rows = 32});
  const auto ample = plan_on(machine_of(2, 1, kThin, 2 * kGiB), module);
  ASSERT_TRUE(ample.ok()) << ample.error().message;
  const auto lying_on = [](const Plan& plan, int node) {
    Bytes sum = 0;
    for (const Arena& arena : plan.training.arenas) {
      sum += arena.device != kHost && plan.machine.node_of(arena.device) == node ? arena.bytes : 0;
    }
    return sum;
  };
  const Bytes all = lying_on(*ample, 0) + lying_on(*ample, 1);
  const Machine tight = machine_of(2, 1, kThin, all * 7 / 10);
  const auto spread = plan_on(tight, module);
  ASSERT_TRUE(spread.ok()) << spread.error().message;
  for (const int node : {0, 1}) {
    EXPECT_LE(lying_on(*spread, node), tight.node_memory) << node;
    EXPECT_GT(lying_on(*spread, node), 0) << node;
  }
  const auto refused = plan_on(machine_of(2, 1, kThin, 40 * kMiB), module);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0601");
}

// Plans on the first few devices use only the first node, where they do not fit. Only pipelines across both nodes fit.
TEST(Cluster, APipelineAcrossNodesIsFound) {
  const Module module = testing::make_module({.layers = 12, .input = 512, .width = 512, .batch = 64, .norm_rows = 32});
  Module staged = module;
  staged.schedule.stages = Hint<int64_t>{8, {}};
  const auto across = plan_on(machine_of(2, 4, kThin), staged);
  ASSERT_TRUE(across.ok()) << across.error().message;
  Bytes all = 0;
  for (const Arena& arena : across->training.arenas) {
    all += arena.bytes;
  }
  const auto found = plan_on(machine_of(2, 4, kThin, all * 7 / 10), module);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_GT(found->training.stages.size(), 4U);
}

TEST(Cluster, TheMemoryOfANodeIsReportedIfItIsTheLimit) {
  Module module = testing::make_module({.layers = 12, .input = 512, .width = 512, .batch = 64, .norm_rows = 32});
  module.schedule.stages = Hint<int64_t>{1, {}};
  module.schedule.replicas = Hint<int64_t>{1, {}};
  const auto refused = plan_on(machine_of(8, 1, kThin, 16 * kMiB), module);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0601");
  EXPECT_THAT(refused.error().message, HasSubstr("does not fit: the smallest plan found needs "));
  EXPECT_THAT(refused.error().message, HasSubstr(" on a node, 16.0 MiB are usable on each"));
  const Module head = head_model();
  const Module training = testing::prepare_training(head);
  const Module inference = testing::prepare_inference(head);
  const KernelFacts training_facts = testing::make_facts(training);
  const KernelFacts inference_facts = testing::make_facts(inference);
  const Machine machine = machine_of(2, 1, kThin, 64 * kMiB);
  const auto fits =
      fit_classes({training, inference, training_facts, inference_facts, machine, false, [] { return true; }});
  ASSERT_TRUE(fits.ok()) << fits.error().message;
  EXPECT_THAT(report_classes(*fits, training, machine, 0), HasSubstr("64.0 MiB of a node"));
}

// Every list that is indexed by device must have one element per device.
TEST(Cluster, APlanFileWhoseMachineDoesNotFitItsProgramIsRejected) {
  const auto plan = plan_on(machine_of(2, 2, kWide), head_model());
  ASSERT_TRUE(plan.ok());
  ASSERT_TRUE(load_plan_bytes(plan_bytes(*plan)).ok());
  const auto refused = [&](const std::function<void(Machine&)>& change) {
    Plan changed = *plan;
    change(changed.machine);
    const auto loaded = load_plan_bytes(plan_bytes(changed));
    return loaded.ok() ? std::string() : loaded.error().code;
  };
  EXPECT_EQ(refused([](Machine& m) { m.devices = 2, m.device_nodes = {0, 1}; }), "XG0621");
  EXPECT_EQ(refused([](Machine& m) { m.device_nodes = {0, 0, 1}; }), "XG0621");
  EXPECT_EQ(refused([](Machine& m) { m.device_nodes = {0, 0, 1, 4}; }), "XG0621");
  EXPECT_EQ(refused([](Machine& m) { m.device_nodes = {0, 0, -1, 1}; }), "XG0621");
  EXPECT_EQ(refused([](Machine& m) { m.ranks = 0; }), "XG0621");
  EXPECT_EQ(refused([](Machine& m) { m.ranks = 5; }), "XG0621");
  EXPECT_EQ(refused([](Machine& m) { m.network.rate = HUGE_VAL; }), "XG0621");
  EXPECT_EQ(refused([](Machine& m) { m.network.latency = -1; }), "XG0621");
}

TEST(Cluster, APlanFileIsRefusedIfItsReplicasDoNotMatchTheNodesOfItsDevices) {
  Module module = head_model();
  module.schedule.stages = Hint<int64_t>{1, {}};
  module.schedule.replicas = Hint<int64_t>{4, {}};
  const auto plan = plan_on(machine_of(2, 2, kWide), module);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->training.node_replicas, 2);
  const auto refused = [&](const std::function<void(Plan&)>& change) {
    Plan changed = *plan;
    change(changed);
    const auto loaded = load_plan_bytes(plan_bytes(changed));
    return loaded.ok() ? std::string() : loaded.error().message;
  };
  EXPECT_EQ(refused([](Plan&) {}), "");
  EXPECT_THAT(refused([](Plan& p) { p.training.node_replicas = 1; }),
              HasSubstr("1 replicas sum on a node first, but 2 have their devices on one node"));
  EXPECT_THAT(refused([](Plan& p) { p.training.node_replicas = 4; }), HasSubstr("4 replicas sum on a node first"));
  EXPECT_THAT(refused([](Plan& p) {
                p.machine.device_nodes = {0, 1, 0, 1};
              }),
              HasSubstr("2 replicas sum on a node first, but 1 have their devices on one node"));
  EXPECT_THAT(refused([](Plan& p) { p.machine.device_nodes = {}; }), HasSubstr("2 replicas sum on a node first"));
}

TEST(Cluster, AShardPerNodeIsOnTheFirstDeviceOfEachNode) {
  Module module = head_model();
  module.schedule.shards.push_back({.head = "id", .by_node = true, .granularity = "auto"});
  const auto plan = plan_on(machine_of(3, 2, kWide), module);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  std::vector<int> devices;
  for (const HeadShard& shard : plan->training.heads[0].shards) {
    devices.push_back(shard.device);
  }
  EXPECT_EQ(devices, (std::vector{0, 2, 4}));
}

// On a slow network, `auto` keeps the head on one node. `all` is a wish that the search keeps.
TEST(Cluster, AHeadOnAllDevicesStaysThere) {
  Module module = head_model();
  const Machine machine = machine_of(2, 2, kThin);
  const auto shards = [&] {
    const auto plan = plan_on(machine, module);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return plan->training.heads[0].shards.size();
  };
  const auto settings = [&] {
    const Module training = testing::prepare_training(module);
    const KernelFacts facts = testing::make_facts(training);
    const CostModel cost(facts, machine);
    return legal_settings(training, make_chain(training, cost), machine, true).value();
  };
  const auto moved = [](const Setting& setting) { return setting.head_devices > 0; };
  module.schedule.shards = {{.head = "id", .granularity = "auto"}};
  EXPECT_TRUE(std::ranges::any_of(settings(), moved));
  EXPECT_EQ(shards(), 2U);
  module.schedule.shards = {{.head = "id", .granularity = "auto", .on_all = true}};
  EXPECT_TRUE(std::ranges::none_of(settings(), moved));
  EXPECT_EQ(shards(), 4U);
}

// Dense gradients are reduced and gathered in slices, so (R - 1) / R of them cross a link twice. Compressed pairs are
// counted at the density of most steps, although their blocks have space for the pairs of the warm-up.
TEST(Cluster, CompressedGradientsReduceNetworkTraffic) {
  Module module = testing::make_module({.layers = 4, .input = 1024, .width = 1024, .batch = 64, .norm_rows = 8});
  module.schedule.replicas = Hint<int64_t>{4, {}};
  const auto dense = plan_on(machine_of(4, 1, kThin), module);
  ASSERT_TRUE(dense.ok()) << dense.error().message;
  module.train.compress = {.density = 0.001, .on = {}, .warmup = TrainSpan{4, TrainSpan::kEpochs}, .span = {}};
  const auto sparse = plan_on(machine_of(4, 1, kThin), module);
  ASSERT_TRUE(sparse.ok()) << sparse.error().message;
  const Bytes weights = 4 * dense->training.stages[0].parameter_bytes / 4;
  const Bytes moved = network_of(*dense).busiest();
  EXPECT_NEAR(static_cast<double>(moved), 2 * 0.75 * static_cast<double>(weights), 0.01 * static_cast<double>(weights));
  const NetworkSummary network = network_of(*sparse);
  const auto pairs = std::ranges::find(network.uses, "compressed gradients", [](const auto& use) { return use.what; });
  ASSERT_NE(pairs, network.uses.end());
  EXPECT_NEAR(static_cast<double>(pairs->busiest), 3 * 8 * 0.001 * static_cast<double>(weights) / 4, 600);
  EXPECT_GT(dense->predicted.step, 3 * sparse->predicted.step);
}

TEST(Cluster, BucketsLeaveDuringTheBackwardPassOnlyBetweenNodes) {
  Module module = testing::make_module({.layers = 4, .input = 1024, .width = 1024, .batch = 64, .norm_rows = 8});
  module.schedule.stages = Hint<int64_t>{1, {}};
  module.schedule.replicas = Hint<int64_t>{2, {}};
  module.schedule.micro_batches = Hint<int64_t>{2, {}};
  const auto passes = [](const Plan& plan) {
    return std::ranges::count(plan.training.instructions, Kind::kBackward, &Instruction::kind);
  };
  const auto early = plan_on(machine_of(2, 1, kWide), module);
  const auto near = plan_on(make_machine({.cores = 2, .memory = 4 * kGiB, .reserve = 0}, {}, 2, 4 * kGiB), module);
  ASSERT_TRUE(early.ok() && near.ok());
  EXPECT_GE(passes(*early), 4);
  EXPECT_EQ(passes(*near), 2);
  // A pass whose layers are computed again stays whole.
  module.schedule.recompute = Hint<RecomputeHint>{{RecomputeHint::kAll, {}}, {}};
  const auto again = plan_on(machine_of(2, 1, kWide), module);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(passes(*again), 2);
  EXPECT_LT(early->predicted.step, again->predicted.step);
}

// With few micro-batches the last backward pass is long, so that early buckets save most.
TEST(Cluster, NoNumberOfMicroBatchesIsFasterThanTheChoiceWithEarlyBuckets) {
  Module module = testing::make_module({.layers = 4,
                                        .input = 2048,
                                        .width = 2048,
                                        .classes = 64,
                                        .head = true,
                                        .norm = false,
                                        .batch = 512,
                                        .norm_rows = 32});
  module.schedule.stages = Hint<int64_t>{1, {}};
  module.schedule.replicas = Hint<int64_t>{2, {}};
  module.schedule.bucket = 4 * kMiB;
  const auto chosen = plan_on(machine_of(2, 1, 125e6), module);
  ASSERT_TRUE(chosen.ok()) << chosen.error().message;
  for (const int64_t micro_batches : {2, 4, 8, 16}) {
    module.schedule.micro_batches = Hint<int64_t>{micro_batches, {}};
    const auto forced = plan_on(machine_of(2, 1, 125e6), module);
    ASSERT_TRUE(forced.ok()) << forced.error().message;
    EXPECT_LE(chosen->predicted.step, 1.01 * forced->predicted.step) << micro_batches << " micro-batches";
  }
}

TEST(Cluster, PageAndTablesOfAPlanAreStable) {
  Module module = head_model();
  module.schedule.replicas = Hint<int64_t>{4, {}};
  const Machine machine = machine_of(2, 2, kWide);
  const auto plan = plan_on(machine, module);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Module training = testing::prepare_training(module);
  EXPECT_TRUE(test::matches_golden(report_text(*plan, training) + report_table(*plan, training, "comm", 0),
                                   "report/cluster.txt"));
  const auto json = nlohmann::json::parse(report_json(*plan, training));
  EXPECT_EQ(json["cluster"]["nodes"], 2);
  EXPECT_EQ(json["cluster"]["network"]["bytes_per_second"], kWide);
  ASSERT_EQ(json["network"]["links"].size(), 2U);
  EXPECT_EQ(json["network"]["links"][0]["sent_bytes"], network_of(*plan).links[0].sent);
  EXPECT_EQ(json["network"]["uses"].size(), network_of(*plan).uses.size());
  // A plan file keeps the cluster.
  const auto loaded = load_plan_bytes(plan_bytes(*plan));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->machine.device_nodes, plan->machine.device_nodes);
  EXPECT_EQ(loaded->machine.network, plan->machine.network);
  EXPECT_EQ(loaded->machine.ranks, 2);
  const auto& all = loaded->training.instructions;
  EXPECT_TRUE(std::ranges::any_of(all, [](const Instruction& one) { return one.kind == Kind::kSumDx; }));
  const Status sound = verify_program(loaded->training, training, machine.memory);
  EXPECT_TRUE(sound.ok()) << sound.error().message;
  EXPECT_EQ(network_text(*loaded), network_text(*plan));
}

}  // namespace
}  // namespace xrun::planner
