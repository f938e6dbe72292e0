#include "runtime/train/state/train_state.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/xxh128.h"
#include "graph/layouts/head_shape.h"
#include "graph/settings/group_rules.h"
#include "graph/settings/optimizer_facts.h"
#include "ops/head/catch_up.h"
#include "ops/head/row_format.h"

namespace xrun::runtime {

using planner::Buffer;
using planner::Purpose;

TrainState::TrainState(const Module& module, const planner::Program& program, const BoundMemory& memory,
                       const DeviceSet& devices)
    : module_(module),
      program_(program),
      memory_(memory),
      devices_(devices),
      tensors_(state_tensors(module, program, memory)),
      rows_(program.heads.size()),
      loss_scale_(first_scale(module.train.loss_scale)) {
  for (size_t h = 0; h < program.heads.size(); ++h) {
    if (program.heads[h].mapped) {
      const auto head = static_cast<size_t>(program.heads[h].head);
      mapped_.push_back({h, module.graph.heads[head].name, planner::rows_layout(program, module.graph, h)});
    }
  }
}

Status TrainState::map_rows(const MappedHead& head, std::shared_ptr<MappedRows> rows) {
  const RowsLayout& found = rows->layout();
  const planner::HeadPlan& plan = program_.heads[head.head];
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.head != static_cast<int32_t>(head.head) || !is_mapped(program_, buffer) || !memory_.has(buffer.device)) {
      continue;
    }
    auto section = std::ranges::find(found.sections, fmt::format("{}.{}", buffer.name, kMeanState), &RowsSection::name);
    const auto weights = std::ranges::find(found.sections, buffer.name, &RowsSection::name);
    if (program_.training || buffer.purpose != Purpose::kHeadWeight || section == found.sections.end() ||
        section->dtype != weights->dtype) {
      section = weights;
    }
    XRUN_CHECK(section != found.sections.end(), "a rows file without " + buffer.name);
    const ClassRange range = shard_rows(&plan, buffer.shard, plan.classes);
    XRUN_TRY(
        rows->map(static_cast<size_t>(section - found.sections.begin()), range.begin, range.end, memory_.at(buffer)));
  }
  rows_[head.head] = rows.get();
  held_.push_back(std::move(rows));
  return {};
}

Status TrainState::share_rows(const TrainState& other) {
  for (const MappedHead& head : mapped_) {
    for (const MappedHead& one : other.mapped_) {
      const auto held = std::ranges::find(other.held_, other.rows_[one.head], &std::shared_ptr<MappedRows>::get);
      if (one.name == head.name && held != other.held_.end()) {
        XRUN_TRY(map_rows(head, *held));
      }
    }
  }
  return {};
}

const MappedRows* TrainState::rows_of(const StateTensor& tensor) const {
  const auto head = std::ranges::find(mapped_, tensor.head, &MappedHead::name);
  const bool is_section = head != mapped_.end() && std::ranges::find(head->layout.sections, tensor.name,
                                                                     &RowsSection::name) != head->layout.sections.end();
  return is_section ? rows_[head->head] : nullptr;
}

void TrainState::begin_means() {
  std::vector<float> values;
  for (const StateTensor& tensor : tensors_) {
    const StateTensor* const mean = tensor.role == StateTensor::Role::kWeight ? find(mean_of(tensor).name) : nullptr;
    if (mean == nullptr || mean->role != StateTensor::Role::kOptimizer) {
      continue;
    }
    for (const TensorPiece& piece : tensor.pieces) {
      for_chunks(tensor, piece.row_begin, piece.row_end, [&](int64_t row, int64_t rows) {
        values.resize(static_cast<size_t>(rows * tensor.row_elements()));
        read_values(tensor, row, row + rows, values.data());
        write_values(*mean, row, row + rows, values.data());
      });
    }
  }
}

template <typename Body>
void TrainState::for_chunks(const StateTensor& tensor, int64_t begin, int64_t end, const Body& body) const {
  constexpr Bytes kStaging = 4 * kMiB;
  const int64_t most = std::max<int64_t>(1, kStaging / std::max<Bytes>(1, tensor.row_bytes()));
  for (int64_t row = begin; row < end; row += most) {
    body(row, std::min(most, end - row));
  }
}

const StateTensor* TrainState::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const StateTensor& tensor, std::string_view key) { return tensor.name < key; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

bool TrainState::has_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end) const {
  return std::ranges::any_of(
      tensor.pieces, [&](const TensorPiece& piece) { return piece.row_begin < row_end && row_begin < piece.row_end; });
}

