// Tests: tests/ops/gpu/launch/updates_test.cpp
#include "ops/gpu/launch/norm_program.h"

#include <cstring>

#include "ops/head/margin_program.h"
#include "ops/optimizer/optimizer.h"

namespace xrun::ops::gpu {
namespace {

constexpr int64_t kThreads = 256;

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// The operation as data; an input has its index in place of the first argument.
MarginNode node_of(const ScalarNode& from) {
  MarginNode node{.value = from.value, .args = {}, .op = static_cast<uint32_t>(from.op)};
  for (size_t i = 0; i < from.args.size(); ++i) {
    node.args[i] = from.args[i].valid() ? from.args[i].index : -1;
  }
  if (from.op == ScalarOp::kInput) {
    node.args[0] = from.input;
  }
  return node;
}

}  // namespace

NormProgram::NormProgram(const UpdateRule& rule)
    : norms_(std::ssize(rule.norms)),
      nodes_(std::ssize(rule.ratios.nodes())),
      results_(std::ssize(rule.ratios.results())),
      result_offset_(static_cast<Bytes>(sizeof(KnownScalars)) + rule.step_scalars() * 4) {
  for (const ScalarNode& node : rule.ratios.nodes()) {
    append(bytes_, node_of(node));
  }
  for (const ScalarId result : rule.ratios.results()) {
    append(bytes_, result.index);
  }
  const std::vector<int> levels = norm_levels(rule);
  const int count = levels.empty() ? 0 : std::ranges::max(levels) + 1;
  for (int level = 0; level < count; ++level) {
    level_at_.push_back(std::ssize(bytes_));
    for (size_t i = 0; i < levels.size(); ++i) {
      if (levels[i] == level) {
        append(bytes_, static_cast<int32_t>(i));
      }
    }
  }
  level_at_.push_back(std::ssize(bytes_));
}

GpuLaunch NormProgram::launch(GpuTarget target, int level, int64_t entries) const {
  const auto at = static_cast<size_t>(level);
  const int64_t norms_of_level = (level_at_[at + 1] - level_at_[at]) / 4;
  LaunchList list(target);
  list.add("tensor_norms", "tensor_norms", {entries, 1, 1}, {kThreads, 1, 1}, in(0), in(1, level_at_[at]),
           norms_of_level, in(1), nodes_, norms_, in(1, nodes_ * static_cast<int64_t>(sizeof(MarginNode))), results_);
  return list.take()[0];
}

}  // namespace xrun::ops::gpu
