#include "runtime/train/evaluation/recall.h"

#include <algorithm>
#include <system_error>

#include "graph/layouts/knn_layout.h"
#include "ops/knn/knn.h"
#include "ops/simd/isa.h"
#include "runtime/device/background_work.h"
#include "runtime/device/host_memory.h"

namespace xrun::runtime {
namespace {

// One more neighbour, since the first entry of each list is the sample itself.
KnnShape shape_of(int64_t samples, int64_t dim, int64_t neighbours, int threads) {
  return {.classes = samples, .dim = dim, .neighbours = neighbours + 1, .workers = threads};
}

}  // namespace

Bytes recall_features(int64_t samples, int64_t dim) {
  return samples * (dim * static_cast<Bytes>(sizeof(float)) + static_cast<Bytes>(sizeof(int32_t)));
}

Bytes recall_search(int64_t samples, int64_t dim, int64_t neighbours, int threads) {
  const KnnShape shape = shape_of(samples, dim, neighbours, threads);
  return samples * shape.neighbours * static_cast<Bytes>(sizeof(int32_t)) + knn_scratch_bytes(shape);
}

void Recall::reserve(int64_t samples) {
  features_.reserve(static_cast<size_t>(samples * dim_));
  labels_.reserve(static_cast<size_t>(samples));
}

void Recall::add(const float* row) {
  features_.insert(features_.end(), row, row + dim_);
  labels_.push_back(static_cast<int32_t>(row[dim_]) * 65536 + static_cast<int32_t>(row[dim_ + 1]));
}

Result<double> Recall::measure(int threads, StopFlag stop) const {
  const auto samples = static_cast<int64_t>(labels_.size());
  if (samples < 2) {
    return 0.0;
  }
  XRUN_ASSIGN(const ops::Isa isa, ops::choose_isa());
  const KnnShape shape = shape_of(samples, dim_, neighbours_, threads);
  const ops::KnnGraph graph(shape, isa);
  XRUN_ASSIGN(const HostMemory scratch, HostMemory::map(graph.scratch_bytes()));
  std::vector<int32_t> lists(static_cast<size_t>(samples * shape.neighbours));
  try {
    BackgroundWork work(
        threads, [&](ops::Workers& workers) { graph.build(features_.data(), lists.data(), scratch.at(0), workers); });
    work.hurry();
    if (!work.wait(stop)) {
      return Error{ErrorKind::kInterrupted, "", "the evaluation was interrupted", "run again"};
    }
  } catch (const std::system_error&) {
    return Error{ErrorKind::kWorld, "XG0803", "the system lets no thread start that compares samples",
                 "raise its limit (`ulimit -u`, `ulimit -v`, pids.max of the control group)"};
  }
  int64_t labelled = 0;
  int64_t right = 0;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int32_t label = labels_[static_cast<size_t>(sample)];
    const int32_t* list = lists.data() + sample * shape.neighbours;
    const auto same = [&](int32_t other) {
      return other >= 0 && other != sample && labels_[static_cast<size_t>(other)] == label;
    };
    labelled += label >= 0 ? 1 : 0;
    right += label >= 0 && std::any_of(list, list + shape.neighbours, same) ? 1 : 0;
  }
  return labelled == 0 ? 0 : static_cast<double>(right) / static_cast<double>(labelled);
}

}  // namespace xrun::runtime
