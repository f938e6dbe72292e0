// Tests: tests/runtime/train/trainer_test.cpp
#include "runtime/executor/step_profile.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::Kind;
using planner::Program;

// Returns the layers of a pass as text: " (first .. last)".
std::string layers_of(const Graph& graph, const std::vector<NodeId>& nodes) {
  if (nodes.empty()) {
    return "";
  }
  const std::string& first = graph.node(nodes.front()).path;
  const std::string& last = graph.node(nodes.back()).path;
  return first == last ? " (" + first + ")" : " (" + first + " .. " + last + ")";
}

std::string describe(const Instruction& instruction, const Program& program, const Graph& graph) {
  const auto of_stage = [&](const char* pass) {
    const planner::Stage& stage = program.stages[static_cast<size_t>(instruction.stage)];
    return std::string(pass) + " of stage " + std::to_string(instruction.stage) + layers_of(graph, stage.forward);
  };
  const auto of_head = [&](const char* pass) {
    const planner::HeadPlan& head = program.heads[static_cast<size_t>(instruction.head)];
    std::string text = std::string(pass) + " of head " + graph.heads[static_cast<size_t>(head.head)].name;
    return instruction.shard < 0 ? text : text + " (shard " + std::to_string(instruction.shard) + ")";
  };
  switch (instruction.kind) {
    case Kind::kForward:
      return of_stage("forward");
    case Kind::kBackward:
      return of_stage("backward");
    case Kind::kHeadForward:
      return of_head("forward");
    case Kind::kHeadSelect:
      return of_head("selection");
    case Kind::kHeadMass:
      return of_head("share of the active classes");
    case Kind::kReduceStats:
      return of_head("statistics");
    case Kind::kHeadBackward:
      return of_head("backward");
    case Kind::kSumDx:
      return "sum on a node: " + of_head("gradient of features");
    case Kind::kReduceDx:
      return of_head("gradient of features");
    case Kind::kHeadNorms:
      return of_head("norms");
    case Kind::kHeadUpdate:
      return of_head("update");
    case Kind::kSumReplicas:
    case Kind::kSumTied:
      return "sums of gradients";
    case Kind::kFoldPartials:
      return "folding partials of gradients";
    case Kind::kCompress:
      return "compressing gradients";
    case Kind::kNorm:
      return "norms of gradients";
    case Kind::kCopy:
      return "copying rows of head passes";
    default:
      return "update of weights";
  }
}

}  // namespace

StepProfile::StepProfile(const Program& program, const Graph& graph, std::span<const Timing> predicted, DeviceRange own)
    : row_of_(program.instructions.size(), -1) {
  for (int device = own.first; device < own.first + own.count; ++device) {
    std::map<std::tuple<Kind, int, int, int>, size_t> known;
    for (const Instruction& one : program.instructions) {
      if (one.device != device || communicates(one.kind)) {
        continue;
      }
      const auto [at, is_new] = known.emplace(std::tuple(one.kind, one.stage, one.head, one.shard), rows_.size());
      if (is_new) {
        rows_.push_back({.device = device, .what = describe(one, program, graph)});
      }
      const auto id = static_cast<size_t>(one.id.index);
      ProfileRow& row = rows_[at->second];
      ++row.count;
      row.predicted += predicted.empty() ? 0 : predicted[id].end - predicted[id].begin;
      row_of_[id] = static_cast<int32_t>(at->second);
    }
    rows_.push_back({.device = device, .sort = ProfileRow::kComm, .what = "data under way, nothing to compute"});
    rows_.push_back({.device = device,
                     .sort = ProfileRow::kIdle,
                     .what = program.devices > 1 ? "waiting for other devices or a core" : "between instructions"});
  }
  if (!predicted.empty()) {
    TimeTable table(program, own);
    const StepTimes& times = table.measure(predicted);
    for (ProfileRow& row : rows_) {
      const DeviceTimes& device = times.devices[static_cast<size_t>(row.device)];
      row.predicted = row.sort == ProfileRow::kComm   ? device.exposed_comm
                      : row.sort == ProfileRow::kIdle ? device.idle
                                                      : row.predicted;
    }
  }
}

void StepProfile::add(std::span<const Timing> timings, const StepTimes& times) {
  ++steps_;
  for (size_t i = 0; i < timings.size(); ++i) {
    if (row_of_[i] >= 0) {
      rows_[static_cast<size_t>(row_of_[i])].seconds += timings[i].end - timings[i].begin;
    }
  }
  for (ProfileRow& row : rows_) {
    const DeviceTimes& device = times.devices[static_cast<size_t>(row.device)];
    row.seconds += row.sort == ProfileRow::kComm   ? device.exposed_comm
                   : row.sort == ProfileRow::kIdle ? device.idle
                                                   : 0;
  }
}

std::vector<ProfileRow> StepProfile::rows() const {
  std::vector<ProfileRow> means = rows_;
  for (ProfileRow& row : means) {
    row.seconds /= static_cast<double>(std::max<int64_t>(1, steps_));
  }
  // Removes the rows of instructions that take no time.
  std::erase_if(means, [](const ProfileRow& row) { return row.count == 0 && row.seconds + row.predicted < 1e-9; });
  return means;
}

}  // namespace xrun::runtime