bool TrainState::changes_by_rows(std::string_view head) const {
  return std::ranges::any_of(program_.heads, [&](const planner::HeadPlan& one) {
    return one.active > 0 && module_.graph.heads[static_cast<size_t>(one.head)].name == head;
  });
}

void TrainState::read_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out) const {
  if (tensor.role == StateTensor::Role::kShift) {
    read_shifts(tensor, row_begin, row_end, reinterpret_cast<float*>(out));
    return;
  }
  const Bytes width = tensor.row_bytes();
  for (const TensorPiece& piece : tensor.pieces) {
    const int64_t from = std::max(row_begin, piece.row_begin);
    const int64_t to = std::min(row_end, piece.row_end);
    if (from < to) {
      memory_.read(piece.copies[0], (from - piece.row_begin) * width,
                   {out + (from - row_begin) * width, static_cast<size_t>((to - from) * width)});
    }
  }
}

void TrainState::write_rows(const StateTensor& tensor, int64_t row_begin, int64_t row_end, const std::byte* in) {
  const Bytes width = tensor.row_bytes();
  for (const TensorPiece& piece : tensor.pieces) {
    const int64_t from = std::max(row_begin, piece.row_begin);
    const int64_t to = std::min(row_end, piece.row_end);
    for (size_t copy = 0; from < to && copy < piece.copies.size(); ++copy) {
      memory_.write(piece.copies[copy], (from - piece.row_begin) * width,
                    {in + (from - row_begin) * width, static_cast<size_t>((to - from) * width)});
    }
  }
}

void TrainState::read_values(const StateTensor& tensor, int64_t row_begin, int64_t row_end, float* out) const {
  const RowFormat format = format_of(tensor);
  const int64_t width = tensor.row_elements();
  std::vector<std::byte> rows(static_cast<size_t>((row_end - row_begin) * tensor.row_bytes()));
  std::vector<float> scales(static_cast<size_t>(row_end - row_begin), 1.0F);
  read_rows(tensor, row_begin, row_end, rows.data());
  if (format == RowFormat::kFp8) {
    read_rows(*find(scales_of(tensor).name), row_begin, row_end, reinterpret_cast<std::byte*>(scales.data()));
  }
  for (int64_t i = 0; i < row_end - row_begin; ++i) {
    ops::load_row(format, rows.data() + i * tensor.row_bytes(), scales[static_cast<size_t>(i)], width, out + i * width);
  }
}

void TrainState::write_values(const StateTensor& tensor, int64_t row_begin, int64_t row_end, const float* in) {
  const RowFormat format = format_of(tensor);
  const int64_t width = tensor.row_elements();
  std::vector<std::byte> rows(static_cast<size_t>((row_end - row_begin) * tensor.row_bytes()));
  std::vector<float> scales(static_cast<size_t>(row_end - row_begin));
  for (int64_t i = 0; i < row_end - row_begin; ++i) {
    scales[static_cast<size_t>(i)] =
        ops::store_nearest(format, in + i * width, width, rows.data() + i * tensor.row_bytes());
  }
  write_rows(tensor, row_begin, row_end, rows.data());
  if (format == RowFormat::kFp8) {
    write_rows(*find(scales_of(tensor).name), row_begin, row_end, reinterpret_cast<const std::byte*>(scales.data()));
  }
}

bool TrainState::catches_up(const StateTensor& tensor) const {
  return tensor.role == StateTensor::Role::kWeight && rows_catch_up(tensor.param);
}

bool TrainState::rows_catch_up(ParamId param) const {
  const planner::HeadPlan* head = head_with(program_, param);
  return head != nullptr && find(module_.graph.param(head->weight).name + ".last") != nullptr;
}

void TrainState::read_shifts(const StateTensor& tensor, int64_t row_begin, int64_t row_end, float* out) const {
  XRUN_CHECK(idle_ != nullptr, "shifts of rows before the run knows its rates");
  const planner::HeadPlan& head = *head_with(program_, tensor.param);
  std::vector<int32_t> last(static_cast<size_t>(row_end - row_begin));
  read_rows(*find(module_.graph.param(head.weight).name + ".last"), row_begin, row_end,
            reinterpret_cast<std::byte*>(last.data()));
  const double factor = group_rule(module_.train, module_.graph.param(tensor.param).name, &GroupSpec::lr).value_or(1);
  std::ranges::transform(last, out, [&](int32_t step) {
    return idle_->missed(step) ? static_cast<float>(idle_->shift(step) * factor) : 0.0F;
  });
}

