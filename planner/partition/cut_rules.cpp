#include "planner/partition/cut_rules.h"

#include <algorithm>

namespace xrun::planner {

CutRules::CutRules(const PartitionRequest& request)
    : request_(request), layers_(static_cast<int>(request.layers.size())) {
  next_pins_.assign(static_cast<size_t>(layers_) + 1, {layers_, layers_});
  for (int l = layers_ - 1; l >= 0; --l) {
    const NextPins& later = next_pins_[static_cast<size_t>(l) + 1];
    const int pinned = pin_of(l);
    if (pinned >= 0) {
      next_pins_[static_cast<size_t>(l)] = {l, pin_of(later.first) == pinned ? later.other : later.first};
    } else {
      next_pins_[static_cast<size_t>(l)] = later;
    }
  }
}

int CutRules::pin_of(int layer) const {
  return layer == layers_ ? -1 : request_.layers[static_cast<size_t>(layer)].pinned;
}

bool CutRules::may_have(int stage, int layer) const {
  const int pinned = pin_of(layer);
  return pinned < 0 || pinned == stage;
}

bool CutRules::may_cut(int layer) const {
  const int last = request_.last_cut > 0 ? request_.last_cut : layers_ - 1;
  return layer > 0 && layer <= last && !request_.layers[static_cast<size_t>(layer)].joined;
}

bool CutRules::may_begin(int stage, int layer) const {
  if (stage == 0 || layer == 0) {
    return stage == 0 && layer == 0 && may_have(0, 0);
  }
  return stage < request_.stages && layer <= layers_ - (request_.stages - stage) && may_cut(layer) &&
         may_have(stage, layer);
}

int CutRules::last_end(int stage, int layer) const {
  const NextPins& pins = next_pins_[static_cast<size_t>(layer)];
  return std::min(pin_of(pins.first) == stage ? pins.other : pins.first, layers_ - (request_.stages - stage - 1));
}

bool CutRules::may_end(int stage, int layer) const {
  return stage + 1 == request_.stages ? layer == layers_ : layer < layers_ && may_begin(stage + 1, layer);
}

}  // namespace xrun::planner
