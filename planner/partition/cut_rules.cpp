#include "planner/partition/cut_rules.h"

#include <algorithm>

namespace xrun::planner {

CutRules::CutRules(const PartitionRequest& request)
    : request_(request), layers_(static_cast<int>(request.layers.size())) {
  for (int s = 0; s < request.stages; ++s) {
    auto& ends = pin_ends_.emplace_back(static_cast<size_t>(layers_) + 1, layers_);
    for (int l = layers_ - 1; l >= 0; --l) {
      ends[static_cast<size_t>(l)] = may_have(s, l) ? ends[static_cast<size_t>(l) + 1] : l;
    }
  }
}

bool CutRules::may_have(int stage, int layer) const {
  const int pinned = request_.layers[static_cast<size_t>(layer)].pinned;
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
  return std::min(pin_ends_[static_cast<size_t>(stage)][static_cast<size_t>(layer)],
                  layers_ - (request_.stages - stage - 1));
}

bool CutRules::may_end(int stage, int layer) const {
  return stage + 1 == request_.stages ? layer == layers_ : layer < layers_ && may_begin(stage + 1, layer);
}

}  // namespace xrun::planner
