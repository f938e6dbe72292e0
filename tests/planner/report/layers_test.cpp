#include "planner/report/layers.h"

#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "planner/cost/cost_model.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/report/json.h"
#include "planner/report/text.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

using nlohmann::json;
using testing::ModelOptions;

struct Wanted {
  ModelOptions model;
  int stages = 1;
  int replicas = 1;
  bool recompute = false;
  int workers = 1;  // number for each device
};

struct Planned {
  Module module;
  KernelFacts facts;
  Plan plan;
};

Planned make(const Wanted& wanted) {
  Module module = testing::make_module(wanted.model);
  module.schedule.stages = Hint<int64_t>{wanted.stages, {}};
  module.schedule.replicas = Hint<int64_t>{wanted.replicas, {}};
  module.schedule.micro_batches = Hint<int64_t>{2 * wanted.replicas, {}};
  if (wanted.recompute) {
    module.schedule.recompute = Hint<RecomputeHint>{{RecomputeHint::kAll, {}}, {}};
  }
  const int devices = wanted.stages * wanted.replicas;
  const int threads = devices * wanted.workers;
  const Machine machine{.name = "cpu", .cores = threads, .devices = devices, .threads = threads, .memory = kGiB};
  Planned planned{testing::prepare_training(module), {}, {}};
  const Module inference = testing::prepare_inference(module);
  planned.facts = testing::make_facts(planned.module);
  planned.plan =
      make_plan(planned.module, inference, planned.facts, testing::make_facts(inference), machine, {}).value();
  return planned;
}

const ModelOptions kDense{.layers = 4, .input = 256, .width = 256, .batch = 64, .norm_rows = 8};

std::vector<Wanted> all_wanted() {
  const ModelOptions skips{.layers = 5, .width = 128, .skips = true, .batch = 64, .norm_rows = 8};
  const ModelOptions head{.layers = 3, .width = 128, .classes = 2000, .head = true, .batch = 64, .norm_rows = 4};
  std::vector<Wanted> list;
  for (const ModelOptions& model : {kDense, skips, head}) {
    for (const bool recompute : {false, true}) {
      for (const auto& [stages, replicas] : {std::pair(1, 1), std::pair(3, 1), std::pair(2, 2), std::pair(1, 2)}) {
        list.push_back({model, stages, replicas, recompute, replicas});
      }
    }
  }
  return list;
}

PassTimes sum(const std::vector<PassTimes>& times) {
  return std::accumulate(times.begin(), times.end(), PassTimes(), [](PassTimes all, const PassTimes& one) {
    all += one;
    return all;
  });
}

TEST(Layers, TimesOfNodesAddUpToTheirStage) {
  for (const Wanted& wanted : all_wanted()) {
    const Planned planned = make(wanted);
    const Program& program = planned.plan.training;
    ASSERT_EQ(program.stages.size(), static_cast<size_t>(wanted.stages));
    ASSERT_EQ(program.replicas, wanted.replicas);
    for (const Stage& stage : program.stages) {
      EXPECT_EQ(stage.recomputed.empty(), !wanted.recompute);
      ASSERT_EQ(node_times(stage).size(), stage.forward.size());
      const PassTimes all = sum(node_times(stage));
      EXPECT_GT(all.forward, 0);
      EXPECT_EQ(all.recompute > 0, wanted.recompute);
      EXPECT_DOUBLE_EQ(all.forward, stage.forward_time);
      EXPECT_DOUBLE_EQ(all.backward + all.recompute, stage.backward_time);
    }
  }
}

// Each node has the time of its row blocks on the workers of a device, as the cost model gives it.
TEST(Layers, TimesOfNodesAreThoseOfTheCostModel) {
  for (const Wanted& wanted : all_wanted()) {
    const Planned planned = make(wanted);
    const Graph& graph = planned.module.graph;
    const Program& program = planned.plan.training;
    const CostModel cost(planned.facts, planned.plan.machine);
    const int64_t blocks = program.micro_batch_rows() / program.norm_rows;
    const int64_t rounds = (blocks + wanted.workers - 1) / wanted.workers;
    for (const Stage& stage : program.stages) {
      const std::vector<PassTimes> times = node_times(stage);
      for (size_t i = 0; i < times.size(); ++i) {
        Seconds back = 0;
        for (const NodeId id : stage.backward) {
          back += graph.node(id).forward == stage.forward[i] ? cost.node(graph, id, program.norm_rows) : 0;
        }
        const Seconds forward = cost.node(graph, stage.forward[i], program.norm_rows);
        EXPECT_DOUBLE_EQ(times[i].forward, forward * static_cast<double>(rounds)) << graph.node(stage.forward[i]).path;
        EXPECT_GE(times[i].backward, back * static_cast<double>(rounds) * (1 - 1e-12));
        EXPECT_LE(times[i].backward, back * static_cast<double>(blocks) * (1 + 1e-12));
      }
    }
  }
}

