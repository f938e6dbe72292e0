// Cuts the last backward pass of the first stage into segments, so that buckets of gradients are sent while earlier
// layers still run (docs/decisions/0067-buckets-leave-during-the-backward-pass.md). A segment is a range of the pass's
// nodes, runs on all row blocks of the micro-batch, and ends where a bucket is final. Values that later segments read
// have buffers with the rows of the micro-batch; in a whole pass they would be in the slices of workers. A cut is made
// only where these values have fewer bytes than the gradients that can leave: the network is slower than memory, so the
// exchange gains more time than the values cost. Other stages are not cut, since their exchanges overlap with the
// backward passes of earlier stages anyway.
// Tests: tests/planner/emit/segments_test.cpp
#include <algorithm>
#include <numeric>

#include "planner/cost/cost_model.h"
#include "planner/emit/emitter.h"
#include "planner/emit/local_uses.h"

namespace xrun::planner {
// Finds the segments of the pass. The pass stays whole if the decision does not ask for segments, if layers are
// computed again, since each segment would need its own part of them, if gradients are compressed, and if the schedule
// splits passes.
void Emitter::cut_last_pass() {
  const auto first = std::ranges::find_if(program_.stages, [&](const Stage& each) {
    return !flow_.stages[static_cast<size_t>(each.index)].gradients.empty();
  });
  if (!decision_.early_buckets || program_.replicas == 1 || !split_.empty() || first == program_.stages.end() ||
      !first->recomputed.empty() || request_.module.train.compress.is_on()) {
    return;
  }
  const StageFlow& flow = flow_.stages[static_cast<size_t>(first->index)];
  if (!flow.sent_gradients.empty()) {
    return;
  }
  const std::vector<LocalUse> uses = local_uses(graph_, first->backward, flow.backward_locals);
  std::vector<Bytes> crossing(first->backward.size() + 1, 0);  // index: cut; bytes of the values that later nodes read
  for (const LocalUse& use : uses) {
    const Bytes bytes = align_up(type(use.value).bytes(program_.micro_batch_rows(), program_.norm_rows));
    crossing[use.made + 1] += bytes;
    crossing[use.last_read + 1] -= bytes;
  }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  const std::vector<Bucket> buckets = gradient_buckets(first->index, false);
  size_t begin = 0;
  Segment open;
  Bytes leaving = 0;
  for (size_t b = 0; b < buckets.size(); ++b) {
    for (const ParamId param : buckets[b]) {
      leaving += gradient_elements(param) * static_cast<Bytes>(sizeof(float));
      open.gradients.push_back(param);
    }
    const bool last = b + 1 == buckets.size();
    const NodeId maker = graph_.value(graph_.param_grads[buckets[b].back()]).producer;
    const auto made = static_cast<size_t>(std::ranges::find(first->backward, maker) - first->backward.begin());
    const size_t end = last ? first->backward.size() : made + 1;
    if (last || crossing[end] < leaving) {
      open.nodes.assign(first->backward.begin() + static_cast<std::ptrdiff_t>(begin),
                        first->backward.begin() + static_cast<std::ptrdiff_t>(end));
      RangeValues values = values_of_range(uses, begin, end);
      open.kept = std::move(values.kept);
      open.layout = layout_block(graph_, request_.facts, open.nodes, values.locals, local_rows(), program_.norm_rows);
      segments_.push_back(std::move(open));
      open = {.first_bucket = b + 1};
      begin = end;
      leaving = 0;
    }
  }
  if (segments_.size() < 2) {
    segments_.clear();
    return;
  }
  cut_stage_ = first->index;
  divide_time(first->backward_time, segments_);
}

// Divides the time of a pass among its segments, in proportion to the estimated times of their nodes.
void Emitter::divide_time(Seconds whole, std::span<Segment> segments) const {
  const CostModel cost(request_.facts, request_.machine);
  Seconds sum = 0;
  for (Segment& segment : segments) {
    for (const NodeId id : segment.nodes) {
      segment.time += cost.node(graph_, id, program_.norm_rows);
    }
    sum += segment.time;
  }
  for (Segment& segment : segments) {
    segment.time *= sum > 0 ? whole / sum : 0.0;
  }
}

// Emits a segment of the last backward pass on all replicas, and the sums of the partials of its gradients.
void Emitter::emit_segment(const Segment& segment) {
  for (int replica = 0; replica < program_.replicas; ++replica) {
    emit_pass(cut_stage_, replica, per_replica() - 1, true, segment);
  }
  emit_folds(cut_stage_, segment.gradients);
}

}  // namespace xrun::planner
