// With `topk(p, per_node=true)`, the replicas of a node sum whole gradients before the node compresses them. Compares
// the run with the method in which nodes are the senders. Every plan with the same number of nodes gives the same bits.
// Also tests checkpoints.
#include <filesystem>
#include <gmock/gmock.h>
#include <set>

#include "tests/runtime/checkpoint/checkpoint_model.h"
#include "tests/runtime/runs/compressed_runs.h"

namespace xrun::runtime {
namespace {

using testing::compressed_module;
using testing::deep_model;
using testing::density_of;
using testing::make_program;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::Prepared;
using testing::start;
using testing::values_of;

CompressSpec by_node(double density) { return {.density = density, .on = {}, .per_node = true}; }

PlanChoice on_nodes(int nodes, int replicas) {
  return {.devices = replicas, .threads = replicas, .replicas = replicas, .micro_batches = 4, .nodes = nodes};
}

// The method of the paper, in which each worker is a host that first sums the gradients of its replicas.
TEST(CompressByNode, FollowsThePaperWithNodesAsSenders) {
  for (const ClipSpec clip : {ClipSpec{}, ClipSpec{ClipSpec::kNorm, 0.3}, ClipSpec{ClipSpec::kValue, 0.01}}) {
    ModelOptions options{.layers = 0, .rate = 0.2};
    options.clip = clip;
    CompressSpec compress = by_node(0.02);
    compress.warmup = TrainSpan{8, TrainSpan::kSteps};
    const Prepared prepared = testing::prepare_for(compressed_module(options, compress));
    for (const auto& [nodes, replicas] : {std::pair(1, 1), {1, 4}, {2, 2}, {2, 4}, {4, 4}}) {
      SCOPED_TRACE(fmt::format("{} nodes, {} replicas", nodes, replicas));
      testing::expect_follows_paper(prepared, options, on_nodes(nodes, replicas), nodes);
    }
    PlanChoice six = on_nodes(2, 6);
    six.micro_batches = 12;
    six.deterministic = false;
    testing::expect_follows_paper(prepared, options, six, 2);
  }
}

std::vector<PlanChoice> choices_with(int nodes) {
  std::vector<PlanChoice> choices;
  for (int replicas = nodes; replicas <= 4; replicas *= 2) {
    for (const int stages : {1, 2}) {
      for (const int micro_batches : {4, 12}) {
        choices.push_back({.devices = replicas * stages,
                           .threads = replicas * stages * (micro_batches == 4 ? 1 : 2),
                           .stages = stages,
                           .replicas = replicas,
                           .micro_batches = micro_batches,
                           .pipeline = micro_batches == 12 ? PipelineKind::kOneFOneB : PipelineKind::kGpipe,
                           .recompute = micro_batches == 12,
                           .shards = stages + 1,
                           .overlap = micro_batches == 4,
                           .nodes = nodes});
      }
    }
  }
  return choices;
}

// If each node has one replica, `per_node` changes nothing.
TEST(CompressByNode, OnlyTheNumberOfNodesChangesTheBits) {
  const ModelOptions options = deep_model();
  CompressSpec compress = by_node(0.02);
  compress.warmup = TrainSpan{8, TrainSpan::kSteps};
  const Prepared prepared = testing::prepare_for(compressed_module(options, compress));
  compress.per_node = false;
  const Prepared by_replica = testing::prepare_for(compressed_module(options, compress));
  const auto run = [&](const Prepared& how, const PlanChoice& choice, bool sequential) {
    auto running = start(how, options, choice, sequential);
    running->session->compress_by(density_of);
    running->steps(0, 6);
    return running;
  };
  std::set<std::string> results;
  for (const int nodes : {1, 2, 4}) {
    const auto plain = run(by_replica, on_nodes(nodes, nodes), false);
    const std::string weights = plain->session->state().weights_digest();
    for (const PlanChoice& choice : choices_with(nodes)) {
      for (const bool sequential : {false, true}) {
        SCOPED_TRACE(choice.text() + (sequential ? ", sequential" : ""));
        const auto running = run(prepared, choice, sequential);
        const TrainState& state = running->session->state();
        EXPECT_EQ(running->program.senders(), nodes);
        EXPECT_EQ(state.weights_digest(), weights);
        EXPECT_EQ(values_of(state, "layer1.linear.weight.residual"),
                  values_of(plain->session->state(), "layer1.linear.weight.residual"));
      }
    }
    results.insert(weights);
  }
  EXPECT_EQ(results.size(), 3U) << "the number of nodes changes the result";
}

TEST(CompressByNode, RanksHaveTheBitsOfOneProcess) {
  const ModelOptions options = deep_model();
  const Prepared prepared = testing::prepare_for(compressed_module(options, by_node(0.03)));
  for (const int stages : {1, 2}) {
    for (const int ranks : {2, 4}) {
      const PlanChoice choice{.devices = 4 * stages,
                              .threads = 4 * stages,
                              .stages = stages,
                              .replicas = 4,
                              .micro_batches = 4,
                              .shards = 3,
                              .nodes = 2};
      const auto program = make_program(prepared, choice);
      ASSERT_TRUE(program.ok()) << choice.text();
      const std::string expected = testing::run_one(prepared, options, *program).weights;
      for (const auto& result : testing::run_ranks(prepared, options, *program, ranks)) {
        ASSERT_TRUE(result.status.ok()) << choice.text() << ": " << result.status.error().message;
        EXPECT_EQ(result.weights, expected) << choice.text() << " on " << ranks << " ranks";
      }
    }
  }
}

// For each tensor, one replica of a node holds the residual. The replicas of a node divide the tensors among them.
TEST(CompressByNode, ANodeKeepsOneResidual) {
  const ModelOptions options = deep_model();
  const Prepared prepared = testing::prepare_for(compressed_module(options, by_node(0.03)));
  auto running = start(prepared, options, on_nodes(2, 4));
  EXPECT_EQ(running->session->state().find("layer1.linear.weight.residual")->rows(), 2);
  std::map<std::string, int> copies;
  std::map<int, Bytes> kept;  // bytes of residuals on each replica
  for (const planner::Buffer& buffer : running->program.buffers) {
    if (buffer.purpose == planner::Purpose::kResidual) {
      ++copies[buffer.name];
      kept[buffer.replica] += buffer.bytes;
    }
  }
  for (const auto& [name, count] : copies) {
    EXPECT_EQ(count, 2) << name;
  }
  EXPECT_EQ(kept.size(), 4U);
}

class CompressedByNode : public testing::CheckpointDirectory {
 protected:
  std::unique_ptr<testing::Running> stopped(int nodes, int replicas) {
    std::filesystem::remove_all(root_);
    auto first = start(prepared_, model_, on_nodes(nodes, replicas));
    first->steps(0, 4);
    EXPECT_TRUE(store()->save(first->session->state(), 4, 4 * model_.batch).ok());
    return first;
  }
  const ModelOptions model_ = deep_model();
  const Prepared prepared_ = testing::prepare_for(compressed_module(model_, by_node(0.03)));
};

// The resumed run may have another number of replicas per node.
TEST_F(CompressedByNode, ResumedRunsEqualRunsThatWereNotStopped) {
  for (const int nodes : {1, 2}) {
    auto whole = start(prepared_, model_, on_nodes(nodes, 4));
    whole->steps(0, 10);
    for (const auto& [before, after] : {std::pair(4, 4), {4, nodes}, {nodes, 4}}) {
      SCOPED_TRACE(fmt::format("{} nodes, {} replicas, then {}", nodes, before, after));
      stopped(nodes, before);
      auto second = start(prepared_, model_, on_nodes(nodes, after));
      const auto resumed = store()->resume(second->session->state());
      ASSERT_TRUE(resumed.ok() && *resumed) << resumed.error().message;
      EXPECT_TRUE((*resumed)->warnings.empty());
      ASSERT_TRUE(second->session->weights_changed().ok());
      second->steps(4, 10);
      EXPECT_EQ(second->session->state().weights_digest(), whole->session->state().weights_digest());
      for (const char* name : {"stem.weight.residual", "layer2.linear.weight.velocity"}) {
        EXPECT_EQ(values_of(second->session->state(), name), values_of(whole->session->state(), name)) << name;
      }
    }
  }
}

TEST_F(CompressedByNode, ResumedRunsKeepTheSumOfTheResidualsOnAnotherNumberOfNodes) {
  for (const auto& [before, after] : {std::pair(2, 4), {4, 2}, {4, 1}, {1, 4}, {1, 2}, {2, 1}}) {
    SCOPED_TRACE(fmt::format("{} to {}", before, after));
    const auto first = stopped(before, 4);
    auto second = start(prepared_, model_, on_nodes(after, 4));
    testing::expect_goes_on(*store(), *first, *second, before);
  }
}

}  // namespace
}  // namespace xrun::runtime
