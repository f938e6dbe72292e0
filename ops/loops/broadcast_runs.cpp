// Tests: tests/ops/loops/broadcast_loop_test.cpp, tests/ops/conformance_test.cpp
#include "ops/loops/broadcast_runs.h"

#include <type_traits>

#include "ops/loops/broadcast.h"
#include "ops/loops/strides.h"
#include "ops/simd/simd.h"

namespace xrun::ops {
namespace {

// Adds each term of a run to a different sum: sums[i] += terms[i].
template <typename T>
struct AddBody {
  template <class L>
  XRUN_INLINE static void run(const T* terms, int64_t n, float* sums) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(sums + i, load_upto<L>(sums + i, n - i) + load_upto<L>(terms + i, n - i), n - i);
    }
  }
};

}  // namespace

BroadcastRuns::BroadcastRuns(const TensorType& operand, const TensorType& result, int64_t rows) {
  const std::vector<int64_t> dims = block_dims(result, rows);
  const StridedLoop<2> loop(
      dims, {block_strides(result, rows), broadcast_strides(aligned(operand, result.rank()), dims, rows)});
  dims_ = loop.dims();
  for (const auto& step : loop.steps()) {
    steps_.push_back(step[1]);
  }
}

BroadcastRuns::Place BroadcastRuns::place_of(int64_t element) const {
  Place place;
  for (size_t d = dims_.size(); d-- > 0;) {
    place.index[d] = element % dims_[d];
    element /= dims_[d];
    place.at += place.index[d] * steps_[d];
  }
  return place;
}

void BroadcastRuns::advance(Place& place, int64_t run) const {
  const size_t inner = dims_.size() - 1;
  place.at += run * steps_[inner];
  place.index[inner] += run;
  for (size_t d = inner; d > 0 && place.index[d] == dims_[d]; --d) {
    place.at += steps_[d - 1] - dims_[d] * steps_[d];
    place.index[d] = 0;
    ++place.index[d - 1];
  }
}

int64_t BroadcastReader::period() const {
  const auto& steps = runs_.steps();
  const bool is_number = steps.size() == 1 && steps[0] == 0;
  const bool is_vector = steps.size() == 2 && steps[0] == 0 && steps[1] == 1;
  return is_number ? 1 : is_vector ? runs_.dims()[1] : 0;
}

const float* BroadcastReader::read(const std::byte* operand, int64_t begin, int64_t n, float* block) const {
  return dtype_ == DType::kBF16  ? read_as(reinterpret_cast<const Bf16*>(operand), begin, n, block)
         : dtype_ == DType::kF16 ? read_as(reinterpret_cast<const Half*>(operand), begin, n, block)
                                 : read_as(reinterpret_cast<const float*>(operand), begin, n, block);
}

template <typename T>
const float* BroadcastReader::read_as(const T* operand, int64_t begin, int64_t n, float* block) const {
  const int64_t step = runs_.steps().back();
  if constexpr (std::is_same_v<T, float>) {
    const BroadcastRuns::Place place = runs_.place_of(begin);
    if (step == 1 && place.index[runs_.dims().size() - 1] + n <= run()) {
      return operand + place.at;
    }
  }
  runs_.for_each(begin, n, [&](int64_t at, int64_t done, int64_t length) {
    const T* const from = operand + at;
    float* const to = block + done;
    if (step == 0) {
      std::fill_n(to, length, to_float(*from));
    } else if (step == 1) {
      for (int64_t i = 0; i < length; ++i) {
        to[i] = to_float(from[i]);
      }
    } else {
      for (int64_t i = 0; i < length; ++i) {
        to[i] = to_float(from[i * step]);
      }
    }
  });
  return block;
}

template <typename T, typename S>
void BroadcastSums::add_as(const T* terms, int64_t begin, int64_t n, S* sums) const {
  const int64_t step = runs_.steps().back();
  runs_.for_each(begin, n, [&](int64_t at, int64_t done, int64_t length) {
    const T* const from = terms + done;
    S* const to = sums + at;
    if constexpr (std::is_same_v<S, float>) {
      if (step == 1) {
        return run_for<AddBody<T>>(isa_, from, length, to);
      }
    }
    for (int64_t i = 0; i < length; ++i) {
      to[i * step] += static_cast<S>(to_float(from[i]));
    }
  });
}

void BroadcastSums::add(const float* terms, int64_t begin, int64_t n, float* sums) const {
  add_as(terms, begin, n, sums);
}
void BroadcastSums::add(const Bf16* terms, int64_t begin, int64_t n, float* sums) const {
  add_as(terms, begin, n, sums);
}
void BroadcastSums::add(const Half* terms, int64_t begin, int64_t n, float* sums) const {
  add_as(terms, begin, n, sums);
}
void BroadcastSums::add(const float* terms, int64_t begin, int64_t n, double* sums) const {
  add_as(terms, begin, n, sums);
}
void BroadcastSums::add(const Bf16* terms, int64_t begin, int64_t n, double* sums) const {
  add_as(terms, begin, n, sums);
}
void BroadcastSums::add(const Half* terms, int64_t begin, int64_t n, double* sums) const {
  add_as(terms, begin, n, sums);
}

}  // namespace xrun::ops
