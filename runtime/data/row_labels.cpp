#include "runtime/data/row_labels.h"

#include <algorithm>
#include <numeric>

#include "graph/layouts/partial_labels.h"

namespace xrun::runtime {
namespace {

int64_t input_of(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.inputs, name, &NamedValue::name);
  return found == graph.inputs.end() ? -1 : found - graph.inputs.begin();
}

}  // namespace

PartialLabel PartialLabel::of(const Graph& graph, const NamedValue& label) {
  return {.input = label.name,
          .positions = graph.value(label.value).type.row_elements(),
          .labelled = input_of(graph, labelled_input(label.name)),
          .row_factor = input_of(graph, row_factor_input(label.name))};
}

std::vector<int32_t> RowLabels::counts(size_t which) const {
  std::vector<int32_t> counts;
  for (size_t at = which; at < of_.size(); at += labels_) {
    counts.push_back(of_[at].labels);
  }
  return counts;
}

void RowLabels::write_factors(std::span<const PartialLabel> labels, bool sum, const BatchView& batch) const {
  for (size_t which = 0; which < labels.size(); ++which) {
    const PartialLabel& label = labels[which];
    const std::vector<int32_t> counts = this->counts(which);
    const auto rows = std::ssize(counts);
    const auto all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    // Sums of whole numbers are exact in f64, so the factor does not depend on the order of the rows.
    const double each = sum       ? 1 / static_cast<double>(label.positions)
                        : all > 0 ? static_cast<double>(rows) / static_cast<double>(all)
                                  : 0;
    const auto write = [&](int64_t input, auto factor_of) {
      for (int64_t row = 0; input >= 0 && row < rows; ++row) {
        if (batch.wants(static_cast<size_t>(input), row)) {
          reinterpret_cast<float*>(batch.inputs[static_cast<size_t>(input)])[row] = static_cast<float>(factor_of(row));
        }
      }
    };
    const auto labelled = [&](int64_t row) { return each * counts[static_cast<size_t>(row)]; };
    write(label.labelled, labelled);
    write(label.row_factor, [&](int64_t row) {
      return labelled(row) * static_cast<double>(of_[static_cast<size_t>(row) * labels_ + which].weight);
    });
  }
}

void LabelCounts::take(const std::vector<PartialLabel>& labels, const RowLabels& rows) {
  inputs_.clear();
  counts_.clear();
  for (size_t which = 0; which < labels.size(); ++which) {
    inputs_.push_back(labels[which].input);
    counts_.push_back(rows.counts(which));
  }
}

std::span<const int32_t> LabelCounts::of(std::string_view input) const {
  const auto known = std::ranges::find(inputs_, input);
  return known == inputs_.end() ? std::span<const int32_t>() : counts_[static_cast<size_t>(known - inputs_.begin())];
}

const std::string* LabelCounts::lacking() const {
  const auto none = std::ranges::find_if(counts_, [](const auto& counts) {
    return std::ranges::none_of(counts, [](int32_t count) { return count > 0; });
  });
  return none == counts_.end() ? nullptr : &inputs_[static_cast<size_t>(none - counts_.begin())];
}

}  // namespace xrun::runtime
