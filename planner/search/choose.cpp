// Candidates are tried fastest first. If memory is short, most candidates do not fit, and each program takes long to
// make. Therefore, after the first candidate of a kind does not fit, the candidates of this kind that need the least
// memory (the leanest) are tried next, with recomputation of everything:
//   - For each pipeline, this is the candidate with the most micro-batches. Under 1F1B, a stage holds one micro-batch
//     for itself and one for each later stage, and a head pass has the rows of one micro-batch per replica. So both
//     need less memory if micro-batches are smaller.
//     Under GPipe, a stage holds all micro-batches, so smaller micro-batches reduce only the values in transit between
//     stages.
//   - Both pipelines are tried.
//     A head with several passes keeps features for the sweep at the end of the step, but a head with one pass does
//     not.
// If the leanest candidates exceed a limit by more than this argument neglects (rounding, gaps between buffers, scratch
// memory of workers), no candidate of the kind fits. Otherwise a few of the fastest candidates of the kind are tried.
// In the same way, the kinds that are leanest by the estimate of the partition are tried once: if none of them comes
// near the limits, all kinds are given up.
#include "planner/search/choose.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "planner/program/buffer_sizes.h"

namespace xrun::planner {
namespace {

// If a leanest candidate needs at most this fraction of the limits, another candidate of its kind may fit.
constexpr double kNear = 1.0 + 1.0 / 16;
// The number of kinds that are tried before all kinds are given up. One is not enough, since the estimate that orders
// them counts neither heads nor scratch memory.
constexpr size_t kAskedKinds = 3;

struct KindState {
  std::map<PipelineKind, const Candidate*> leanest;
  int fitted = 0;
  int refused = 0;
  bool asked = false;  // whether the leanest candidates of the kind have been tried
  bool near = false;   // whether a program of the kind fits, or nearly fits
  bool left = false;
};

class Chooser {
 public:
  Chooser(const FitInput& input, const std::vector<Candidate>& candidates, const MemoryLimits& limits,
          const Effort& effort)
      : input_(input), candidates_(candidates), limits_(limits), effort_(effort) {
    for (const Candidate& candidate : candidates) {
      const Candidate*& leanest = kind_of(candidate).leanest[candidate.setting.pipeline];
      if (leanest == nullptr || candidate.setting.micro_batches > leanest->setting.micro_batches) {
        leanest = &candidate;
      }
    }
  }

  Result<Choice> run() {
    exclude_heavy_kinds();
    for (const Candidate& candidate : candidates_) {
      KindState& kind = kind_of(candidate);
      if (static_cast<int>(choice_.fitted.size()) >= effort_.wanted) {
        break;
      }
      if (!choice_.fitted.empty() && input_.search.is_over()) {
        choice_.complete = false;
        break;
      }
      if (!kind.left && kind.fitted < effort_.of_kind && !tried_.contains(&candidate)) {
        XRUN_TRY(attempt(candidate));
        XRUN_TRY(look_again(kind));
      }
    }
    if (choice_.fitted.empty() && choice_.smallest.memory.sum() == 0) {
      XRUN_TRY(ask_leanest_kinds(1));  // all are too large; one program shows by how much
    }
    choice_.compared = static_cast<int>(tried_.size());
    sort_fitted();
    return std::move(choice_);
  }

 private:
  KindState& kind_of(const Candidate& candidate) {
    return kinds_[{candidate.setting.stages, candidate.setting.replicas, candidate.setting.head_devices}];
  }

  // Excludes the kinds of candidates whose least possible memory exceeds the limits; no programs are made for them.
  void exclude_heavy_kinds() {
    choice_.weights_alone = true;
    for (auto& [key, kind] : kinds_) {
      const Candidate& leanest = *kind.leanest.begin()->second;  // also has the fewest partials
      kind.left = !memory_floor(input_.search, leanest, leanest.decision.partials).is_within(limits_);
      choice_.weights_alone =
          choice_.weights_alone && !memory_floor(input_.search, leanest, leanest.setting.replicas).is_within(limits_);
    }
    for (const Candidate& candidate : candidates_) {
      if (kind_of(candidate).left) {
        choice_.refused.push_back(candidate.setting);
      }
    }
  }

