// Reads the results of a step from the arenas, or from the copies that other ranks have shared.
// Tests: tests/runtime/train/trainer_test.cpp, tests/runtime/runs/determinism_test.cpp
#include <algorithm>

#include "graph/base/check.h"
#include "ops/head/mass.h"
#include "runtime/train/session/bound_session.h"

namespace xrun::runtime {

using planner::Buffer;
using planner::Purpose;

bool BoundSession::has_rows(ValueId value) const {
  return std::any_of(program_.buffers.begin(), program_.buffers.end(), [&](const Buffer& buffer) {
    return buffer.purpose == Purpose::kResult && buffer.value == value &&
           (memory_.has(buffer.device) || shared_ != nullptr);
  });
}

Status BoundSession::read_rows(ValueId value, std::span<std::byte> out) const {
  const TensorType& type = module_.graph.value(value).type;
  XRUN_CHECK(static_cast<Bytes>(out.size()) >= type.bytes(program_.batch, program_.norm_rows),
             "the memory for results is too small");
  int64_t rows = 0;
  for (const Buffer& buffer : program_.buffers) {
    // Skips buffers of a single head pass: their rows have been copied to the buffer of the whole batch.
    if (buffer.purpose != Purpose::kResult || buffer.value != value || buffer.head_pass >= 0 || !has(buffer)) {
      continue;
    }
    const int64_t count = buffer.replica >= 0 ? program_.batch / program_.replicas : program_.batch;
    const int64_t first = count * std::max(buffer.replica, 0);
    read(buffer, out.subspan(static_cast<size_t>(type.bytes(first, program_.norm_rows)),
                             static_cast<size_t>(type.bytes(count, program_.norm_rows))));
    rows += count;
  }
  if (rows < program_.batch) {
    return Error{ErrorKind::kUsage, "XG0808", "the plan keeps no result for `" + module_.graph.value(value).name + "`",
                 "make it an output of the model"};
  }
  return memory_.status();
}

Status BoundSession::read_best(ValueId logits, std::span<int32_t> classes, std::span<float> scores) const {
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.purpose == Purpose::kResult && buffer.value == logits && buffer.head_pass < 0) {
      XRUN_CHECK(classes.size() == scores.size() && static_cast<Bytes>(classes.size_bytes()) * 2 <= buffer.bytes,
                 "classes and scores are [batch, k]");
      memory_.read(buffer.id, 0, std::as_writable_bytes(classes));
      memory_.read(buffer.id, static_cast<Bytes>(classes.size_bytes()), std::as_writable_bytes(scores));
      return memory_.status();
    }
  }
  return Error{ErrorKind::kUsage, "XG0808",
               "the plan keeps no best classes of `" + module_.graph.value(logits).name + "`", ""};
}

Status BoundSession::read_softmax(int head, std::span<ops::RowSoftmax> rows) const {
  XRUN_CHECK(std::ssize(rows) == program_.batch, "each row of the batch has a softmax");
  const int64_t count = program_.micro_batch_rows();
  int64_t read = 0;
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.purpose != Purpose::kHeadSoftmax || buffer.head != head) {
      continue;
    }
    // The buffer holds the rows of the whole batch, or of one pass, which covers a micro-batch of each replica.
    const bool whole = buffer.head_pass < 0;
    const int64_t parts = whole ? 1 : program_.replicas;
    const int64_t part_rows = whole ? program_.batch : count;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = whole ? 0 : (part * program_.micro_batches_of_replica() + buffer.head_pass) * count;
      memory_.read(buffer.id, part * part_rows * kHeadSoftmaxRow,
                   std::as_writable_bytes(rows.subspan(static_cast<size_t>(first), static_cast<size_t>(part_rows))));
      read += part_rows;
    }
  }
  return read == program_.batch ? memory_.status()
                                : Error{ErrorKind::kUsage, "XG0808", "the plan keeps no softmax of this head", ""};
}

ActiveReport BoundSession::active(int head) const {
  const planner::HeadPlan& plan = program_.heads[static_cast<size_t>(head)];
  ActiveReport report{.head = module_.graph.heads[static_cast<size_t>(plan.head)].name};
  std::vector<std::vector<ops::RowMass>> masses;
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.head != head || !has(buffer)) {
      continue;
    }
    if (buffer.purpose == Purpose::kHeadSelection) {
      HeadCounts counts;
      read(buffer, std::as_writable_bytes(std::span(&counts, 1)));
      report.classes = counts.all;
      report.near = static_cast<double>(counts.near) / static_cast<double>(counts.all);
      report.common += static_cast<double>(counts.common) / static_cast<double>(counts.all);
    } else if (buffer.purpose == Purpose::kHeadMass) {
      masses.emplace_back(static_cast<size_t>(plan.rows));
      read(buffer, std::as_writable_bytes(std::span(masses.back())));
    }
  }
  if (measures_mass_) {
    report.mass = ops::active_share(masses);
  }
  return report;
}

void BoundSession::read(const Buffer& buffer, std::span<std::byte> out) const {
  const std::vector<std::byte>* shared = shared_ == nullptr ? nullptr : shared_->find(buffer.id);
  if (shared == nullptr) {
    memory_.read(buffer.id, 0, out);
  } else {
    std::copy_n(shared->begin(), out.size(), out.begin());
  }
}

}  // namespace xrun::runtime
