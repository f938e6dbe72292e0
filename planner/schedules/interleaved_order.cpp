#include "planner/schedules/interleaved_order.h"

#include <algorithm>

namespace xrun::planner {
namespace {

class RankOrder {
 public:
  RankOrder(int ranks, int chunks, int micro_batches, int rank, const InterleavedOrder& how)
      : ranks_(ranks), chunks_(chunks), passes_(micro_batches * chunks), rank_(rank), how_(how) {}

  std::vector<Action> run() {
    const int warm_up = std::min(passes_, (chunks_ - 1) * how_.round + how_.warm_up_slope * (ranks_ - 1 - rank_));
    for (int k = 0; k < warm_up; ++k) {
      add_forward(k);
    }
    for (int k = warm_up; k < passes_; ++k) {
      add_forward(k);
      add_backward(k - warm_up);
    }
    for (int k = passes_ - warm_up; k < passes_; ++k) {
      add_backward(k);
    }
    while (how_.split_passes && weights_ < passes_) {
      add_weight();
    }
    return std::move(order_);
  }

 private:
  int micro_batch(int k) const { return k / (how_.round * chunks_) * how_.round + k % how_.round; }
  int chunk(int k) const { return k / how_.round % chunks_; }
  int stage_of(int chunk) const { return chunk * ranks_ + rank_; }

  void add_forward(int k) { order_.push_back({ActionKind::kForward, micro_batch(k), stage_of(chunk(k))}); }
  void add_weight() {
    const int k = weights_++;
    order_.push_back({ActionKind::kWeightGradient, micro_batch(k), stage_of(chunks_ - 1 - chunk(k))});
  }
  void add_backward(int k) {
    order_.push_back({how_.split_passes ? ActionKind::kInputGradient : ActionKind::kBackward, micro_batch(k),
                      stage_of(chunks_ - 1 - chunk(k))});
    if (how_.split_passes && k >= rank_) {
      add_weight();
    }
  }

  int ranks_;
  int chunks_;
  int passes_;  // forward passes of the rank
  int rank_;
  const InterleavedOrder& how_;
  int weights_ = 0;  // weight gradients so far
  std::vector<Action> order_;
};

}  // namespace

Schedule interleaved_order(const ScheduleRequest& request, const InterleavedOrder& how) {
  Schedule plain = empty_schedule(request);
  const int chunks = plain.stages() / plain.ranks();
  for (int r = 0; r < plain.ranks(); ++r) {
    plain.orders[static_cast<size_t>(r)] = RankOrder(plain.ranks(), chunks, request.micro_batches, r, how).run();
  }
  return insert_head_passes(std::move(plain), request);
}

}  // namespace xrun::planner
