// Plans for GPUs: their memory, the rates of their links, what they refuse, and what reports and plan files say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graph/settings/gpu_def.h"
#include "planner/cost/cost_model.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/program/run_memory.h"
#include "planner/report/cluster_traffic.h"
#include "planner/report/json.h"
#include "planner/report/text.h"
#include "planner/search/fit.h"
#include "planner/verify/verify_program.h"
#include "tests/planner/test_graphs.h"
#include "tests/support/golden.h"

namespace xrun::planner {
namespace {

using ::testing::HasSubstr;

ClusterSpec cluster_of(const std::string& gpu, int64_t gpus, Bytes memory = 512 * kGiB) {
  return {.gpu = gpu, .gpus = gpus, .cores = 64, .memory = memory, .reserve = 0};
}

// The facts of the test's operators with the rates of a kind of GPU.
KernelFacts facts_on(const Module& prepared, const GpuDef& gpu) {
  KernelFacts facts = testing::make_facts(prepared);
  facts.isa = gpu.name;
  facts.head_seconds_per_mac = 0;
  facts.flops_per_second_f32 = gpu.flops_per_second_f32;
  facts.flops_per_second_bf16 = gpu.flops_per_second_bf16;
  facts.bytes_per_second = gpu.bytes_per_second;
  facts.host_rate = gpu.host_rate;
  facts.call = gpu.launch;
  return facts;
}

struct Subject {
  Module training;
  Module inference;
  KernelFacts training_facts;
  KernelFacts inference_facts;
  Machine machine;

