#include "planner/program/dx_terms.h"

#include <algorithm>
#include <iterator>

namespace xrun::planner {

DxTerms::DxTerms(const HeadPlan& head, std::span<const int> device_nodes) : head_(head), device_nodes_(device_nodes) {
  std::vector<DxTerm> runs;  // groups of neighbouring shards on one node
  for (const HeadShard& shard : head.shards) {
    if (shard.row_begin >= shard.row_end) {
      continue;
    }
    if (!device_nodes.empty() && !runs.empty() && node_of(shard.device) == node_of(runs.back().device)) {
      runs.back().shards.push_back(shard.shard);
      runs.back().classes.end = shard.row_end;
    } else {
      runs.push_back({{shard.shard}, shard.device, {shard.row_begin, shard.row_end}});
    }
  }
  for (DxTerm& run : runs) {
    std::vector<DxTerm> shards = shards_of(run);
    int64_t apart = 0;
    for (const DxTerm& shard : shards) {
      apart += partials(shard);
    }
    if (partials(run) < apart) {
      terms_.push_back(std::move(run));
    } else {  // summing first would not reduce the number of partials that the node sends
      std::ranges::move(shards, std::back_inserter(terms_));
    }
  }
}

int64_t DxTerms::partials(const DxTerm& term) const {
  const ClassBlocks blocks = head_.blocks();
  return static_cast<int64_t>(blocks.subtrees(blocks.of_rows(term.classes)).size());
}

std::vector<DxTerm> DxTerms::of_sum(int receiver, int turn) const {
  std::vector<DxTerm> terms;
  for (const DxTerm& term : terms_) {
    if (!term.is_summed()) {
      terms.push_back(term);
    } else if (node_of(term.device) == node_of(receiver)) {
      std::ranges::move(shards_of(term), std::back_inserter(terms));
    } else {
      const std::set<int> devices = devices_of(term);
      terms.push_back(term);
      terms.back().device = *std::next(devices.begin(), turn % static_cast<int>(devices.size()));
    }
  }
  return terms;
}

const DxTerm* DxTerms::on_node(int first) const {
  const auto found = std::ranges::find_if(
      terms_, [first](const DxTerm& term) { return term.is_summed() && term.shards.front() == first; });
  return found == terms_.end() ? nullptr : &*found;
}

std::vector<DxTerm> DxTerms::shards_of(const DxTerm& summed) const {
  std::vector<DxTerm> terms;
  for (const int number : summed.shards) {
    const HeadShard& shard = head_.shards[static_cast<size_t>(number)];
    terms.push_back({{number}, shard.device, {shard.row_begin, shard.row_end}});
  }
  return terms;
}

std::set<int> DxTerms::devices_of(const DxTerm& summed) const {
  std::set<int> devices;
  for (const int shard : summed.shards) {
    devices.insert(head_.shards[static_cast<size_t>(shard)].device);
  }
  return devices;
}

std::map<int, int64_t> DxTerms::partials_by_node() const {
  std::map<int, int64_t> sent;
  for (const DxTerm& term : terms_) {
    sent[node_of(term.device)] += partials(term);
  }
  return sent;
}

std::map<int, std::vector<DxSum>> dx_sums(const Program& program, const HeadPlan& head, int stage, int gather) {
  const DxTerms all(head, program.device_nodes);
  std::map<int, std::vector<DxSum>> sums;
  for (int replica = 0; replica < program.replicas; ++replica) {
    const int receiver = program.stages[static_cast<size_t>(stage)].devices[static_cast<size_t>(replica)];
    DxSum sum{.replica = replica, .device = receiver, .terms = all.of_sum(receiver, replica + gather)};
    for (const DxTerm& term : sum.terms) {
      if (term.is_summed()) {
        sums[term.shards.front()].push_back(
            {.replica = replica, .device = term.device, .result = term, .terms = all.shards_of(term)});
      }
    }
    sums[-1].push_back(std::move(sum));
  }
  return sums;
}

std::set<int> members_of(std::span<const DxSum> sums) {
  std::set<int> members;
  for (const DxSum& sum : sums) {
    for (const DxTerm& term : sum.terms) {
      if (term.device != sum.device) {
        members.insert({term.device, sum.device});
      }
    }
  }
  return members;
}

HeadGradientRows dx_rows(const Program& program, const Graph& graph, const HeadPlan& head, const DxTerm& term,
                         int replica, int gather) {
  const int place = head.rows == program.batch ? replica * program.micro_batches_of_replica() + gather : replica;
  const int64_t rows = program.micro_batch_rows();
  const HeadShard& first = head.shards[static_cast<size_t>(term.shards.front())];
  HeadShape shape = head_shape(program, graph, head, first, head.rows);
  shape.shard = term.classes;
  return head_gradient_rows(shape, rows * place, rows * (place + 1));
}

}  // namespace xrun::planner
