// Let a stage have the passes f and b, M micro-batches, head passes of h seconds in all, earlier passes E before its
// first pass, earlier passes T after its last one, updates U, and passes R of later stages, from its forward pass of a
// micro-batch to the backward pass of the same micro-batch. One device runs the passes of a stage in the order of the
// schedule, so a step takes at least
//   E + M · (f + b) + h + max(T, U).
// The first backward pass also sets the gradients of the stage to zero, which adds to this sum. Sums of gradients,
// which are a part of U, may run between the parts of its last pass (planner/emit/emit_segments.cpp). Then no earlier
// stage has a backward pass, so T is 0, and the device still runs all of U. A stage that is not the last one also waits
// for R.
//   - GPipe: all forward passes come before all backward passes on every stage. The last forward pass of the last stage
//     comes after R's forward part, then come the head passes on the device of the last stage, and the first backward
//     pass comes after R's backward part: E + M · (f + b) + R + h + max(T, U).
//   - 1F1B: stage s of K runs a = K - 1 - s forward passes after the first one and before the first backward pass, and
//     as many backward passes between its last forward pass and its last backward pass. In both intervals it also runs
//     at most a + 1 head passes, each of h / M: head pass j comes after the forward pass j and before the backward pass
//     j of the last stage. In the first interval it is therefore idle for at least R - a · (f + h / M), in the second
//     one for at least R - a · (b + h / M). The intervals are disjoint if M > a + 1; otherwise all forward passes come
//     before all backward passes, M - 1 replaces a, and the larger one counts.
//     With a further warm-up of x passes, a is K - 1 - s + x.
//   - Split backward passes b = i + w: earlier stages wait only for the gradients of inputs, i. The stage runs those of
//     weights, w, at any time after them. T then has the gradients of inputs of earlier stages alone, and the last term
//     is max(M · i + T, M · b + U) instead of M · b + max(T, U). R has the gradients of inputs of later stages.
//   - Zero bubble: a stage has at most 2 · (K - s) micro-batches in flight, so that a = 2 · (K - s) - 1 bounds its
//     forward passes in the first interval. Gradients of weights may fill the second one, which does not count.
//   - Pipelines other than 1F1B with one head pass for the step have all forward passes before all backward passes, as
//     GPipe has.
//   - Several stages on a device: other stages may run while a stage waits, so only the first sum counts for each stage
//     alone. All passes and updates also take at least their sum divided by the number of devices.
//   - GPipe, again: the forward phase up to the last stage takes at least the largest E + M · f + R's forward part over
//     all stages, and the backward phase the largest R's backward part + M · b + max(T, U). The stages may be
//     different.
// Layers that run again, transfers, and sums over replicas only add time. E, T and R are least values over all cuts of
// the other layers (planner/partition/pass_paths.h).
//
// The bound is the least value, over all cuts, of the largest of these numbers. All of them grow with the end of a
// stage and fall with its beginning: a layer that joins a stage adds M · (f + b) of its times, and takes at most f + b
// from E + T or from R, and at most a · (f + b) from an idle time, with M > a + 1. So stages that are as long as a
// limit permits need the fewest layers for the others, and a bisection over the limit finds the least largest number.
// It returns the end of the last interval at which no cuts were found.
#include "planner/search/bound.h"

#include <algorithm>
#include <utility>

