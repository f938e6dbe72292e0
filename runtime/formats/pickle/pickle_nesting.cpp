// Tests: tests/runtime/formats/pickle/pickle_test.cpp
#include "runtime/formats/pickle/pickle_nesting.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace xrun::runtime {
namespace {

size_t parts(const PickleValue& value) { return value.items.size() + 2; }
PickleId part(const PickleValue& value, size_t i) {
  return i == 0 ? value.arguments : i == 1 ? value.state : value.items[i - 2];
}

}  // namespace

Status check_nesting(const Pickle& pickle) {
  constexpr uint8_t kUnseen = 0;
  constexpr uint8_t kOpen = 1;  // the search is inside the value
  constexpr uint8_t kLeaf = 2;
  std::vector<uint8_t> heights(pickle.values(), kUnseen);  // kLeaf + the levels below, if finished
  struct Level {
    PickleId id;
    size_t next = 0;  // the next part to descend into
    uint8_t height = kLeaf;
  };
  std::vector<Level> path{{.id = pickle.root()}};
  heights[pickle.root()] = kOpen;
  while (!path.empty()) {
    Level& level = path.back();
    if (level.next == parts(pickle[level.id])) {
      const Level done = level;
      heights[done.id] = done.height;
      path.pop_back();
      if (!path.empty()) {
        path.back().height = std::max<uint8_t>(path.back().height, done.height + 1);
      }
      continue;
    }
    const PickleId below = part(pickle[level.id], level.next++);
    if (below == kPickledNone) {
      continue;  // it also stands for arguments and a state that a value does not have
    }
    if (heights[below] == kOpen) {
      return pickle.fault(below, fmt::format("{} contains itself", name_of(pickle[below].kind)));
    }
    size_t depth = path.size() + 1;
    if (heights[below] != kUnseen) {
      level.height = std::max<uint8_t>(level.height, heights[below] + 1);
      depth += heights[below] - kLeaf;
    } else {
      heights[below] = kOpen;
      path.push_back({.id = below});
    }
    if (depth > kMostPickleDepth) {
      return pickle.fault(below, fmt::format("values are nested more than {} deep", kMostPickleDepth));
    }
  }
  return {};
}

}  // namespace xrun::runtime