void TrainState::read_current(const StateTensor& tensor, int64_t row_begin, int64_t row_end, float* out) const {
  read_values(tensor, row_begin, row_end, out);
  if (!catches_up(tensor)) {
    return;
  }
  const auto rows = static_cast<size_t>(row_end - row_begin);
  const auto width = static_cast<size_t>(tensor.row_elements());
  std::vector<float> shifts(rows);
  std::vector<float> velocity(rows * width);
  read_shifts(tensor, row_begin, row_end, shifts.data());
  read_values(*find(tensor.name + "." + states_beside_weights(module_.train)[0]), row_begin, row_end, velocity.data());
  ops::shift_rows(shifts, velocity, {out, rows * width});
}

void TrainState::copy_from(const TrainState& other) {
  std::vector<std::byte> staging;
  std::vector<float> values;
  for (const StateTensor& tensor : tensors_) {
    const StateTensor* source = other.find(tensor.name);
    const StateTensor* const mean =
        program_.training || tensor.role != StateTensor::Role::kWeight ? nullptr : other.find(mean_of(tensor).name);
    if (tensor.role == StateTensor::Role::kResidual) {
      continue;  // each sender keeps its own residuals
    }
    XRUN_CHECK(source != nullptr || tensor.role == StateTensor::Role::kOptimizer, "no " + tensor.name + " to copy");
    XRUN_CHECK(source == nullptr || source->type.dtype == tensor.type.dtype, tensor.name + " in another format");
    if (source != nullptr && lies_in_file(tensor) && rows_of(tensor) == other.rows_of(*source)) {
      continue;
    }
    if (source != nullptr && source->role == StateTensor::Role::kScale &&
        (other.rows_catch_up(source->param) || (!program_.training && module_.train.ema > 0))) {
      continue;  // write_values has made the scales of rows that have caught up, and of means
    }
    for (size_t p = 0; source != nullptr && p < source->pieces.size(); ++p) {
      for_chunks(tensor, source->pieces[p].row_begin, source->pieces[p].row_end, [&](int64_t row, int64_t rows) {
        if (mean != nullptr) {
          values.resize(static_cast<size_t>(rows * tensor.row_elements()));
          other.read_values(*mean, row, row + rows, values.data());
          write_values(tensor, row, row + rows, values.data());
          return;
        }
        if (other.catches_up(*source)) {
          values.resize(static_cast<size_t>(rows * tensor.row_elements()));
          other.read_current(*source, row, row + rows, values.data());
          write_values(tensor, row, row + rows, values.data());
          return;
        }
        staging.resize(static_cast<size_t>(rows * tensor.row_bytes()));
        other.read_rows(*source, row, row + rows, staging.data());
        write_rows(tensor, row, row + rows, staging.data());
      });
    }
  }
}

std::vector<RangeDigest> TrainState::range_digests() const {
  std::vector<RangeDigest> digests;
  std::vector<std::byte> staging;
  int64_t first = 0;  // offset of the range in the tensor
  for (const StateTensor& tensor : tensors_) {
    const bool weight = tensor.role == StateTensor::Role::kWeight || tensor.role == StateTensor::Role::kScale;
    if (!weight || !tensor.trained) {
      continue;
    }
    const int64_t range =
        std::max<int64_t>(1, tensor.head.empty() ? tensor.rows() : class_block(tensor.rows(), tensor.rows()));
    for (const TensorPiece& piece : tensor.pieces) {
      for (int64_t begin = piece.row_begin; begin < piece.row_end; begin += range) {
        Xxh128 digest;
        for_chunks(tensor, begin, std::min(begin + range, piece.row_end), [&](int64_t row, int64_t rows) {
          staging.resize(static_cast<size_t>(rows * tensor.row_bytes()));
          read_rows(tensor, row, row + rows, staging.data());
          digest.add(staging);
        });
        digests.push_back({first + begin / range, digest.hex()});
      }
    }
    first += (tensor.rows() + range - 1) / range;
  }
  return digests;
}

std::string digest_of(std::vector<RangeDigest> ranges) {
  std::ranges::sort(ranges, {}, &RangeDigest::range);
  const auto again = std::ranges::unique(ranges);
  ranges.erase(again.begin(), again.end());
  Xxh128 digest;
  for (const RangeDigest& one : ranges) {
    digest.add(std::as_bytes(std::span(one.digest)));
  }
  return digest.hex();
}

}  // namespace xrun::runtime