namespace xrun::planner {
namespace {

constexpr Seconds kInfinity = std::numeric_limits<Seconds>::infinity();
constexpr double kPrecision = 1e-7;  // relative width of the last interval of a bisection
constexpr int kMostLayers = 8192;    // longer chains have a weaker bound, without the passes of other stages

CutPositions positions_of(const BoundChain& chain) {
  CutPositions cuts;
  const int layers = static_cast<int>(chain.forward.times.size());
  for (int at = 1; at <= std::min(chain.last_cut, layers - 1); ++at) {
    if (!chain.joined[static_cast<size_t>(at)]) {
      cuts.push_back(at);
    }
  }
  return cuts;
}

PassPaths paths_of(const ChainPasses& passes, const CutPositions& cuts) {
  return passes.times.size() <= kMostLayers ? PassPaths(passes, cuts) : PassPaths({passes.times, {}}, {});
}

ChainPasses input_gradients(const BoundChain& chain) {
  ChainPasses passes = chain.backward;
  for (size_t l = 0; l < passes.times.size(); ++l) {
    passes.times[l] = std::max(0.0, passes.times[l] - chain.weight_gradients[l]);
  }
  return passes;
}

Seconds positive(Seconds time) { return std::max(time, 0.0); }

// Whether all forward passes come before all backward passes.
bool forward_first(const BoundSetting& setting) {
  return setting.pipeline == PipelineKind::kGpipe ||
         (setting.pipeline > PipelineKind::kOneFOneB && setting.head_passes == 1);
}

bool splits(const BoundSetting& setting) {
  return splits_backward(setting.pipeline) ||
         (setting.pipeline == PipelineKind::kInterleaved && setting.head_passes == 1);
}

}  // namespace

StepBound::StepBound(const BoundChain& chain)
    : layers_(static_cast<int>(chain.forward.times.size())),
      cuts_(positions_of(chain)),
      forward_(paths_of(chain.forward, cuts_)),
      backward_(paths_of(chain.backward, cuts_)),
      input_(paths_of(input_gradients(chain), cuts_)) {
  for (size_t l = 0; l < chain.returns.size(); ++l) {
    passes_back_.push_back(passes_back_.back() + (chain.returns[l] ? 1 : 0));
    gradients_.push_back(gradients_.back() + static_cast<double>(chain.gradients[l]));
    states_.push_back(states_.back() + static_cast<double>(chain.states[l]));
  }
}

const PassPaths& StepBound::returning(const BoundSetting& setting) const {
  return splits(setting) ? input_ : backward_;
}

StepBound::StageTimes StepBound::times(const BoundSetting& setting, int stage, int begin, int end) const {
  const auto from = static_cast<size_t>(begin);
  const auto to = static_cast<size_t>(end);
  const PassPaths& back = returning(setting);
  const Seconds hand_over = passes_back_[to] > passes_back_[from] ? setting.hand_over : 0;
  StageTimes times;
  times.forward = setting.forward * forward_.sum(begin, end) + setting.hand_over;
  times.backward = setting.backward * backward_.sum(begin, end) + hand_over;
  times.input = setting.backward * back.sum(begin, end) + hand_over;
  const Seconds zeroing = setting.seconds_per_zeroed_byte * (gradients_[to] - gradients_[from]);
  const Seconds update = setting.seconds_per_gradient_byte * (gradients_[to] - gradients_[from]) +
                         setting.seconds_per_state_byte * (states_[to] - states_[from]) +
                         setting.head_update[static_cast<size_t>(stage)];
  const Seconds waits = setting.micro_batches * times.input + (splits(setting) ? 0 : zeroing) +
                        setting.backward * back.earlier(begin, end);
  times.rest = std::max(waits, setting.micro_batches * times.backward + zeroing + update);
  times.before = setting.forward * forward_.earlier(begin, end);
  times.there = end == layers_ ? 0 : forward_.later(begin, end);
  times.back = end == layers_ ? 0 : back.later(begin, end);
  times.there *= times.there < 0 ? 1 : setting.forward;
  times.back *= times.back < 0 ? 1 : setting.backward;
  return times;
}

Seconds StepBound::load(const BoundSetting& setting, int stage, int begin, int end) const {
  const StageTimes t = times(setting, stage, begin, end);
  const Seconds passes = t.before + setting.micro_batches * t.forward + t.rest;
  const Seconds head = setting.head[static_cast<size_t>(stage)];
  const Seconds own = passes + setting.head_passes * head;
  if (end == layers_ || t.there < 0 || t.back < 0) {
    return own;
  }
  const Seconds later = t.there + t.back;
  const Seconds last_head = setting.head[static_cast<size_t>(setting.stages) - 1];
  if (forward_first(setting)) {
    return std::max(own, passes + later + setting.head_passes * last_head);
  }
  if ((setting.head_passes != 0 && setting.head_passes != setting.micro_batches) || setting.ranks < setting.stages) {
    return own;
  }
  const bool is_split = splits(setting);
  const int filling = is_split ? 2 * (setting.stages - stage) - 1 : setting.stages - 1 - stage + setting.warm_up;
  const int between = std::min(filling, setting.micro_batches - 1);
  // The path of a micro-batch goes through its head pass on the last stage.
  const Seconds path = setting.head_passes > 0 ? later + last_head - head : later;
  const Seconds other = setting.head_passes > 0 ? head : 0;
  const Seconds first = positive(path - between * (t.forward + other));
  const Seconds last = is_split ? 0 : positive(path - between * (t.backward + other));
  return own + (setting.micro_batches > filling + 1 ? first + last : std::max(first, last));
}

Seconds StepBound::shared_work(const BoundSetting& setting) const {
  const Seconds work = setting.micro_batches * all_passes(setting) +
                       (setting.seconds_per_gradient_byte + setting.seconds_per_zeroed_byte) * gradients_.back() +
                       setting.seconds_per_state_byte * states_.back();
  return work / setting.ranks + setting.head_passes * std::ranges::min(setting.head) +
         std::ranges::min(setting.head_update);
}

Seconds StepBound::forward_phase(const BoundSetting& setting, int stage, int begin, int end) const {
  const StageTimes t = times(setting, stage, begin, end);
  return t.there < 0 ? 0 : t.before + setting.micro_batches * t.forward + t.there;
}

Seconds StepBound::backward_phase(const BoundSetting& setting, int stage, int begin, int end) const {
  const StageTimes t = times(setting, stage, begin, end);
  return t.back < 0 ? 0 : t.rest + t.back;
}

template <typename Load>
bool StepBound::possible(const BoundSetting& setting, Seconds limit, const Load& load) const {
  int begin = 0;
  size_t next = 0;  // index of the first cut after `begin`
  for (int s = 0; s + 1 < setting.stages; ++s) {
    // Each later stage needs a cut, too.
    size_t low = next;
    size_t high = cuts_.size() - static_cast<size_t>(setting.stages - 2 - s);
    if (load(s, begin, cuts_[low]) > limit) {
      return false;
    }
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (load(s, begin, cuts_[middle]) <= limit ? low : high) = middle;
    }
    begin = cuts_[low];
    next = low + 1;
  }
  return load(setting.stages - 1, begin, layers_) <= limit;
}

