// Computes memory and time of a stage, and chooses the layers that run again so that the stage fits (also declared in
// planner/partition/partition.h). If the stage exceeds the cap, the cheapest set of layers that frees the excess is a
// knapsack problem, solved by branch and bound: layers are tried in the order of their seconds per freed byte; the
// lower bound of a branch is the greedy solution that may take a fraction of its last layer. The number of visited
// branches is limited, so for very large stages the result may be only nearly optimal, which the result says.
// Tests: tests/planner/partition/partition_test.cpp
#include "planner/partition/growing_stage.h"

#include <algorithm>
#include <limits>

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Item = GrowingStage::Item;

bool is_cheaper(const Item& a, const Item& b) {
  const double left = a.seconds * static_cast<double>(b.bytes);
  const double right = b.seconds * static_cast<double>(a.bytes);
  return left != right ? left < right : a.layer < b.layer;
}

// Finds the cheapest subset of the items that frees `need` bytes, by branch and bound. Items are sorted by seconds per
// byte; the bound of a branch takes items in this order, and a fraction of the last one.
class Cheapest {
 public:
  Cheapest(const PartitionRequest& request, const std::vector<Item>& items, Bytes need) : items_(items) {
    bytes_before_.reserve(items.size() + 1);
    seconds_before_.reserve(items.size() + 1);
    for (const Item& item : items_) {
      bytes_before_.push_back(bytes_before_.back() + item.bytes);
      seconds_before_.push_back(seconds_before_.back() + item.seconds);
    }
    // The limit of visits permits at least one descent to a solution. In addition, each stage gets a part of the visits
    // that are allowed for the table of all stages.
    const double stages = static_cast<double>(request.layers.size()) * static_cast<double>(request.layers.size());
    visits_ = static_cast<int64_t>(items_.size()) + std::min<int64_t>(200'000, static_cast<int64_t>(1e7 / stages));
    search(0, need, 0);
  }

  bool found() const { return best_ < kInfinity; }
  bool proven() const { return !gave_up_; }
  const std::vector<int>& layers() const { return chosen_best_; }

 private:
  double bound(size_t at, Bytes need) const {
    const Bytes wanted = bytes_before_[at] + need;
    const auto last =
        std::lower_bound(bytes_before_.begin() + static_cast<std::ptrdiff_t>(at), bytes_before_.end(), wanted);
    if (last == bytes_before_.end()) {
      return kInfinity;
    }
    const auto end = static_cast<size_t>(last - bytes_before_.begin());  // items at .. end - 1 and a part of the last
    const Item& part = items_[end - 1];
    return seconds_before_[end - 1] - seconds_before_[at] +
           part.seconds * static_cast<double>(wanted - bytes_before_[end - 1]) / static_cast<double>(part.bytes);
  }

  void search(size_t at, Bytes need, double spent) {
    if (need <= 0) {
      if (spent < best_) {
        best_ = spent;
        chosen_best_ = chosen_;
      }
      return;
    }
    if (at == items_.size() || spent + bound(at, need) >= best_) {
      return;
    }
    if (visits_-- <= 0) {
      gave_up_ = true;
      return;
    }
    chosen_.push_back(items_[at].layer);
    search(at + 1, need - items_[at].bytes, spent + items_[at].seconds);
    chosen_.pop_back();
    size_t next = at + 1;  // also leaves out later equal layers, since it does not matter which of them run again
    while (next < items_.size() && items_[next].bytes == items_[at].bytes &&
           items_[next].seconds == items_[at].seconds) {
      ++next;
    }
    search(next, need, spent);
  }

  const std::vector<Item>& items_;
  std::vector<int> chosen_;
  std::vector<int> chosen_best_;
  double best_ = kInfinity;
  std::vector<Bytes> bytes_before_{0};  // entry i: sum over the items before i; the last entry is the sum over all
  std::vector<Seconds> seconds_before_{0};
  int64_t visits_ = 0;  // the first descent is greedy, so a good result exists when visits run out
  bool gave_up_ = false;
};

// Whether a layer runs again even without a memory limit.
bool runs_again(const PartitionRequest& request, const PartitionLayer& layer) {
  return request.recompute == Recompute::kAll || (request.recompute == Recompute::kChosen && layer.again);
}

}  // namespace