  Result<Plan> plan() const { return make_plan(training, inference, training_facts, inference_facts, machine, {}); }
};

Subject subject_of(Module module, const ClusterSpec& cluster) {
  module.cluster = cluster;
  Subject subject{.training = testing::prepare_training(module), .inference = testing::prepare_inference(module)};
  const GpuDef& gpu = *find_gpu(cluster.gpu);
  subject.training_facts = facts_on(subject.training, gpu);
  subject.inference_facts = facts_on(subject.inference, gpu);
  subject.machine = make_machine(cluster, {}, 2, 8 * kGiB);
  return subject;
}

Module head_model(int64_t classes = 1'000'000) {
  return testing::make_module(
      {.layers = 4, .input = 256, .width = 512, .classes = classes, .head = true, .batch = 512, .norm_rows = 32});
}

TEST(Gpus, AreTheDevicesOfTheirCluster) {
  const Machine machine = make_machine(cluster_of("h100", 8), {}, 2, 8 * kGiB);
  EXPECT_EQ(machine.name, "8 x h100");
  EXPECT_EQ(machine.devices, 8);
  EXPECT_EQ(machine.threads, 8);
  EXPECT_EQ(machine.parallel_workers(), 8) << "GPUs need no cores";
  EXPECT_EQ(machine.device_memory, 80'000'000'000);
  EXPECT_EQ(machine.device_link, 450e9);
  EXPECT_EQ(machine.memory, 512 * kGiB) << "that of the host";
  EXPECT_EQ(make_machine(cluster_of("h200", 8), {.devices = 2}, 2, 8 * kGiB).name, "2 x h200");
  ClusterSpec two = cluster_of("h200", 4);
  two.nodes = 2;
  two.network = {.name = "infiniband", .rate = 50e9, .latency = 3e-6};
  const Machine racks = make_machine(two, {}, 2, 8 * kGiB);
  EXPECT_EQ(racks.name, "8 x h200 on 2 nodes");
  EXPECT_EQ(racks.device_nodes, (std::vector{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(racks.ranks, 2);
  EXPECT_FALSE(make_machine({}, {}, 2, 8 * kGiB).has_gpus());
}

TEST(Gpus, HaveTheArticleOfTheirSpokenName) {
  const std::pair<const char*, const char*> names[] = {
      {"h100", "an h100"},         {"a100_80g", "an a100_80g"}, {"l40s", "an l40s"},
      {"rtx_4090", "an rtx_4090"}, {"v100_32g", "a v100_32g"},  {"p40", "a p40"},
      {"b200", "a b200"},          {"tpu_v3", "a tpu_v3"},      {"device", "a device"}};
  for (const auto& [gpu, text] : names) {
    EXPECT_EQ(Machine{.gpu = gpu}.gpu_with_article(), text);
  }
}

TEST(Gpus, ExchangeAtTheRateOfTheirLinkAndStartWorkByALaunch) {
  const Subject subject = subject_of(head_model(), cluster_of("h100", 8));
  const CostModel cost(subject.training_facts, subject.machine);
  const Seconds launch = find_gpu("h100")->launch;
  EXPECT_DOUBLE_EQ(cost.hand_over(), launch);
  EXPECT_DOUBLE_EQ(cost.copy(450'000'000), launch + 1e-3);
  EXPECT_DOUBLE_EQ(cost.sweep(3'350'000'000, 1), 1e-3);
  // Products of 1,000 rows with 67,000 classes of 500 dims take 1 ms in f32; the classes are three blocks.
  const HeadSweep sweep{.rows = 1000, .classes = 67'000, .blocks = 3, .dim = 500};
  EXPECT_NEAR(cost.head(sweep, 1), 1e-3 + 3 * launch, 1e-12);
  EXPECT_DOUBLE_EQ(cost.crowding(8), 1);
}

TEST(Gpus, LinesNameTheSourceOfTheRateOfTheirLink) {
  Machine machine{.devices = 2, .threads = 2, .gpu = "h100", .device_link = 450e9};
  EXPECT_EQ(device_link_text(machine),
            "450 GB/s in each direction between two h100 of a node, as published for NVLink");
  machine.gpu = "NVIDIA RTX A4000";
  machine.device_link = 32e9;
  EXPECT_EQ(device_link_text(machine),
            "32 GB/s in each direction between two NVIDIA RTX A4000 of a node, as assumed for PCIe 4.0 x16");
  machine.devices = 1;
  EXPECT_EQ(device_link_text(machine), "");
}

TEST(Gpus, HaveMemoryOfTheirOwn) {
  // Class weights and a state need 4 GB, more than the host has.
  const Subject subject = subject_of(head_model(), cluster_of("h100", 8, 64 * kMiB));
  const auto plan = subject.plan();
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->training.gpu, "h100");
  const RunMemory memory = run_memory(subject.training, plan->training, plan->inference);
  ASSERT_EQ(memory.devices.size(), 8U);
  Bytes devices = 0;
  for (const Bytes bytes : memory.devices) {
    EXPECT_LE(bytes, subject.machine.device_memory);
    devices += bytes;
  }
  EXPECT_EQ(memory.on_gpus, devices);
  EXPECT_GT(memory.on_gpus, Bytes{4'000'000'000});
  EXPECT_EQ(memory.on_hosts(), plan->training.arenas[0].bytes) << "only the ring of the loader is on the host";
  EXPECT_LT(memory.on_hosts(), 64 * kMiB);
  EXPECT_EQ(memory_of_nodes(plan->training, subject.machine), std::vector{memory.on_hosts()});
}

TEST(Gpus, TheirMemoryIsNamedIfNothingFits) {
  const Module module = head_model(20'000'000);
  const auto refused = subject_of(module, cluster_of("h100", 1)).plan();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0601");
  EXPECT_THAT(refused.error().message, HasSubstr("does not fit: the smallest plan found needs "));
  EXPECT_THAT(refused.error().message, HasSubstr(" on a device, an h100 has 74.5 GiB"));
  EXPECT_THAT(refused.error().label, HasSubstr("1 x h100"));
  const auto larger = subject_of(module, cluster_of("h200", 1)).plan();
  EXPECT_TRUE(larger.ok()) << larger.error().message;
  const auto sharded = subject_of(module, cluster_of("h100", 2)).plan();
  EXPECT_TRUE(sharded.ok()) << sharded.error().message;
}

TEST(Gpus, TheMemoryOfTheHostIsNamedIfItsBuffersDoNotFit) {
  const auto refused = subject_of(head_model(1000), cluster_of("h100", 2, 64 * kKiB)).plan();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0601");
  EXPECT_THAT(refused.error().message, HasSubstr(" on a node, 64.0 KiB are usable on each"));
  ASSERT_FALSE(refused.error().notes.empty());
  EXPECT_THAT(refused.error().notes[0], HasSubstr("batches of the loader, on the host"));
  EXPECT_THAT(refused.error().notes[0], ::testing::Not(HasSubstr("class weights"))) << "they are on the GPUs";
}

TEST(Gpus, AMemoryLimitIsAtMostTheirMemory) {
  Subject subject = subject_of(head_model(), cluster_of("h100", 8));
  EXPECT_EQ(memory_limits(subject.training, subject.machine).device, 80'000'000'000);
  subject.training.schedule.memory_limit = Hint<Bytes>{kGiB, {}};
  EXPECT_EQ(memory_limits(subject.training, subject.machine).device, kGiB);
  subject.training.schedule.memory_limit = Hint<Bytes>{kGiB << 10, {}};
  EXPECT_EQ(memory_limits(subject.training, subject.machine).device, 80'000'000'000);
}

TEST(Gpus, PageAndFileOfAPlanNameThem) {
  const Subject subject = subject_of(head_model(), cluster_of("h100", 8));
  const auto plan = subject.plan();
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE(test::matches_golden(report_text(*plan, subject.training), "report/gpus.txt"));
  const auto json = nlohmann::json::parse(report_json(*plan, subject.training));
  EXPECT_EQ(json["cluster"]["gpu"], "h100");
  EXPECT_EQ(json["cluster"]["gpu_memory"], 80'000'000'000);
  EXPECT_EQ(json["cluster"]["gpu_link"], 450e9);
  EXPECT_EQ(json["run_memory"]["gpus"].size(), 8U);
  const auto loaded = load_plan_bytes(plan_bytes(*plan));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->machine.gpu, "h100");
  EXPECT_EQ(loaded->machine.device_memory, subject.machine.device_memory);
  EXPECT_EQ(loaded->machine.device_link, subject.machine.device_link);
  EXPECT_EQ(loaded->training.gpu, "h100");
  EXPECT_EQ(loaded->inference.gpu, "h100");
  EXPECT_TRUE(check_fresh(*loaded, subject.training, subject.training_facts, subject.machine).ok());
  // On a machine with less memory the plan is stale.
  Machine smaller = subject.machine;
  smaller.device_memory = kMiB;
  const Status stale = check_fresh(*loaded, subject.training, subject.training_facts, smaller);
  ASSERT_FALSE(stale.ok());
  EXPECT_THAT(stale.error().message, HasSubstr(" on a GPU, an h100 has 1.0 MiB"));
}

// Work of GPUs needs no cores, so a step waits for its samples only if the hosts' cores take longer than the GPUs.
TEST(Gpus, WaitForTheLoaderOfTheirHosts) {
  Subject subject = subject_of(head_model(), cluster_of("h100", 8));
  const Seconds step = subject.plan()->predicted.step;
  const auto planned = [&](double share) {
    subject.training_facts.sample = share * step * 64 / 512;  // on 64 cores
    return subject.plan().value();
  };
  EXPECT_DOUBLE_EQ(planned(0.95).predicted.step, step);
  EXPECT_NE(planned(0.95).certificate->limit, Certificate::Limit::kLoader);
  const Plan waits = planned(2);
  EXPECT_DOUBLE_EQ(waits.predicted.step, 2 * step);
  EXPECT_EQ(waits.certificate->limit, Certificate::Limit::kLoader);
  EXPECT_TRUE(test::matches_golden(
      report_text(waits, subject.training) + "\n" + report_table(waits, subject.training, "why", 0),
      "report/loader.txt"));
  const auto json = nlohmann::json::parse(report_json(waits, subject.training));
  EXPECT_EQ(json["certificate"]["limit"]["what"], "loader");
  EXPECT_DOUBLE_EQ(json["certificate"]["limit"]["seconds"], 2 * step);
  const auto loaded = load_plan_bytes(plan_bytes(waits));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->certificate->limit, Certificate::Limit::kLoader);
}

TEST(Gpus, AStepIsNoShorterThanItsBound) {
  const auto plan = subject_of(head_model(), cluster_of("h100", 8)).plan();
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_TRUE(plan->certificate.has_value());
  EXPECT_LE(plan->certificate->bound, plan->predicted.step);
  EXPECT_GT(plan->certificate->bound, 0.2 * plan->predicted.step);
}

std::string code_of(const Subject& subject) {
  const auto plan = subject.plan();
  return plan.ok() ? "" : plan.error().code + " " + plan.error().message;
}

TEST(Gpus, RefuseWhatTheyCannotRun) {
  const Subject plain = subject_of(head_model(10'000), cluster_of("h100", 2));
  EXPECT_EQ(code_of(plain), "");
  Subject sampled = plain;
  sampled.training.train.active_classes = {.kind = ActiveSpec::kSample, .amount = 0.5};
  EXPECT_EQ(code_of(sampled), "XG0634 GPUs cannot run heads with sampled active classes");
  sampled.training.train.active_classes.kind = ActiveSpec::kKnn;
  EXPECT_EQ(code_of(sampled), "XG0634 GPUs cannot run heads with active classes from lists of nearest ones");
  Subject compressed = plain;
  compressed.training.train.compress.density = 0.01;
  EXPECT_EQ(code_of(compressed), "XG0634 GPUs cannot run trainings with compressed gradients");
  Subject halves = plain;
  halves.training.train.precision = PrecisionMode::kMixedF16;
  EXPECT_EQ(code_of(halves), "XG0634 GPUs cannot run trainings in f16");
  Subject mapped = plain;
  mapped.training.train.groups.emplace_back().rows = RowPlace::kMapped;
  EXPECT_EQ(code_of(mapped), "XG0634 GPUs cannot run heads with class rows in a file");
  Subject fp8 = plain;
  fp8.training.train.groups.emplace_back().weights = RowFormat::kFp8;
  EXPECT_EQ(code_of(fp8), "XG0634 GPUs cannot run heads with class rows in fp8");
  fp8.training.train.groups.back().weights = RowFormat::kBf16;
  EXPECT_EQ(code_of(fp8), "");
  Subject idle = plain;
  idle.training.train.groups.emplace_back().untouched = Untouched::kExact;
  EXPECT_EQ(code_of(idle), "") << "without active classes all rows are used in every step";
  EXPECT_EQ(idle.plan()->training.heads[0].untouched, Untouched::kAsIs);
  idle.training.train.active_classes = {.kind = ActiveSpec::kSample, .amount = 0.5};
  EXPECT_EQ(code_of(idle), "XG0634 GPUs cannot run heads with sampled active classes");
  Subject own = plain;
  own.training.train.optimizer.name = "lion";
  own.training.train.optimizer.args = {};
  EXPECT_EQ(code_of(own), "XG0634 GPUs cannot run heads with the optimizer `lion`");
  // Every operator without a kernel is named, wherever it is.
  for (size_t i = 0; i < plain.training_facts.nodes.size(); ++i) {
    Subject lacking = plain;
    lacking.training_facts.nodes[i].missing = "it has no kernel of GPUs for f16 tensors";
    const Node& node = plain.training.graph.nodes[i];
    EXPECT_EQ(code_of(lacking), "XG0633 it has no kernel of GPUs for f16 tensors, and " +
                                    (node.path.empty() ? "the model" : "`" + node.path + "`") + " needs it");
  }
  // CPUs have all kernels.
  Subject cpus = plain;
  cpus.machine = make_machine({.cores = 2, .memory = 8 * kGiB}, {}, 2, 8 * kGiB);
  cpus.training_facts.nodes[0].missing = "it has no kernel";
  EXPECT_EQ(code_of(cpus), "");
}

}  // namespace
}  // namespace xrun::planner
