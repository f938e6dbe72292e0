// Rejects modules that are too large for a plan, before any work that grows with their size. Sizes are added up in
// floating point here; below these limits the products and sums of the planner fit 64 bits.
// Tests: tests/planner/planner_test.cpp, tests/cases/plans_test.cpp
#include <algorithm>
#include <cmath>

#include "planner/planner.h"

namespace xrun::planner {
namespace {

// The maximum number of operators of a forward pass. With this number, placing buffers takes many seconds, and the time
// grows with the square of the number.
constexpr int64_t kMostNodes = 12'288;
// The maximum number of operators before the passes over the graph. Passes drop and fuse operators; in models that
// people write, they reduce the number at most by half.
constexpr int64_t kMostBeforePasses = 4 * kMostNodes;
// The maximum number of micro-batches, each of which needs several instructions on every device.
constexpr int64_t kMostMicroBatches = 16'384;
// The maximum size of a tensor in bytes: more than any machine has.
constexpr double kMostBytes = 0x1p50;

Error too_long(const std::string& found, int64_t most, const std::string& help, Span span) {
  return {ErrorKind::kContent, "XG0198",
          "a plan of " + found + " would take too long: at most " + format_count(most) + " go into one", help, span};
}

Status check_operators(const Module& module, bool prepared) {
  const auto operators =
      std::ranges::count_if(module.graph.nodes, [](const Node& node) { return node.phase == Phase::kForward; });
  if (operators <= (prepared ? kMostNodes : kMostBeforePasses)) {
    return {};
  }
  return too_long(format_count(operators) + " operators", kMostNodes, "fold repeated layers into fewer, larger ones",
                  module.schedule.span);
}

Status check_micro_batches(const Module& module) {
  const TrainSpec& train = module.train;
  if (train.accumulated() > kMostMicroBatches) {
    return too_long(
        format_count(train.accumulated()) + " batches an update", kMostMicroBatches,
        train.growth ? "begin `grow` with a larger batch" : "make `batch` larger and `grad_accumulation` smaller",
        train.batch_span);
  }
  const auto& hint = module.schedule.micro_batches;
  if (hint && hint->value > kMostMicroBatches) {
    return too_long(format_count(hint->value) + " micro-batches", kMostMicroBatches, "ask for fewer of them",
                    hint->span);
  }
  return {};
}

// Returns the bytes of a tensor for all rows of the batch.
double bytes_of(const TensorType& type, const TrainSpec& train) {
  const auto rows = static_cast<double>(std::max<int64_t>(1, train.batch));
  double bytes = static_cast<double>(size_of(type.dtype)) *
                 (type.has_batch()   ? rows
                  : type.per_block() ? rows / static_cast<double>(std::max<int64_t>(1, train.norm_rows))
                                     : 1.0);
  for (const int64_t dim : type.dims) {
    bytes *= dim < 0 ? 1.0 : static_cast<double>(dim);
  }
  return bytes;
}

std::string bytes_text(double bytes) {
  return bytes < 0x1p62 ? format_bytes(static_cast<Bytes>(bytes)) : "more than 4 EiB";
}

// Rejects a module with tensors that no machine can store. The logits of a head do not count, since they are never
// stored as a whole.
Status check_bytes(const Module& module) {
  const Graph& graph = module.graph;
  double sum = 0;
  double most = -1;
  const Value* largest = nullptr;
  for (const Value& value : graph.values) {
    const double bytes = value.type.sharded ? 0.0 : bytes_of(value.type, module.train);
    sum += bytes;
    if (bytes > most) {
      most = bytes;
      largest = &value;
    }
  }
  if (sum <= kMostBytes) {
    return {};
  }
  const Span made = largest->producer.valid() ? graph.node(largest->producer).span : Span();
  return Error{ErrorKind::kContent, "XG0303",
               "the tensors of this model take " + bytes_text(sum) + " for a batch of " +
                   format_count(module.train.batch) + ", the largest of them, " + to_text(largest->type) + ", " +
                   bytes_text(most) + ": no machine holds more than " + bytes_text(kMostBytes),
               "look for a dimension that grew by mistake, or make `batch` smaller",
               made.valid() ? made : module.train.batch_span};
}

}  // namespace

Status check_size(const Module& module, bool prepared) {
  XRUN_TRY(check_operators(module, prepared));
  XRUN_TRY(check_micro_batches(module));
  return check_bytes(module);
}

}  // namespace xrun::planner
