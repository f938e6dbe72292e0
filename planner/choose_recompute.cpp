// What a stage holds and takes, and which of its layers to run again so that it fits. Declared in planner/partition.h.
#include <algorithm>
#include <limits>

#include "planner/partition.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Branch and bound for the cheapest subset that frees `need` bytes: layers by seconds a byte, the bound takes the last
// one in part.
class Cheapest {
 public:
  Cheapest(const PartitionRequest& request, const PartitionStage& stage, Bytes need) {
    for (int l = stage.begin; l < stage.end; ++l) {
      const PartitionLayer& layer = request.layers[static_cast<size_t>(l)];
      if (layer.saved > 0) {
        items_.push_back({l, layer.saved, layer.forward});
      }
    }
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      const double left = a.seconds * static_cast<double>(b.bytes);
      const double right = b.seconds * static_cast<double>(a.bytes);
      return left != right ? left < right : a.layer < b.layer;
    });
    search(0, need, 0);
  }

  bool found() const { return best_ < kInfinity; }
  std::vector<int> layers() const {
    std::vector<int> sorted = chosen_best_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

 private:
  struct Item {
    int layer;
    Bytes bytes;
    Seconds seconds;
  };

  double bound(size_t at, Bytes need) const {
    double sum = 0;
    for (; at < items_.size() && need > 0; ++at) {
      if (items_[at].bytes >= need) {
        return sum + items_[at].seconds * static_cast<double>(need) / static_cast<double>(items_[at].bytes);
      }
      sum += items_[at].seconds;
      need -= items_[at].bytes;
    }
    return need > 0 ? kInfinity : sum;
  }

  void search(size_t at, Bytes need, double spent) {
    if (need <= 0) {
      if (spent < best_) {
        best_ = spent;
        chosen_best_ = chosen_;
      }
      return;
    }
    if (at == items_.size() || visits_-- <= 0 || spent + bound(at, need) >= best_) {
      return;
    }
    chosen_.push_back(items_[at].layer);
    search(at + 1, need - items_[at].bytes, spent + items_[at].seconds);
    chosen_.pop_back();
    size_t next = at + 1;  // leaving one of several equal layers leaves them all: the order among them is free
    while (next < items_.size() && items_[next].bytes == items_[at].bytes &&
           items_[next].seconds == items_[at].seconds) {
      ++next;
    }
    search(next, need, spent);
  }

  std::vector<Item> items_;
  std::vector<int> chosen_;
  std::vector<int> chosen_best_;
  double best_ = kInfinity;
  int visits_ = 200000;  // the first descent is greedy and good: what is found by then is kept
};

}  // namespace

int micro_batches_held(PipelineKind pipeline, int stage, int stages, int micro_batches) {
  return pipeline == PipelineKind::kGpipe ? micro_batches : std::min(micro_batches, stages - stage);
}

bool choose_recompute(const PartitionRequest& request, int held, PartitionStage& stage) {
  stage.recomputed.clear();
  stage.forward = 0;
  stage.backward = 0;
  Bytes resident = 0;
  Bytes saved = 0;
  for (int l = stage.begin; l < stage.end; ++l) {
    const PartitionLayer& layer = request.layers[static_cast<size_t>(l)];
    stage.forward += layer.forward;
    stage.backward += layer.backward;
    resident += layer.resident;
    saved += layer.saved;
  }
  resident += held * request.layers[static_cast<size_t>(stage.begin)].incoming;
  stage.memory = resident + held * saved;
  const bool fits = request.cap == 0 || stage.memory <= request.cap;
  if (request.recompute == Recompute::kNone || (request.recompute == Recompute::kAuto && fits)) {
    return fits;
  }
  if (request.recompute != Recompute::kAuto) {
    for (int l = stage.begin; l < stage.end; ++l) {
      if (request.recompute == Recompute::kAll || request.layers[static_cast<size_t>(l)].again) {
        stage.recomputed.push_back(l);
      }
    }
  } else {
    // held · (bytes freed) must cover what is too much.
    const Bytes need = (stage.memory - request.cap + held - 1) / held;
    const Cheapest cheapest(request, stage, need);
    if (!cheapest.found()) {
      return false;
    }
    stage.recomputed = cheapest.layers();
  }
  for (const int l : stage.recomputed) {
    stage.backward += request.layers[static_cast<size_t>(l)].forward;
    stage.memory -= held * request.layers[static_cast<size_t>(l)].saved;
  }
  return request.cap == 0 || stage.memory <= request.cap;
}

}  // namespace xrun::planner
