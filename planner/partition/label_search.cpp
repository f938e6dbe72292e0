// Steps: layer by layer, each label is one choice of cuts and of layers to run again for the layers so far. It is
// extended by the next layer in the stage that is open, or in the next stage, with its values kept or running again. A
// label is dropped if it exceeds a limit, if the least cost of the other layers proves that it does not lead to a
// better objective or that it takes more than the stages that are left, or if another label of the same layer and stage
// is no worse in every respect.
//
// A label counts the bytes of each limit from its first stage to its last one. The stages of a node follow one another
// in the pipeline, except that a node may have the last stages of one replica and the first stages of the next one: its
// bytes are then also counted while the stages between them, which are on other nodes, are open. So the search is exact
// in both cases, but needs more labels in the second one.
// Tests: tests/planner/partition/shared_limits_test.cpp
#include "planner/partition/label_search.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

namespace xrun::planner {
namespace {

using LabelMemory = std::array<Bytes, kMostLabelLimits>;

// Assigns limits to the places of LabelMemory. Limits of which one ends before the other begins may have the same
// place, so limits on nodes that follow one another need one place.
class LabelLimits {
 public:
  LabelLimits(const PartitionRequest& request, const std::vector<NodeLimit>& limits)
      : uses_(static_cast<size_t>(request.stages)) {
    for (const NodeLimit& limit : limits) {
      const auto used = [](int replicas) { return replicas > 0; };
      const auto first = std::ranges::find_if(limit.replicas, used) - limit.replicas.begin();
      const auto last = std::find_if(limit.replicas.rbegin(), limit.replicas.rend(), used).base();
      add(limit, first, last - limit.replicas.begin());
    }
    for (size_t s = 0; s < uses_.size() && request.cap > 0; ++s) {
      NodeLimit cap{request.cap, std::vector<int>(uses_.size(), 0)};
      cap.replicas[s] = 1;
      add(cap, static_cast<std::ptrdiff_t>(s), static_cast<std::ptrdiff_t>(s) + 1);
    }
  }

  // False: the places do not suffice.
  bool complete() const { return complete_; }

  // Sets the bytes to 0 that a stage does not have in common with stages before it.
  void begin(int stage, LabelMemory& memory) const {
    for (size_t k = 0; k < memory.size(); ++k) {
      memory[k] = uses_[static_cast<size_t>(stage)][k].continues ? memory[k] : 0;
    }
  }

  // Adds bytes of a stage. Returns whether the limits hold.
  bool add_bytes(int stage, Bytes bytes, LabelMemory& memory) const {
    bool hold = true;
    for (size_t k = 0; k < places_; ++k) {
      const Use& use = uses_[static_cast<size_t>(stage)][k];
      memory[k] += use.replicas * bytes;
      hold = hold && (use.replicas == 0 || memory[k] <= use.limit);
    }
    return hold;
  }

  // Whether a label has no more bytes of each limit than another one.
  bool no_more(const LabelMemory& a, const LabelMemory& b) const {
    return std::equal(a.begin(), a.begin() + places_, b.begin(), std::less_equal<>());
  }

 private:
  struct Use {
    Bytes limit = 0;
    int replicas = 0;
    bool taken = false;
    bool continues = false;  // the limit also counts a stage before
  };

  void add(const NodeLimit& limit, std::ptrdiff_t first, std::ptrdiff_t last) {
    const auto free = [&](size_t k) {
      return std::none_of(uses_.begin() + first, uses_.begin() + last, [&](const auto& uses) { return uses[k].taken; });
    };
    size_t k = 0;
    while (k < kMostLabelLimits && !free(k)) {
      ++k;
    }
    complete_ = complete_ && k < kMostLabelLimits;
    for (auto s = first; s < last && complete_; ++s) {
      uses_[static_cast<size_t>(s)][k] = {limit.limit, limit.replicas[static_cast<size_t>(s)], true, s > first};
    }
    places_ = std::max(places_, k + 1);
  }

  std::vector<std::array<Use, kMostLabelLimits>> uses_;  // index: stage
  size_t places_ = 0;
  bool complete_ = true;
};

struct Label {
  Seconds sum = 0;      // times of all layers and hops so far
  Seconds used = 0;     // time of the open stage
  Seconds largest = 0;  // time of the largest closed stage
  double cost = 0;      // `sum` and the prices of the memory of all stages so far
  LabelMemory memory{};
  int step = -1;  // index of the last choice in the list of choices
};

// The choice for one layer, and the index of the choice for the layer before.
struct Choice {
  int before = -1;
  bool begins = false;  // begins a stage
  bool again = false;   // runs again
};

class LabelSearch {
 public:
  LabelSearch(const LabelRequest& request, int64_t& steps)
      : in_(request),
        request_(request.request),
        limits_(request_, request.limits),
        layers_(static_cast<int>(request_.layers.size())),
        best_(request.best),
        steps_(steps) {}

