// Plans of models/ for GPUs: the memory that a plan gives to kernels is enough for the lists of launches, and models
// without a plan are refused for known reasons.
#include <gtest/gtest.h>
#include <map>

#include "graph/passes/pipeline.h"
#include "lang/frontend.h"
#include "ops/facts/gpu_facts.h"
#include "ops/gpu/launch/gpu_kernel.h"
#include "planner/planner.h"

namespace xrun::cuda {
namespace {

using planner::Instruction;
using planner::Operand;
using planner::Program;
using planner::Role;

struct Planned {
  Module training, inference;
  planner::Plan plan;
};

Result<Planned> plan_for_gpus(const std::string& model, const std::string& precision) {
  SourceMap sources;
  Diagnostics diagnostics;
  const lang::FrontendOptions options{.ops = &ops::registry(), .sets = {{"train.precision", precision}}};
  auto file = lang::load(std::string(XRUN_SOURCE_DIR) + "/models/" + model + ".xgraph", sources, diagnostics, options);
  XRUN_CHECK(file.has_value(), model + " does not check");
  Module& module = file->module;
  module.cluster = {.gpu = "h100", .gpus = 2, .cores = 64, .memory = 512 * kGiB, .reserve = 0};
  module.schedule = {};
  Planned planned;
  XRUN_ASSIGN(planned.training, prepare(module, ops::registry(), {.training = true}));
  XRUN_ASSIGN(planned.inference, prepare(module, ops::registry(), {.training = false}));
  const auto facts = [&](const Module& of, bool training) {
    return ops::gpu_facts(of.graph, of.train.norm_rows, training, of.train.deterministic, *find_gpu("h100"));
  };
  const KernelFacts training = facts(planned.training, true), inference = facts(planned.inference, false);
  const planner::Machine machine = planner::make_machine(module.cluster, {}, 2, 8 * kGiB);
  XRUN_ASSIGN(planned.plan, make_plan(planned.training, planned.inference, training, inference, machine, {}));
  return planned;
}

// Counts of the comparisons, so that a test does not pass without any.
struct Compared {
  int kernels = 0, with_scratch = 0, prepared = 0;
};

void check_pass(const Module& module, const Program& program, const Instruction& pass, Compared& compared) {
  const int64_t blocks = program.micro_batch_rows() / program.norm_rows;
  Bytes scratch = 0;
  for (const Operand& operand : pass.operands) {
    scratch = operand.role == Role::kScratch ? operand.bytes : scratch;
  }
  for (const NodeId id : pass.nodes) {
    const Node& node = module.graph.node(id);
    const ops::gpu::GpuOptions options{.kernel = {.norm_rows = program.norm_rows, .training = program.training},
                                       .most_blocks = blocks};
    const auto kernel = make_gpu_kernel(module.graph, node, options);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    EXPECT_GE(scratch, (*kernel)->scratch_bytes()) << node.op->name << " of `" << node.path << "`";
    ++compared.kernels;
    compared.with_scratch += (*kernel)->scratch_bytes() > 0 ? 1 : 0;
    for (const Operand& operand : pass.operands) {
      if (operand.role == Role::kInput && operand.node == id) {
        const Bytes prepared = (*kernel)->prepared_bytes(operand.index);
        const planner::Buffer& buffer = program.buffer(operand.buffer);
        EXPECT_EQ(buffer.purpose == planner::Purpose::kPrepared, prepared > 0) << node.op->name << operand.index;
        EXPECT_GE(operand.bytes, prepared) << node.op->name << operand.index;
        compared.prepared += prepared > 0 ? 1 : 0;
      }
    }
  }
}

void check_program(const Module& module, const Program& program, Compared& compared) {
  for (const Instruction& one : program.instructions) {
    if (one.kind == planner::Kind::kForward || one.kind == planner::Kind::kBackward) {
      check_pass(module, program, one, compared);
    }
  }
}

// Returns how the message begins for a model that has no plan; all others have one.
std::string refusal_of(const std::string& model) {
  const std::map<std::string, std::string> refused{
      {"sku", "XG0634 GPUs cannot run heads with active classes from lists of nearest ones"},
      {"sku100m", "XG0634 GPUs cannot run heads with active classes from lists of nearest ones"}};
  const auto found = refused.find(model);
  return found == refused.end() ? "" : found->second;
}

class GpuPlans : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(GpuPlans, HaveTheMemoryThatKernelsNeed) {
  const auto& [model, precision] = GetParam();
  const auto planned = plan_for_gpus(model, precision);
  const std::string reason = refusal_of(model);
  const std::string message = planned.ok() ? "" : planned.error().code + " " + planned.error().message;
  EXPECT_EQ(message.substr(0, reason.empty() ? message.size() : reason.size()), reason) << message;
  if (!planned.ok()) {
    return;
  }
  Compared compared;
  check_program(planned->training, planned->plan.training, compared);
  check_program(planned->inference, planned->plan.inference, compared);
  EXPECT_GT(compared.kernels, 0);
  EXPECT_EQ(compared.with_scratch > 0, model != "digits") << "a model of dense layers only needs none";
  EXPECT_EQ(compared.prepared > 0, precision != "f32");
}

std::string name_of_model(const ::testing::TestParamInfo<GpuPlans::ParamType>& of) {
  return std::get<0>(of.param) + (std::get<1>(of.param) == "f32" ? "_f32" : "_bf16");
}
std::vector<std::string> models() {
  return {"digits",   "face", "glyphs",  "insightface", "lemma", "mnist",
          "omniglot", "sku",  "sku100m", "synthetic",   "vit"};
}

INSTANTIATE_TEST_SUITE_P(Models, GpuPlans,
                         ::testing::Combine(::testing::ValuesIn(models()), ::testing::Values("f32", "mixed(bf16)")),
                         name_of_model);

}  // namespace
}  // namespace xrun::cuda