int micro_batches_held(const PartitionRequest& request, int stage) {
  const int later = request.stages - stage;
  if (request.in_phases) {
    return request.micro_batches;
  }
  switch (request.pipeline) {
    case PipelineKind::kGpipe:
      break;
    case PipelineKind::kOneFOneB:
      return std::min(request.micro_batches, later + (later > 1 ? request.warm_up : 0));
    case PipelineKind::kZeroBubble:
      return std::min(request.micro_batches, 2 * later);
    case PipelineKind::kInterleaved:
    case PipelineKind::kZbV:
      return std::min(request.micro_batches, request.stages);
  }
  return request.micro_batches;
}

StageSums::StageSums(const PartitionRequest& request, int held, int begin)
    : request_(request),
      held_(held),
      end_(begin),
      memory_(held * request.layers[static_cast<size_t>(begin)].incoming) {}

void StageSums::add_layer() {
  const PartitionLayer& layer = request_.layers[static_cast<size_t>(end_++)];
  const bool again = runs_again(request_, layer);
  forward_ += layer.forward;
  backward_ += layer.backward;
  repeated_ += again ? layer.forward : 0;
  memory_ += layer.resident + (again ? 0 : held_ * layer.saved);
}

GrowingStage::GrowingStage(const PartitionRequest& request, int held, int begin)
    : request_(request), held_(held), end_(begin), sums_(request, held, begin) {}

void GrowingStage::add_layer() {
  sums_.add_layer();
  const PartitionLayer& layer = request_.layers[static_cast<size_t>(end_)];
  if (runs_again(request_, layer)) {
    recomputed_.push_back(end_);
  } else if (layer.saved > 0) {
    items_.push_back({end_, layer.saved, layer.again_time()});
  }
  ++end_;
}

void GrowingStage::sort_items() {
  if (items_.size() == sorted_ + 1) {
    std::rotate(std::upper_bound(items_.begin(), items_.end() - 1, items_.back(), is_cheaper), items_.end() - 1,
                items_.end());
  } else {
    std::sort(items_.begin(), items_.end(), is_cheaper);
  }
  sorted_ = items_.size();
}

Recomputation GrowingStage::choose(PartitionStage& stage) {
  stage.recomputed = recomputed_;
  stage.forward = sums_.forward();
  stage.backward = sums_.backward();
  stage.memory = sums_.memory();
  if (sums_.fits() || request_.recompute != Recompute::kAuto) {
    return {.fits = sums_.fits()};
  }
  if (sorted_ < items_.size()) {
    sort_items();
  }
  // The bytes freed for one micro-batch, times `held`, must cover the excess over the cap.
  const Cheapest cheapest(request_, items_, (stage.memory - request_.cap + held_ - 1) / held_);
  for (const int l : cheapest.layers()) {
    const PartitionLayer& layer = request_.layers[static_cast<size_t>(l)];
    stage.recomputed.push_back(l);
    stage.backward += layer.again_time();
    stage.memory -= held_ * layer.saved;
  }
  std::sort(stage.recomputed.begin(), stage.recomputed.end());
  return {.fits = cheapest.found() && stage.memory <= request_.cap, .proven = cheapest.proven()};
}

Recomputation choose_recompute(const PartitionRequest& request, int held, PartitionStage& stage) {
  GrowingStage grown(request, held, stage.begin);
  for (int l = stage.begin; l < stage.end; ++l) {
    grown.add_layer();
  }
  return grown.choose(stage);
}

}  // namespace xrun::planner
