// A mixed row is made in two steps: SampleRows::fill writes the row of its own sample, and SampleRows::mix reads the
// partner and mixes both. The picture of the partner is read before anything is written, and the row is mixed last, so
// that another partner may be tried after one that is broken.
// Tests: tests/runtime/data/mixed_rows_test.cpp
#include "runtime/data/mixed_rows.h"

#include <algorithm>

#include "graph/layouts/mixed_labels.h"
#include "runtime/data/sample_rows.h"

namespace xrun::runtime {

size_t place_of(const Graph& graph, std::string_view input) {
  return static_cast<size_t>(std::ranges::find(graph.inputs, input, &NamedValue::name) - graph.inputs.begin());
}

MixPlaces MixPlaces::of(const Graph& graph, const DataSpec& data) {
  const DataBinding* mixed = mixed_binding(data);
  if (mixed == nullptr) {
    return {};
  }
  return {.mixes = place_of(graph, mixed->target) < graph.inputs.size(),
          .mixed = place_of(graph, mixed->target),
          .share = place_of(graph, label_share(mixed->target)),
          .partner_share = place_of(graph, xrun::partner_share(mixed->target)),
          .weight = graph.inputs.size()};
}

// Writes the label of a sample into the input `to`, and the weight of its class into `weight_to`.
Status SampleRows::write_label(const RowInput& label, const DrawnSample& sample, AugmentScratch& scratch,
                               const BatchView& batch, int64_t row, size_t to, size_t weight_to) const {
  if (batch.wants(to, row)) {
    std::byte* const at = batch.inputs[to] + row * label.transform.row_bytes();
    XRUN_TRY(fill_input(label, sample.number, sample.key, scratch, at));
  }
  if (!weights_.empty() && label.index == weigh_by_ && batch.wants(weight_to, row)) {
    int32_t number = 0;
    XRUN_TRY(fill_input(label, sample.number, sample.key, scratch, reinterpret_cast<std::byte*>(&number)));
    reinterpret_cast<float*>(batch.inputs[weight_to])[row] = weight_of(number);
  }
  return {};
}

Result<Mix> SampleRows::mix(const DrawnSample& own, const DrawnSample& partner, AugmentScratch& scratch,
                            const BatchView& batch, int64_t row) const {
  const auto mixed = std::ranges::find(inputs_, mix_.mixed, &RowInput::index);
  XRUN_CHECK(mixed != inputs_.end(), "rows that no binding mixes");
  const Mixing& mixing = *mixed->transform.mixing();
  const Mix mix = mixing.draw(own.key);
  const bool is_mixed = mix.kind != Mix::kNone;
  const bool wants_values = is_mixed && batch.wants(mix_.mixed, row);
  if (wants_values) {
    scratch.partner.resize(static_cast<size_t>(mixed->transform.row_bytes()));
    XRUN_TRY(fill_input(*mixed, partner.number, partner.key, scratch, scratch.partner.data()));
  }
  const DrawnSample& other = is_mixed && !mix.swaps ? partner : own;
  for (const RowInput& label : inputs_) {
    if (label.transform.target().classes > 0) {
      if (mix.swaps) {
        XRUN_TRY(write_label(label, partner, scratch, batch, row, label.index, weigh_to_));
      }
      XRUN_TRY(write_label(label, other, scratch, batch, row, label.partner, mix_.weight));
    }
  }
  const auto write_share = [&](size_t input, double share) {
    if (batch.wants(input, row)) {
      reinterpret_cast<float*>(batch.inputs[input])[row] = static_cast<float>(share);
    }
  };
  write_share(mix_.share, std::max(mix.share, 1 - mix.share));
  write_share(mix_.partner_share, std::min(mix.share, 1 - mix.share));
  if (wants_values) {
    mixing.apply(mix, scratch.partner.data(), batch.inputs[mix_.mixed] + row * mixed->transform.row_bytes());
  }
  return mix;
}

}  // namespace xrun::runtime
