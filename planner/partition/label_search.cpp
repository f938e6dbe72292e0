// Steps: layer by layer, each label is one choice of cuts and of layers to run again for the layers so far. It is
// extended by the next layer in the stage that is open, or in the next stage, with its values kept or running again. A
// label is dropped if it exceeds a limit, if the least cost of the other layers proves that it does not lead to a
// better objective or that it takes more than the stages that are left, or if another label of the same layer and stage
// is no worse in every respect.
// Tests: tests/planner/partition/total_memory_test.cpp
#include "planner/partition/label_search.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace xrun::planner {
namespace {

struct Label {
  Seconds sum = 0;      // times of all layers and hops so far
  Seconds used = 0;     // time of the open stage
  Seconds largest = 0;  // time of the largest closed stage
  Bytes memory = 0;     // memory of all stages so far
  Bytes own = 0;        // memory of the open stage
  int step = -1;        // index of the last choice in the list of choices
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
        layers_(static_cast<int>(request_.layers.size())),
        best_(request.best),
        steps_(steps) {}

  std::optional<Partition> run() {
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
    if (begins) {
      label.largest = std::max(from.largest, from.used);
      label.used = 0;
      label.own = held * l.incoming;
      label.memory += label.own;
      label.sum += in_.bound.hop(layer);
    }
    label.sum += l.forward + l.backward;
    label.used += l.forward + l.backward;
    label.own += l.resident;
    label.memory += l.resident;
    add(stage, layer, label, {from.step, begins, true}, l.forward, 0, to);
    add(stage, layer, label, {from.step, begins, false}, 0, held * l.saved, to);
  }

  // Adds one label, unless it is useless. A layer without kept values does not run again.
  void add(int stage, int layer, Label label, const Choice& choice, Seconds again, Bytes saved,
           std::vector<Label>& to) {
    if (choice.again && request_.layers[static_cast<size_t>(layer)].saved == 0) {
      return;
    }
    label.sum += again;
    label.used += again;
    label.own += saved;
    label.memory += saved;
    if (label.used > in_.last || label.memory > request_.total || (request_.cap > 0 && label.own > request_.cap)) {
      return;
    }
    const double cost = label.sum + in_.price * static_cast<double>(label.memory - request_.total);
    const double rest = in_.bound.rest(stage, layer + 1, label.used);
    const bool too_slow = cost + rest > label.sum - label.used + in_.bound.most(request_.stages - stage, in_.last);
    if (too_slow || objective(cost + rest, largest_of(label)) >= best_ || --steps_ < 0) {
      return;
    }
    label.step = static_cast<int>(choices_.size());
    choices_.push_back(choice);
    to.push_back(label);
  }

  bool no_worse(const Label& a, const Label& b) const {
    return a.sum <= b.sum && a.memory <= b.memory && a.used <= b.used &&
           std::max(a.largest, in_.first) <= std::max(b.largest, in_.first) && (request_.cap == 0 || a.own <= b.own);
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
