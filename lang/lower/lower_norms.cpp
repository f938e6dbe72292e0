// Finds norms over a single number. The result of such a norm does not depend on the number, so the layers before it do
// not learn.
#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "lang/lower/module_builder.h"

namespace xrun::lang {
namespace {

// The number of values of each channel that a batch norm normalises together.
int64_t numbers_of_channel(const TensorType& x, int64_t rows) {
  int64_t numbers = rows;
  for (size_t i = 2; i < x.dims.size() && numbers == 1; ++i) {
    numbers = x.dims[i];
  }
  return numbers;
}

std::string larger_groups(const TrainSpec& train) {
  const int64_t times = train.growth ? train.growth->times : 1;
  const int64_t batch = train.batch / train.grad_accumulation / times;
  if (batch > 1) {
    return "leave `norm_rows` out, so that it follows from the batch";
  }
  if (train.growth) {
    return "make the first size of the batch 8 or more";
  }
  return train.grad_accumulation > 1
             ? fmt::format("write batch = {} and leave `grad_accumulation` out", train.grad_accumulation)
             : "write batch = 8 or more";
}

}  // namespace

void ModuleBuilder::check_norms() {
  const Graph& graph = ev_.graph();
  const TrainSpec& train = module_.train;
  const FrontendOptions& options = ev_.options();
  constexpr size_t kFew = 20;
  std::vector<Span> told;  // the calls that were reported; a block may be called many times
  for (const Node& node : graph.nodes) {
    if (told.size() == kFew || options.is_stored) {
      return;
    }
    if (node.operands == 0 || !node.op->is_word() || std::ranges::find(told, node.span) != told.end()) {
      continue;
    }
    const TensorType& x = graph.value(node.inputs[0]).type;
    const bool is_batch_norm = node.op->rows == RowProperty::kRowCoupled;
    const bool knows_rows = module_.has_train && train.batch > 0;
    if (is_batch_norm && knows_rows && numbers_of_channel(x, train.norm_rows) == 1) {
      told.push_back(node.span);
      ev_.report(fault("XG0518", node.span,
                       {"`{}` normalises one number a channel: its result is its bias for every sample", node.op->name},
                       "no layer before it would learn", {"{}, or use `layer_norm`", larger_groups(train)})
                     .also(train.batch_span, "a group has one sample")
                     .note("a group of a batch norm has norm_rows × height × width numbers of each channel"));
      continue;
    }
    const NormGroup group = options.norm_of == nullptr ? NormGroup() : options.norm_of(*node.op, x, node.attrs);
    if (group.numbers == 1) {
      told.push_back(node.span);
      ev_.report(warning("XG0318", node.span,
                         {"`{}` normalises {} number by number: the result is always {}", node.op->name, to_text(x),
                          group.result_of_one},
                         "its input hardly matters", {"give it more numbers to normalise together, or leave it out"}));
    }
  }
}

}  // namespace xrun::lang
