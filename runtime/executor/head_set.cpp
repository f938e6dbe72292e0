#include "runtime/executor/head_set.h"

#include "graph/base/check.h"

namespace xrun::runtime {

HeadSet::HeadSet(const Graph& graph, const planner::Program& program, ops::Isa isa) {
  for (size_t h = 0; h < program.heads.size(); ++h) {
    const planner::HeadPlan& head = program.heads[h];
    const int index = static_cast<int>(h);
    std::vector<ClassRange> ranges;
    std::vector<Part> parts;
    std::map<int, Bytes> on_device;
    Bytes stats = 0;
    for (size_t s = 0; s < head.shards.size(); ++s) {
      const planner::HeadShard& shard = head.shards[s];
      XRUN_CHECK(shard.shard == static_cast<int>(s), "shards of a head are listed in order");
      ranges.push_back({shard.row_begin, shard.row_end});
      Part part{.stats_offset = stats, .gradient_offset = on_device[shard.device]};
      if (shard.row_begin < shard.row_end) {
        const HeadShape shape = planner::head_shape(program, graph, head, shard, head.rows);
        part.stats = head_stats_bytes(shape);
        part.gradient = head_gradient_bytes(shape);
        for (const int64_t rows : {head.rows, program.batch}) {
          auto& passes = passes_[{index, {shard.shard, rows}}];
          if (passes == nullptr) {
            passes = std::make_unique<ops::HeadPasses>(planner::head_shape(program, graph, head, shard, rows), isa);
          }
        }
      }
      stats += part.stats;
      on_device[shard.device] += part.gradient;
      parts.push_back(part);
    }
    parts_.push_back(std::move(parts));
    joins_.push_back(std::make_unique<ops::HeadJoin>(
        planner::head_shape(program, graph, head, head.shards[0], head.rows), std::move(ranges), isa));
  }
}

const ops::HeadPasses& HeadSet::passes(int head, int shard, int64_t rows) const {
  const auto at = passes_.find({head, {shard, rows}});
  XRUN_CHECK(at != passes_.end(), "a head pass over a shard without rows, or over other rows than planned");
  return *at->second;
}

Bytes HeadSet::stats_offset(int head, int shard) const {
  return parts_[static_cast<size_t>(head)][static_cast<size_t>(shard)].stats_offset;
}
Bytes HeadSet::stats_bytes(int head, int shard) const {
  return parts_[static_cast<size_t>(head)][static_cast<size_t>(shard)].stats;
}
Bytes HeadSet::gradient_offset(int head, int shard) const {
  return parts_[static_cast<size_t>(head)][static_cast<size_t>(shard)].gradient_offset;
}
Bytes HeadSet::gradient_bytes(int head, int shard) const {
  return parts_[static_cast<size_t>(head)][static_cast<size_t>(shard)].gradient;
}

}  // namespace xrun::runtime
