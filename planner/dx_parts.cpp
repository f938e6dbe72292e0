#include "planner/dx_parts.h"

#include <algorithm>
#include <iterator>

namespace xrun::planner {
namespace {

int node_of(std::span<const int> device_nodes, int device) {
  return device_nodes.empty() ? 0 : device_nodes[static_cast<size_t>(device)];
}

// Whether the sum of a part has fewer partials than its shards.
bool saves(const HeadPlan& head, const DxPart& part) {
  const ClassBlocks blocks = head.blocks();
  const auto partials = [&](ClassRange rows) { return blocks.subtrees(blocks.of_rows(rows)).size(); };
  size_t apart = 0;
  for (const int shard : part.shards) {
    const HeadShard& one = head.shards[static_cast<size_t>(shard)];
    apart += partials({one.row_begin, one.row_end});
  }
  return partials(part.classes) < apart;
}

DxPart part_of(const HeadShard& shard) {
  return {.shards = {shard.shard}, .device = shard.device, .classes = {shard.row_begin, shard.row_end}};
}

}  // namespace

std::vector<DxPart> dx_parts(const HeadPlan& head, std::span<const int> device_nodes, int receiver, int turn) {
  std::vector<DxPart> runs;  // of shards next to one another on a node, except on the receiver's
  for (const HeadShard& shard : head.shards) {
    if (shard.row_begin >= shard.row_end) {
      continue;
    }
    const int node = node_of(device_nodes, shard.device);
    if (!runs.empty() && node == node_of(device_nodes, runs.back().device) && node != node_of(device_nodes, receiver)) {
      runs.back().shards.push_back(shard.shard);
      runs.back().classes.end = shard.row_end;
    } else {
      runs.push_back(part_of(shard));
    }
  }
  std::vector<DxPart> parts;
  for (DxPart& run : runs) {
    if (!run.is_summed() || !saves(head, run)) {
      std::ranges::move(shards_of(head, run), std::back_inserter(parts));
      continue;
    }
    const std::set<int> devices = devices_of(head, run);
    run.device = *std::next(devices.begin(), turn % static_cast<int>(devices.size()));
    parts.push_back(std::move(run));
  }
  return parts;
}

std::vector<DxPart> dx_parts(const Program& program, const HeadPlan& head, int stage, int replica, int gather) {
  const int receiver = program.stages[static_cast<size_t>(stage)].devices[static_cast<size_t>(replica)];
  return dx_parts(head, program.device_nodes, receiver, replica + gather);
}

std::optional<DxPart> summed_part(const Program& program, const HeadPlan& head, int stage, int replica, int gather,
                                  int first_shard) {
  for (DxPart& part : dx_parts(program, head, stage, replica, gather)) {
    if (part.is_summed() && part.shards.front() == first_shard) {
      return std::move(part);
    }
  }
  return std::nullopt;
}

std::vector<DxPart> shards_of(const HeadPlan& head, const DxPart& part) {
  std::vector<DxPart> shards;
  for (const int shard : part.shards) {
    shards.push_back(part_of(head.shards[static_cast<size_t>(shard)]));
  }
  return shards;
}

std::set<int> devices_of(const HeadPlan& head, const DxPart& part) {
  std::set<int> devices;
  for (const int shard : part.shards) {
    devices.insert(head.shards[static_cast<size_t>(shard)].device);
  }
  return devices;
}

HeadGradientRows dx_rows(const Program& program, const Graph& graph, const HeadPlan& head, const DxPart& part,
                         int replica, int gather) {
  const int place = head.rows == program.batch ? replica * program.micro_batches_of_replica() + gather : replica;
  const int64_t rows = program.micro_batch_rows();
  HeadShape shape = head_shape(program, graph, head, head.shards[static_cast<size_t>(part.shards.front())], head.rows);
  shape.shard = part.classes;
  return head_gradient_rows(shape, rows * place, rows * (place + 1));
}

}  // namespace xrun::planner
