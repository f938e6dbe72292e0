#include "ops/broadcast.h"

#include <algorithm>
#include <cstring>

#include "ops/shape.h"
#include "ops/simd.h"
#include "ops/strides.h"

namespace xrun::ops {

TensorType aligned(const TensorType& operand, int rank) {
  TensorType wide = operand;
  wide.dims.insert(wide.dims.begin(), static_cast<size_t>(rank - operand.rank()), 1);
  return wide;
}

Result<TensorType> broadcast(std::string_view verb, std::span<const TensorType> operands) {
  const auto first = std::ranges::find_if(operands, &TensorType::has_batch);
  if (first == operands.end()) {
    return rank_error(verb, "a tensor of the batch beside the parameters", operands[0],
                      "let parameters meet such a tensor first: x * gamma, or a `pointwise` of both");
  }
  XRUN_TRY(expect_activation(verb, *first));
  TensorType out = with_dims(*first, first->dims);
  for (const TensorType& operand : operands) {
    const std::string both = to_text(*first) + " and " + to_text(operand);
    if (operand.has_batch()) {
      XRUN_TRY(expect_activation(verb, operand));
      if (operand.dtype != out.dtype) {
        return dtype_error(verb, operand, "all operands have one element type");
      }
    }
    if (operand.has_batch() ? operand.rank() != out.rank() : operand.rank() > out.rank()) {
      return shape_error("cannot " + std::string(verb) + " tensors of different ranks: " + both,
                         "ranks must match; `reshape` can add dimensions of 1");
    }
    const std::vector<int64_t> dims = aligned(operand, out.rank()).dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] != out.dims[i] && dims[i] != 1 && out.dims[i] != 1) {
        return shape_error("cannot " + std::string(verb) + " tensors of different shapes: " + both,
                           "dimensions must be equal or 1");
      }
      out.dims[i] = out.dims[i] == 1 ? dims[i] : out.dims[i];
    }
  }
  return out;
}

Status set_broadcast_grad(GradBuilder& builder, int input, ValueId grad) {
  const TensorType& type = builder.type(builder.input(input));
  if (!type.has_batch()) {
    XRUN_ASSIGN(const std::vector<ValueId> sum, builder.emit("param.sum", {grad}, Attrs{{"dims", type.dims}}));
    grad = sum[0];
  } else if (builder.type(grad).dims != type.dims) {
    XRUN_ASSIGN(const std::vector<ValueId> sum, builder.emit("add.sum", {grad}, Attrs{{"dims", type.dims}}));
    grad = sum[0];
  }
  builder.set_grad(input, grad);
  return {};
}

BroadcastReader::BroadcastReader(const TensorType& operand, const TensorType& result, int64_t rows)
    : is_f32_(operand.dtype == DType::kF32) {
  const std::vector<int64_t> dims = block_dims(result, rows);
  const StridedLoop<2> loop(
      dims, {block_strides(result, rows), broadcast_strides(aligned(operand, result.rank()), dims, rows)});
  dims_ = loop.dims();
  for (const auto& step : loop.steps()) {
    steps_.push_back(step[1]);
  }
  is_whole_ = loop.is_one_run() && steps_[0] == 1;
}

int64_t BroadcastReader::period() const {
  const bool is_number = dims_.size() == 1 && steps_[0] == 0;
  const bool is_vector = dims_.size() == 2 && steps_[0] == 0 && steps_[1] == 1;
  return is_number ? 1 : is_vector ? dims_[1] : 0;
}

const float* BroadcastReader::read(const std::byte* operand, int64_t begin, int64_t n, float* block) const {
  return is_f32_ ? read_as(reinterpret_cast<const float*>(operand), begin, n, block)
                 : read_as(reinterpret_cast<const Bf16*>(operand), begin, n, block);
}

template <typename T>
const float* BroadcastReader::read_as(const T* operand, int64_t begin, int64_t n, float* block) const {
  // The place of `begin`, run by run from there.
  std::array<int64_t, kMostDims> index{};
  int64_t at = 0;
  int64_t rest = begin;
  for (size_t d = dims_.size(); d-- > 0;) {
    index[d] = rest % dims_[d];
    rest /= dims_[d];
    at += index[d] * steps_[d];
  }
  const size_t inner = dims_.size() - 1;
  if constexpr (std::is_same_v<T, float>) {
    if (steps_[inner] == 1 && index[inner] + n <= dims_[inner]) {
      return operand + at;
    }
  }
  for (int64_t done = 0; done < n;) {
    const int64_t run = std::min(dims_[inner] - index[inner], n - done);
    const T* const from = operand + at;
    float* const to = block + done;
    if (steps_[inner] == 0) {
      std::fill_n(to, run, to_float(*from));
    } else if (steps_[inner] == 1) {
      for (int64_t i = 0; i < run; ++i) {
        to[i] = to_float(from[i]);
      }
    } else {
      for (int64_t i = 0; i < run; ++i) {
        to[i] = to_float(from[i * steps_[inner]]);
      }
    }
    done += run;
    at += run * steps_[inner];
    index[inner] += run;
    for (size_t d = inner; d > 0 && index[d] == dims_[d]; --d) {
      at += steps_[d - 1] - dims_[d] * steps_[d];
      index[d] = 0;
      ++index[d - 1];
    }
  }
  return block;
}

}  // namespace xrun::ops
