#include "runtime/bench/calibration/measured_calls.h"

#include <gtest/gtest.h>

#include "graph/passes/pipeline.h"
#include "lang/frontend.h"
#include "ops/norm/norm_numbers.h"
#include "ops/op.h"
#include "planner/cost/calibrated_times.h"

namespace xrun::runtime {
namespace {

// The kinds of calls in all probes of a type, without measurements.
std::map<std::string, int> kinds_of_probes(bool bf16) {
  std::map<std::string, int> kinds;
  for (const Probe& probe : probes()) {
    SourceMap sources;
    Diagnostics diagnostics;
    auto file = lang::check_text("probe.xgraph", probe_text(probe, bf16), sources, diagnostics,
                                 {.ops = &ops::registry(), .norm_of = ops::norm_group});
    EXPECT_TRUE(file) << probe.name;
    if (!file) {
      continue;
    }
    EXPECT_EQ(file->module.train.norm_rows, probe.rows) << probe.name;
    const auto module = prepare(std::move(file->module), ops::registry(), {.training = true});
    EXPECT_TRUE(module.ok()) << probe.name;
    for (const Node& node : module->graph.nodes) {
      kinds[planner::call_kind(module->graph, node)] += 1;
    }
  }
  return kinds;
}

TEST(MeasuredCalls, TheProbesHaveCallsOfAllUsualKinds) {
  for (const bool bf16 : {false, true}) {
    const auto kinds = kinds_of_probes(bf16);
    for (const char* kind : {"conv",
                             "conv_dx",
                             "conv_dw",
                             "conv1x1",
                             "conv1x1_dx",
                             "conv1x1_dw",
                             "conv_strided",
                             "conv_strided_dx",
                             "conv_strided_dw",
                             "conv1x1_strided",
                             "conv_depthwise",
                             "conv_depthwise_dx",
                             "conv_depthwise_dw",
                             "conv_depthwise_strided",
                             "linear",
                             "linear_dx",
                             "linear_dw",
                             "attention",
                             "attention_grad",
                             "bn",
                             "max_pool",
                             "layer_norm"}) {
      EXPECT_TRUE(kinds.count(kind) == 1) << kind;
    }
  }
}

}  // namespace
}  // namespace xrun::runtime