template <typename Load>
Seconds StepBound::least_largest(const BoundSetting& setting, const Load& load, Seconds enough) const {
  if (enough < kInfinity && !possible(setting, enough, load)) {
    return enough;
  }
  Seconds low = 0;
  Seconds high = enough;
  if (high == kInfinity) {
    for (high = 1e-9; !possible(setting, high, load); high *= 2) {
      low = high;
    }
  }
  while (high - low > kPrecision * high) {
    const Seconds middle = (low + high) / 2;
    (possible(setting, middle, load) ? high : low) = middle;
  }
  return low;
}

Seconds StepBound::least(const BoundSetting& setting, Seconds enough) const {
  if (static_cast<size_t>(setting.stages) > cuts_.size() + 1) {
    return kInfinity;
  }
  const auto bind = [&](auto member) {
    return
        [this, &setting, member](int stage, int begin, int end) { return (this->*member)(setting, stage, begin, end); };
  };
  Seconds bound = least_largest(setting, bind(&StepBound::load), enough);
  if (setting.ranks < setting.stages) {
    bound = std::min(enough, std::max(bound, shared_work(setting)));
  }
  if (forward_first(setting) && setting.stages > 1 && bound < enough) {
    const Seconds heads = setting.head_passes * setting.head.back();
    const Seconds phases = least_largest(setting, bind(&StepBound::forward_phase), kInfinity) + heads +
                           least_largest(setting, bind(&StepBound::backward_phase), kInfinity);
    bound = std::min(enough, std::max(bound, phases));
  }
  return bound;
}

Seconds StepBound::all_passes(const BoundSetting& setting) const {
  const int back = passes_back_.back() > 0 ? 1 : 0;  // a stage without a backward pass has no hand-over for it
  return setting.forward * forward_.sum(0, layers_) + setting.backward * backward_.sum(0, layers_) +
         (setting.stages + back) * setting.hand_over;
}

Seconds StepBound::even_share(const BoundSetting& setting) const {
  return (setting.forward * forward_.sum(0, layers_) + setting.backward * backward_.sum(0, layers_)) *
         setting.micro_batches / setting.ranks;
}

}  // namespace xrun::planner