TEST(Layers, RowsOfAStageAddUpToItsTimeInEveryForm) {
  for (const Wanted& wanted : all_wanted()) {
    const Planned planned = make(wanted);
    const Plan& plan = planned.plan;
    const auto page = json::parse(report_json(plan, planned.module));
    const auto rows = json::parse(table_json(plan, planned.module, "layers"))["layers"];
    for (const Stage& stage : plan.training.stages) {
      PassTimes of_ops;
      PassTimes of_layers;
      PassTimes of_nodes;
      const auto add = [](const json& row, PassTimes& times) {
        times += {row["forward_seconds"], row["backward_seconds"], row["recompute_seconds"]};
      };
      for (const json& op : page["ops"]) {
        if (op["stage"] == stage.index) {
          add(op, of_ops);
        }
      }
      for (const json& row : rows) {
        if (row["stage"] == stage.index) {
          add(row, of_layers);
          for (const json& node : row["nodes"]) {
            add(node, of_nodes);
          }
        }
      }
      const json& printed = page["stages"][static_cast<size_t>(stage.index)];
      for (const PassTimes& times : {of_ops, of_layers, of_nodes}) {
        EXPECT_DOUBLE_EQ(times.forward, printed["forward_seconds"]);
        EXPECT_DOUBLE_EQ(times.backward + times.recompute, printed["backward_seconds"]);
        EXPECT_EQ(times.recompute > 0, wanted.recompute);
      }
    }
  }
}

// Reads the numbers of the column that ends where `title` ends in the first line, for the lines before the totals.
std::vector<double> column(const std::string& table, const std::string& title, bool totals) {
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);
  const size_t end = line.find(title) + title.size();
  std::vector<double> numbers;
  bool after = false;
  while (std::getline(lines, line) && !line.starts_with("MFLOP:")) {
    const bool rule = line.find("---") != std::string::npos;
    after = after || rule;
    if (!rule && after == totals) {
      const size_t begin = line.rfind(' ', end - 1);
      numbers.push_back(std::stod(line.substr(begin, end - begin)));
    }
  }
  return numbers;
}

TEST(Layers, TextHasTheSumsOfEachStage) {
  const Planned planned = make({.model = kDense, .stages = 3, .recompute = true});
  const std::string table = report_table(planned.plan, planned.module, "layers");
  for (const char* title : {"fwd ms", "bwd ms", "recompute ms"}) {
    const std::vector<double> rows = column(table, title, false);
    const std::vector<double> sums = column(table, title, true);
    ASSERT_EQ(sums.size(), 3U) << table;
    const double half_digits = 5e-4 * static_cast<double>(rows.size() + sums.size());
    EXPECT_NEAR(std::accumulate(rows.begin(), rows.end(), 0.0), std::accumulate(sums.begin(), sums.end(), 0.0),
                half_digits)
        << table;
  }
  const Stage& stage = planned.plan.training.stages[1];
  EXPECT_NEAR(column(table, "fwd ms", true)[1], stage.forward_time * 1e3, 6e-4);
  EXPECT_NEAR(column(table, "bwd ms", true)[1] + column(table, "recompute ms", true)[1], stage.backward_time * 1e3,
              2e-3);
  const Planned plain = make({.model = kDense});
  EXPECT_EQ(report_table(plain.plan, plain.module, "layers").find("recompute"), std::string::npos);
}

// The module of the reader has no kernel facts at all, so the table can only have the numbers of the file.
TEST(Layers, APlanFileHasThePlannedTimes) {
  const Planned planned = make({.model = kDense, .stages = 2, .replicas = 2, .recompute = true});
  const auto loaded = load_plan_bytes(plan_bytes(planned.plan));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  for (size_t s = 0; s < planned.plan.training.stages.size(); ++s) {
    EXPECT_EQ(loaded->training.stages[s].forward_times, planned.plan.training.stages[s].forward_times);
    EXPECT_EQ(loaded->training.stages[s].backward_times, planned.plan.training.stages[s].backward_times);
  }
  EXPECT_EQ(report_table(*loaded, planned.module, "layers"), report_table(planned.plan, planned.module, "layers"));
  EXPECT_EQ(report_json(*loaded, planned.module), report_json(planned.plan, planned.module));
}

TEST(Layers, TimesThatAreNotThoseOfTheStageAreRejected) {
  const Planned planned = make({.model = kDense, .recompute = true});
  const auto code = [&](const std::function<void(Stage&)>& change) {
    Plan plan = planned.plan;
    change(plan.training.stages[0]);
    const auto loaded = load_plan_bytes(plan_bytes(plan));
    return loaded.ok() ? "" : loaded.error().code;
  };
  EXPECT_EQ(code([](Stage&) {}), "");
  EXPECT_EQ(code([](Stage& stage) { stage.forward_times[2] *= 1.01; }), "XG0621");
  EXPECT_EQ(code([](Stage& stage) { stage.backward_times[0] = -stage.backward_times[0]; }), "XG0621");
  EXPECT_EQ(code([](Stage& stage) { stage.backward_times.pop_back(); }), "XG0621");
  EXPECT_EQ(code([](Stage& stage) { stage.backward_time *= 1.01; }), "XG0621");
  EXPECT_EQ(code([](Stage& stage) { stage.forward_times[0] = std::numeric_limits<double>::quiet_NaN(); }), "XG0621");
}

// Earlier versions wrote no times of nodes.
TEST(Layers, APlanFileWithoutTimesOfNodesShowsNone) {
  Planned planned = make({.model = kDense, .stages = 2});
  for (Stage& stage : planned.plan.training.stages) {
    stage.forward_times.clear();
    stage.backward_times.clear();
  }
  const auto loaded = load_plan_bytes(plan_bytes(planned.plan));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const std::string table = report_table(*loaded, planned.module, "layers");
  EXPECT_NE(table.find("earlier version has no times of layers"), std::string::npos) << table;
  const auto rows = json::parse(table_json(*loaded, planned.module, "layers"))["layers"];
  EXPECT_TRUE(rows[0]["forward_seconds"].is_null());
  EXPECT_TRUE(rows[0]["nodes"][0]["backward_seconds"].is_null());
}

}  // namespace
}  // namespace xrun::planner
