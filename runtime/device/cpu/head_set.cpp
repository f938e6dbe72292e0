#include "runtime/device/cpu/head_set.h"

#include "graph/base/check.h"

namespace xrun::runtime {

using planner::Kind;

HeadSet::HeadSet(const Graph& graph, const planner::Program& program, ops::Isa isa) {
  for (size_t h = 0; h < program.heads.size(); ++h) {
    const planner::HeadPlan& head = program.heads[h];
    const int index = static_cast<int>(h);
    std::vector<ClassRange> ranges;
    for (const planner::HeadShard& shard : head.shards) {
      ranges.push_back({shard.row_begin, shard.row_end});
      if (shard.row_begin == shard.row_end) {
        continue;
      }
      for (const int64_t rows : {head.rows, program.batch}) {
        auto& passes = passes_[{index, {shard.shard, rows}}];
        if (passes == nullptr) {
          passes = std::make_unique<ops::HeadPasses>(planner::head_shape(program, graph, head, shard, rows), isa);
        }
      }
      if (head.active > 0) {
        masses_[{index, shard.shard}] =
            std::make_unique<ops::HeadMass>(planner::head_shape(program, graph, head, shard, head.rows), isa);
      }
    }
    joins_.push_back(std::make_unique<ops::HeadJoin>(
        planner::head_shape(program, graph, head, head.shards[0], head.rows), std::move(ranges), isa));
  }
  std::map<std::vector<int64_t>, std::shared_ptr<const ops::HeadJoin>> known;  // key: head and terms
  for (const planner::Instruction& one : program.instructions) {
    if (one.kind != Kind::kReduceDx && one.kind != Kind::kSumDx) {
      continue;
    }
    const planner::HeadPlan& head = program.heads[static_cast<size_t>(one.head)];
    const std::vector<ClassRange> terms = planner::classes_of_dx_terms(one, head);
    std::vector<int64_t> key{one.head};
    for (const ClassRange& term : terms) {
      key.insert(key.end(), {term.begin, term.end});
    }
    std::shared_ptr<const ops::HeadJoin>& join = known[key];
    if (join == nullptr) {
      join = std::make_shared<ops::HeadJoin>(planner::head_shape(program, graph, head, head.shards[0], head.rows),
                                             terms, isa);
    }
    joins_of_dx_[one.id] = join;
  }
}

const ops::HeadPasses& HeadSet::passes(int head, int shard, int64_t rows) const {
  const auto at = passes_.find({head, {shard, rows}});
  XRUN_CHECK(at != passes_.end(), "a head pass over a shard without rows, or over other rows than planned");
  return *at->second;
}

}  // namespace xrun::runtime
