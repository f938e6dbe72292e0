// Both tables are recursions over layers. Let W be the time of a range of layers, and let a layer `made` be read by a
// layer of a stage that begins at `begin`. The stage that holds `made` is some range [first, last) with first <= made <
// last <= begin, and it ends no earlier than earlier(first, last) + W(first, last). Both terms grow with `last`, so
// last = made + 1 gives the least value, over all legal `first`. earlier(begin, end) is the largest of these values
// over all layers that are made before `begin` and read in the range; it is a lower bound whichever cuts are made.
// later(begin, end) is the mirrored recursion. It starts at the last stage, which holds every layer after the last
// legal cut; a layer from which some cuts lead to no later stage has no value.
//
// If the beginning of a range moves to the layer before it, earlier() falls by at most the time of that layer: a layer
// that was read across the beginning may now be inside, and its stage could have begun there. If the end moves to the
// next layer, later() falls by at most the time of that layer. planner/search/bound.cpp depends on both.
// Tests: tests/planner/search/bound_test.cpp
#include "planner/partition/pass_paths.h"

#include <algorithm>
#include <limits>

namespace xrun::planner {
namespace {

constexpr Seconds kInfinity = std::numeric_limits<Seconds>::infinity();

}  // namespace

PassPaths::PassPaths(const ChainPasses& passes, const CutPositions& cuts)
    : layers_(static_cast<int>(passes.times.size())) {
  const auto size = static_cast<size_t>(layers_);
  for (const Seconds time : passes.times) {
    sums_.push_back(sums_.back() + time);
  }
  std::vector<std::vector<int>> before(size);  // index: layer; the earlier layers of its pairs
  std::vector<std::vector<int>> after(size);
  for (const auto& [first, second] : passes.pairs) {
    before[static_cast<size_t>(second)].push_back(first);
    after[static_cast<size_t>(first)].push_back(second);
  }
  earlier_.resize(size + 1);
  later_.resize(size + 1);
  find_earlier(before, cuts);
  find_later(after, cuts);
}

void PassPaths::find_earlier(const std::vector<std::vector<int>>& before, const CutPositions& cuts) {
  std::vector<Seconds> now(static_cast<size_t>(layers_), 0);    // index: begin; earlier(begin, layer + 1)
  std::vector<Seconds> ended(static_cast<size_t>(layers_), 0);  // index: layer; when the stage with the layer ends
  for (int layer = 0; layer < layers_; ++layer) {
    for (const int made : before[static_cast<size_t>(layer)]) {
      const Seconds end = ended[static_cast<size_t>(made)];
      for (int begin = made + 1; begin <= layer; ++begin) {
        if (end > now[static_cast<size_t>(begin)]) {
          now[static_cast<size_t>(begin)] = end;
          earlier_[static_cast<size_t>(begin)].push_back({layer + 1, end});
        }
      }
    }
    Seconds least = sum(0, layer + 1);
    for (const int begin : cuts) {
      if (begin > layer) {
        break;
      }
      least = std::min(least, now[static_cast<size_t>(begin)] + sum(begin, layer + 1));
    }
    ended[static_cast<size_t>(layer)] = least;
  }
}

void PassPaths::find_later(const std::vector<std::vector<int>>& after, const CutPositions& cuts) {
  const auto size = static_cast<size_t>(layers_);
  std::vector<Seconds> now(size + 1, -kInfinity);  // index: end; later(layer, end)
  std::vector<Seconds> rest(size, -kInfinity);     // index: layer; the time from its stage to the last one
  now[size] = 0;
  for (int layer = layers_ - 1; layer >= 0; --layer) {
    for (const int reader : after[static_cast<size_t>(layer)]) {
      const Seconds time = rest[static_cast<size_t>(reader)];
      for (int end = layer + 1; end <= reader; ++end) {
        if (time > now[static_cast<size_t>(end)]) {
          now[static_cast<size_t>(end)] = time;
          later_[static_cast<size_t>(end)].push_back({layer, time});
        }
      }
    }
    Seconds least = sum(layer, layers_);
    for (auto end = cuts.rbegin(); end != cuts.rend() && *end > layer; ++end) {
      least = std::min(least, now[static_cast<size_t>(*end)] + sum(layer, *end));
    }
    rest[static_cast<size_t>(layer)] = least;
  }
}

Seconds PassPaths::earlier(int begin, int end) const {
  const auto& steps = earlier_[static_cast<size_t>(begin)];
  const auto after = std::upper_bound(steps.begin(), steps.end(), end,
                                      [](int position, const Step& step) { return position < step.position; });
  return after == steps.begin() ? 0 : std::prev(after)->value;
}

Seconds PassPaths::later(int begin, int end) const {
  if (end == layers_) {
    return 0;
  }
  const auto& steps = later_[static_cast<size_t>(end)];
  const auto after = std::upper_bound(steps.begin(), steps.end(), begin,
                                      [](int position, const Step& step) { return position > step.position; });
  return after == steps.begin() ? -1 : std::prev(after)->value;
}

}  // namespace xrun::planner