  Status attempt(const Candidate& candidate) {
    KindState& kind = kind_of(candidate);
    tried_.insert(&candidate);
    input_.search.begin("program " + std::to_string(tried_.size()) + ", " + std::to_string(choice_.fitted.size()) +
                        " of at most " + std::to_string(effort_.wanted) + " to compare are made (" +
                        to_text(candidate.setting) + ")");
    std::vector<Candidate> full;
    if (candidate.rough) {
      XRUN_ASSIGN(full, decide(input_.search, candidate.setting, candidate.recompute));
    }
    Fitted least;
    XRUN_ASSIGN(std::optional<Fitted> made, fit(input_, full.empty() ? candidate : full[0], limits_, least));
    if (made) {
      ++kind.fitted;
      kind.near = true;
      choice_.fitted.push_back(std::move(*made));
    } else {
      refuse(candidate, std::move(least));
    }
    return {};
  }

  void refuse(const Candidate& candidate, Fitted least) {
    KindState& kind = kind_of(candidate);
    ++kind.refused;
    kind.near = kind.near || limits_.share(least) <= kNear;
    choice_.refused.push_back(candidate.setting);
    if (choice_.smallest.memory.sum() == 0 || limits_.share(least) < limits_.share(choice_.smallest)) {
      choice_.smallest = std::move(least);
    }
  }

  // Called after a candidate of a kind did not fit: decides whether to try more candidates of the kind and, after the
  // first candidate that did not fit, whether to try any kind.
  Status look_again(KindState& kind) {
    if (kind.refused == 0) {
      return {};
    }
    if (!asked_all_ && choice_.fitted.empty()) {
      asked_all_ = true;
      XRUN_TRY(ask_leanest_kinds(kAskedKinds));
      const bool hopeless = std::ranges::none_of(kinds_, [](const auto& each) { return each.second.near; });
      for (auto& [key, each] : kinds_) {
        each.left = each.left || hopeless;
      }
    }
    if (!kind.left && kind.fitted == 0) {
      XRUN_TRY(ask_leanest(kind));
    }
    kind.left = kind.left || !kind.near || kind.refused >= effort_.refused;
    return {};
  }

  // Returns the candidate with recomputation of everything or, if hints decide what is recomputed, the unchanged
  // candidate; nullopt if no cuts satisfy the pins.
  Result<std::optional<Candidate>> with_least_memory(const Candidate& candidate) const {
    if (input_.search.hints.hinted) {
      return std::optional(candidate);
    }
    XRUN_ASSIGN(std::vector<Candidate> made, decide(input_.search, candidate.setting, Recompute::kAll));
    return made.empty() ? std::optional<Candidate>() : std::optional(std::move(made[0]));
  }

  Status ask_leanest(KindState& kind) {
    if (kind.asked) {
      return {};
    }
    kind.asked = true;
    for (const auto& [pipeline, candidate] : kind.leanest) {
      if (!tried_.contains(candidate)) {
        XRUN_TRY(ask(*candidate));
      }
    }
    return {};
  }

  // Tries a candidate. If its estimate exceeds the limits, a program with recomputation of everything is made first; if
  // that program is not near the limits, no further programs of the candidate are made.
  Status ask(const Candidate& candidate) {
    if (share_of(candidate) <= 1) {
      return attempt(candidate);
    }
    XRUN_ASSIGN(const std::optional<Candidate> lean, with_least_memory(candidate));
    if (!lean) {
      return {};
    }
    XRUN_ASSIGN(Fitted made, realise(input_, *lean));
    if (limits_.share(made) <= kNear) {
      return attempt(candidate);
    }
    tried_.insert(&candidate);
    refuse(candidate, std::move(made));
    return {};
  }

  // Returns the used fraction of the tightest limit, by the estimate of the partition.
  double share_of(const Candidate& candidate) const {
    return limits_.share(candidate.all_stages, candidate.largest_stage, candidate.largest_node());
  }

  Status ask_leanest_kinds(size_t most) {
    const bool all_left = std::ranges::all_of(kinds_, [](const auto& each) { return each.second.left; });
    std::vector<std::pair<double, KindState*>> order;
    for (auto& [key, kind] : kinds_) {
      double least = HUGE_VAL;
      for (const auto& [pipeline, candidate] : kind.leanest) {
        XRUN_ASSIGN(const std::optional<Candidate> lean, with_least_memory(*candidate));
        least = lean ? std::min(least, share_of(*lean)) : least;
      }
      if (!kind.left || all_left) {
        order.emplace_back(least, &kind);
      }
    }
    std::ranges::stable_sort(order, {}, [](const auto& each) { return each.first; });
    for (size_t i = 0; i < std::min(most, order.size()); ++i) {
      XRUN_TRY(ask_leanest(*order[i].second));
    }
    return {};
  }

