#include "planner/program/rows_on_disk.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace xrun::planner {
namespace {

// Returns the number of steps from one checkpoint to the next; nullopt if it depends on an unknown number of samples.
std::optional<int64_t> steps_between(const TrainSpec& train, int64_t samples) {
  if (train.checkpoint_every.unit == TrainSpan::kEpochs && samples == 0) {
    return std::nullopt;
  }
  const double steps = std::ceil(train.checkpoint_every.steps(samples, train.unit()));
  return static_cast<int64_t>(std::clamp(steps, 1.0, 0x1p50));
}

// Returns the expected bytes of the pages that contain at least one of `active` rows drawn at random. If few rows are
// drawn, almost every row is on a different page.
Bytes touched_pages(const RowsLayout& layout, double active) {
  double pages = 0;
  for (const RowsSection& section : layout.sections) {
    const double row_pages =
        std::max(1.0, static_cast<double>(section.row_bytes) / static_cast<double>(kMappedAlignment));
    const double all = static_cast<double>(layout.rows * section.row_bytes) / static_cast<double>(kMappedAlignment);
    pages += all * -std::expm1(-active * row_pages / all);
  }
  return static_cast<Bytes>(pages) * kMappedAlignment;
}

}  // namespace

std::vector<RowsOnDisk> rows_on_disk(const Module& module, const Program& training, int64_t samples) {
  std::vector<RowsOnDisk> list;
  const std::optional<int64_t> steps = steps_between(module.train, samples);
  for (size_t h = 0; h < training.heads.size(); ++h) {
    const HeadPlan& head = training.heads[h];
    if (!head.mapped) {
      continue;
    }
    const RowsLayout layout = rows_layout(training, module.graph, h);
    // The labels of a batch are always active, so more classes than the text states may be active.
    const double active = static_cast<double>(std::max(head.active, training.batch));
    const double changed = steps ? active * static_cast<double>(*steps) : static_cast<double>(head.classes);
    const auto rows = static_cast<int64_t>(std::min(changed, static_cast<double>(head.classes)));
    // In each step in which some rows change for the first time since the checkpoint, a shard appends a record to its
    // log.
    const int64_t records = std::min(rows, steps.value_or(rows) * std::ssize(head.shards));
    list.push_back({.head = module.graph.heads[static_cast<size_t>(head.head)].name,
                    .rows = layout.file_bytes(),
                    .undo = layout.undo_bytes(rows, records) + kUndoHeaderBytes,
                    .step_pages = touched_pages(layout, active)});
  }
  return list;
}

}  // namespace xrun::planner