  std::optional<Partition> run() {
    if (!limits_.complete()) {
      steps_ = -1;
      return std::nullopt;
    }
    std::vector<std::vector<Label>> open(static_cast<size_t>(request_.stages));
    extend(0, 0, Label{}, true, open[0]);
    for (int l = 1; l <= layers_ && steps_ >= 0; ++l) {
      std::vector<std::vector<Label>> next(open.size());
      for (int s = 0; s < request_.stages && steps_ >= 0; ++s) {
        keep_best(open[static_cast<size_t>(s)]);
        for (const Label& label : open[static_cast<size_t>(s)]) {
          if (l == layers_) {
            finish(s, label);
            continue;
          }
          if (in_.bound.rules().may_have(s, l)) {
            extend(s, l, label, false, next[static_cast<size_t>(s)]);
          }
          if (in_.bound.rules().may_begin(s + 1, l)) {
            extend(s + 1, l, label, true, next[static_cast<size_t>(s) + 1]);
          }
        }
      }
      open = std::move(next);
    }
    return best_step_ < 0 ? std::optional<Partition>() : traced();
  }

 private:
  Seconds largest_of(const Label& label) const { return std::max({label.largest, label.used, in_.first}); }
  double objective(double sum, Seconds largest) const { return sum + (request_.micro_batches - 1) * largest; }

  // Adds the labels that a layer makes of a label: with its values kept, and running again.
  void extend(int stage, int layer, const Label& from, bool begins, std::vector<Label>& to) {
    const PartitionLayer& l = request_.layers[static_cast<size_t>(layer)];
    const Bytes held = in_.bound.held(stage);
    Label label = from;
    Bytes bytes = l.resident;
    if (begins) {
      label.largest = std::max(from.largest, from.used);
      label.used = 0;
      limits_.begin(stage, label.memory);
      bytes += held * l.incoming;
      label.sum += in_.bound.hop(layer);
      label.cost += in_.bound.hop(layer);
    }
    const Seconds time = l.forward + l.backward;
    add(stage, layer, label, {from.step, begins, true}, time + l.again_time(), bytes, to);
    add(stage, layer, label, {from.step, begins, false}, time, bytes + held * l.saved, to);
  }

  // Adds one label, unless it is useless. A layer without kept values does not run again.
  void add(int stage, int layer, Label label, const Choice& choice, Seconds time, Bytes bytes, std::vector<Label>& to) {
    if (choice.again && request_.layers[static_cast<size_t>(layer)].saved == 0) {
      return;
    }
    label.sum += time;
    label.used += time;
    label.cost += time + in_.bound.prices().bytes[static_cast<size_t>(stage)] * static_cast<double>(bytes);
    if (label.used > in_.last || !limits_.add_bytes(stage, bytes, label.memory)) {
      return;
    }
    const double least = label.cost - in_.credit + in_.bound.rest(stage, layer + 1, label.used);
    const bool too_slow = least > label.sum - label.used + in_.bound.most(request_.stages - stage, in_.last);
    if (too_slow || objective(least, largest_of(label)) >= best_ || --steps_ < 0) {
      return;
    }
    label.step = static_cast<int>(choices_.size());
    choices_.push_back(choice);
    to.push_back(label);
  }

  // With one micro-batch, the times of single stages do not matter.
  bool no_worse(const Label& a, const Label& b) const {
    return a.sum <= b.sum &&
           (request_.micro_batches == 1 ||
            (a.used <= b.used && std::max(a.largest, in_.first) <= std::max(b.largest, in_.first))) &&
           limits_.no_more(a.memory, b.memory);
  }

  // Drops labels for which another one is no worse.
  void keep_best(std::vector<Label>& labels) {
    std::ranges::sort(labels, {}, [](const Label& label) {
      return std::tuple(label.sum, label.memory, label.used, label.largest, label.step);
    });
    std::vector<Label> kept;
    for (const Label& label : labels) {
      const bool known = std::ranges::any_of(kept, [&](const Label& other) { return no_worse(other, label); });
      steps_ -= static_cast<int64_t>(kept.size()) / kComparisonsOfAStep;
      if (!known) {
        kept.push_back(label);
      }
      if (steps_ < 0) {
        break;
      }
    }
    labels = std::move(kept);
  }

  void finish(int stage, const Label& label) {
    const double found = objective(label.sum, std::max(label.largest, label.used));
    if (stage + 1 == request_.stages && found < best_) {
      best_ = found;
      best_step_ = label.step;
    }
  }

  Partition traced() const {
    Partition made;
    made.stages.resize(static_cast<size_t>(request_.stages));
    size_t s = made.stages.size() - 1;
    made.stages[s].end = layers_;
    int layer = layers_;
    for (int step = best_step_; step >= 0; step = choices_[static_cast<size_t>(step)].before) {
      const Choice& choice = choices_[static_cast<size_t>(step)];
      --layer;
      if (choice.again) {
        made.stages[s].recomputed.insert(made.stages[s].recomputed.begin(), layer);
      }
      if (choice.begins) {
        made.stages[s].begin = layer;
        if (s > 0) {
          made.stages[--s].end = layer;
        }
      }
    }
    measure(request_, made);
    return made;
  }

  static constexpr int64_t kComparisonsOfAStep = 16;

  const LabelRequest& in_;
  const PartitionRequest& request_;
  LabelLimits limits_;
  int layers_;
  std::vector<Choice> choices_;
  double best_;
  int best_step_ = -1;
  int64_t& steps_;
};

}  // namespace

std::optional<Partition> search_labels(const LabelRequest& request, int64_t& steps) {
  return LabelSearch(request, steps).run();
}

}  // namespace xrun::planner