  // Sorts by predicted time, rounded to a thousandth, and then by simplicity, so that the simplest one of several
  // equally fast plans comes first.
  void sort_fitted() {
    std::ranges::stable_sort(choice_.fitted, {}, [](const Fitted& f) {
      const Setting& setting = f.candidate.setting;
      return std::tuple(std::llround(std::log(f.predicted.step) * 1e3), setting.stages, setting.micro_batches,
                        setting.replicas);
    });
  }

  const FitInput& input_;
  const std::vector<Candidate>& candidates_;
  const MemoryLimits& limits_;
  const Effort& effort_;
  Choice choice_;
  std::map<std::tuple<int, int, int>, KindState> kinds_;  // key: stages, replicas and devices of heads
  std::set<const Candidate*> tried_;
  bool asked_all_ = false;
};

// Returns a lower bound of the bytes of each layer of the chain. A weight that several layers read does not count,
// since the cuts determine which stages hold it.
std::vector<Bytes> layer_floors(const SearchInput& input, int partials_of_replica) {
  const Graph& graph = input.module.graph;
  const Chain& chain = input.chain;
  std::vector<int> readers(graph.params.size(), 0);
  const auto each_param = [&](NodeId node, const auto& action) {
    for (const ValueId value : graph.node(node).inputs) {
      if (const ParamId param = graph.value(value).param; param.valid()) {
        const ParamId weight = graph.param(param).tied.valid() ? graph.param(param).tied : param;
        action(readers[static_cast<size_t>(weight.index)]);
      }
    }
  };
  for (const NodeId node : chain.nodes) {
    each_param(node, [](int& count) { ++count; });
  }
  std::vector<Bytes> floors;
  for (size_t i = 0; i < chain.nodes.size(); ++i) {
    bool own = true;
    each_param(chain.nodes[i], [&](int count) { own = own && count == 1; });
    floors.push_back(own ? chain.resident[i] + chain.gradients[i] * partials_of_replica : 0);
  }
  return floors;
}

// Returns a lower bound of the bytes of heads on each device: class weights with their optimizer states.
std::map<int, Bytes> head_floors(const SearchInput& input, const Decision& decision) {
  const auto states = static_cast<Bytes>(optimizer_states(input.module).size());
  std::map<int, Bytes> floors;
  for (const HeadPlan& head : decision.heads) {
    if (head.mapped) {
      continue;  // rows in a file need no memory
    }
    const bool updated = head.loss.valid() && !head.frozen;
    for (const HeadShard& shard : head.shards) {
      const auto bytes_of = [&](Purpose purpose) { return shard_bytes(head, shard, head.weight, purpose); };
      floors[shard.device] +=
          bytes_of(Purpose::kHeadWeight) + (updated ? states * bytes_of(Purpose::kHeadOptimizer) : 0);
    }
  }
  return floors;
}

}  // namespace

Result<Choice> choose(const FitInput& input, const std::vector<Candidate>& candidates, const MemoryLimits& limits,
                      const Effort& effort) {
  return Chooser(input, candidates, limits, effort).run();
}

bool MemoryFloor::is_within(const MemoryLimits& limits) const {
  return total <= limits.total && (limits.device == 0 || device <= limits.device) &&
         (limits.node == 0 || node <= limits.node);
}

MemoryFloor memory_floor(const SearchInput& input, const Candidate& candidate, int partials) {
  const Setting& setting = candidate.setting;
  MemoryFloor floor;
  Bytes layers = 0;
  for (const Bytes bytes : layer_floors(input, partials / setting.replicas)) {
    layers += bytes;
    floor.device = std::max(floor.device, bytes);
  }
  floor.device = std::max(floor.device, (layers + setting.stages - 1) / setting.stages);
  floor.total = layers * setting.replicas;
  std::map<int, Bytes> nodes;
  for (const auto& [device, bytes] : head_floors(input, candidate.decision)) {
    floor.device = std::max(floor.device, bytes);
    floor.total += bytes;
    Bytes& node = nodes[input.machine.node_of(device)];
    node += bytes;
    floor.node = std::max(floor.node, node);
  }
  return floor;
}

}  // namespace xrun::planner
