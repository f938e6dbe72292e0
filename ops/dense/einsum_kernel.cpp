// Computes each sample as one batch of f32 matrix products. Letters of both operands and the result form the batch,
// letters of one operand and the result form its rows or columns, and letters of only the two operands form the inner
// dimension. An operand is packed first if it is bf16 or f16, or if its memory is not such a matrix; packing also sums
// over letters that only this operand has.
// Tests: tests/ops/conformance_test.cpp
#include "ops/dense/einsum_kernel.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <type_traits>

#include "ops/dense/einsum_rule.h"
#include "ops/dnn/dnn.h"
#include "ops/loops/strides.h"
#include "ops/make_kernel.h"
#include "ops/simd/convert.h"

namespace xrun::ops {
namespace {

// The letters of one operand or of the result within a sample, with their places in memory.
class Letters {
 public:
  Letters(std::string letters, const TensorType& type, int64_t rows)
      : letters_(std::move(letters)), dims_(block_dims(type, rows)), strides_(block_strides(type, rows)) {}

  int64_t size(char letter) const { return dims_[letters_.find(letter)]; }
  int64_t stride(char letter) const { return has_letter(letters_, letter) ? strides_[letters_.find(letter)] : 0; }
  int64_t count(const std::string& group) const {
    return std::accumulate(group.begin(), group.end(), int64_t{1}, [&](int64_t n, char c) { return n * size(c); });
  }
  // If the dimensions of a group of letters can be merged into one dimension with a constant step, the last letter
  // innermost, returns this step.
  std::optional<int64_t> step(const std::string& group) const {
    int64_t step = 0;
    int64_t n = 1;
    for (size_t i = group.size(); i-- > 0;) {
      if (size(group[i]) == 1) {
        continue;
      }
      if (n > 1 && stride(group[i]) != step * n) {
        return std::nullopt;
      }
      step = n == 1 ? stride(group[i]) : step;
      n *= size(group[i]);
    }
    return step;
  }

 private:
  std::string letters_;
  std::vector<int64_t> dims_;
  std::vector<int64_t> strides_;
};

// An operand or the result as a batch of matrices: used in place, or packed in scratch.
struct Matrices {
  std::array<int64_t, 3> strides{};  // strides of batch, rows and columns
  int64_t elements = 0;
  bool packed = true;
  bool sums = false;    // several elements in memory are added to one packed element
  StridedLoop<2> loop;  // operand 0 is the side that is written
};

Matrices matrices_of(const Letters& at, const std::string& batch, const std::string& rows, const std::string& columns,
                     const std::string& alone, bool may_lie, bool result) {
  const int64_t m = at.count(rows);
  const int64_t n = at.count(columns);
  Matrices made{.strides = {m * n, n, 1}, .elements = at.count(batch) * m * n, .sums = !alone.empty()};
  if (may_lie && alone.empty()) {
    const auto b = at.step(batch);
    const auto r = at.step(rows);
    const auto c = at.step(columns);
    if (b && r && c) {
      const int64_t row = m > 1 ? *r : n;
      const int64_t column = n > 1 ? *c : 1;
      if ((column == 1 && row >= n) || (!result && row == 1 && column >= m)) {
        made.packed = false;
        made.strides = {at.count(batch) > 1 ? *b : m * n, row, column};
        return made;
      }
    }
  }
  std::vector<int64_t> dims;
  std::vector<int64_t> memory;
  for (const char letter : batch + rows + columns + alone) {
    dims.push_back(at.size(letter));
    memory.push_back(at.stride(letter));
  }
  std::vector<int64_t> pack = row_major({dims.begin(), dims.end() - static_cast<std::ptrdiff_t>(alone.size())});
  pack.resize(dims.size(), 0);
  made.loop = result ? StridedLoop<2>(dims, {memory, pack}) : StridedLoop<2>(dims, {pack, memory});
  return made;
}

// Adds the elements of a result to the elements of an accumulator.
void add_elements(const StridedLoop<2>& loop, const float* from, float* to) {
  const auto& steps = loop.inner_steps();
  loop.for_each_run([&](const auto& at) {
    for (int64_t i = 0; i < loop.inner_count(); ++i) {
      to[at[0] + i * steps[0]] += from[at[1] + i * steps[1]];
    }
  });
}

template <typename From, typename To>
void copy_elements(const StridedLoop<2>& loop, const From* from, To* to) {
  const auto& steps = loop.inner_steps();
  const int64_t n = loop.inner_count();
  loop.for_each_run([&](const auto& at) {
    const From* const s = from + at[1];
    To* const t = to + at[0];
    if (steps[0] == 1 && steps[1] == 1) {
      for (int64_t i = 0; i < n; ++i) {
        assign(t[i], to_float(s[i]));
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        assign(t[i * steps[0]], to_float(s[i * steps[1]]));
      }
    }
  });
}

template <typename T>
const float* pack(const Matrices& matrices, const T* from, float* to) {
  if (!matrices.sums) {
    copy_elements(matrices.loop, from, to);
    return to;
  }
  std::fill_n(to, matrices.elements, 0.0F);
  const auto& steps = matrices.loop.inner_steps();
  matrices.loop.for_each_run([&](const auto& at) {
    for (int64_t i = 0; i < matrices.loop.inner_count(); ++i) {
      to[at[0] + i * steps[0]] += to_float(from[at[1] + i * steps[1]]);
    }
  });
  return to;
}

// Layout of the scratch: packed a, b and y | scratch of oneDNN
template <typename T>
class Product final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
    auto kernel = std::unique_ptr<Product>(new Product(spec));
    XRUN_ASSIGN(kernel->product_, dnn::matmul(kernel->shape_));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  int64_t parts() const override { return reduces_ ? 1 : rows_; }

  Bytes scratch_bytes() const override {
    return bytes_of(a_) + bytes_of(b_) + bytes_of(y_) + align_up(product_.scratch_bytes());
  }

  // A parameter is packed once after each update.
  Bytes prepared_bytes(int input) const override { return input == 1 && shared_ ? bytes_of(b_) : 0; }
  Status prepare(int /*input*/, const TensorView& plain, std::byte* prepared, std::byte* /*scratch*/) const override {
    auto* const to = reinterpret_cast<float*>(prepared);
    pack(b_, plain.as<const float>(), to);
    if constexpr (!std::is_same_v<T, float>) {
      round_to(isa_, std::is_same_v<T, Half> ? DType::kF16 : DType::kBF16, to, to, b_.elements);
    }
    return {};
  }

  Status run(const KernelCall& call) const override {
    const Range some = part_of(call, rows_);
    for (int64_t r = some.begin; r < some.end; ++r) {
      XRUN_TRY(run_sample(call, r));
    }
    return {};
  }

 private:
  explicit Product(const KernelSpec& spec)
      : isa_(spec.isa),
        rows_(spec.rows),
        a_row_(spec.inputs[0].row_elements()),
        b_row_(spec.inputs[1].row_elements()),
        y_row_(spec.outputs[0].row_elements()),
        shared_(!spec.inputs[1].has_batch()),
        reduces_(!spec.outputs[0].has_batch()) {
    const ProductRule rule = product_rule_of(spec.inputs, spec.attrs);
    const auto those = [&](const std::string& of, bool in_a, bool in_b, bool in_y) {
      std::string chosen;
      std::copy_if(of.begin(), of.end(), std::back_inserter(chosen), [&](char c) {
        return c != rule.a[0] && has_letter(rule.a, c) == in_a && has_letter(rule.b, c) == in_b &&
               has_letter(rule.y, c) == in_y;
      });
      return chosen;
    };
    const std::string batch = those(rule.y, true, true, true);
    const std::string rows = those(rule.y, true, false, true);
    const std::string columns = those(rule.y, false, true, true);
    const std::string inner = those(rule.a, true, true, false);
    const Letters a(rule.a, spec.inputs[0], spec.rows);
    const Letters b(rule.b, spec.inputs[1], spec.rows);
    const Letters y(rule.y, spec.outputs[0], spec.rows);
    constexpr bool kWide = std::is_same_v<T, float>;
    a_ = matrices_of(a, batch, rows, inner, those(rule.a, true, false, false), kWide, false);
    b_ = matrices_of(b, batch, inner, columns, those(rule.b, false, true, false), kWide, false);
    y_ = matrices_of(y, batch, rows, columns, those(rule.y, false, false, true), kWide && !reduces_, true);
    shape_ = {y.count(batch), y.count(rows), a.count(inner), y.count(columns), a_.strides, b_.strides, y_.strides};
  }

  static Bytes bytes_of(const Matrices& matrices) {
    return matrices.packed ? align_up(matrices.elements * static_cast<Bytes>(sizeof(float))) : 0;
  }

  Status run_sample(const KernelCall& call, int64_t r) const {
    auto* const own_a = reinterpret_cast<float*>(call.scratch);
    auto* const own_b = reinterpret_cast<float*>(call.scratch + bytes_of(a_));
    auto* const own_y = reinterpret_cast<float*>(call.scratch + bytes_of(a_) + bytes_of(b_));
    std::byte* const own = call.scratch + bytes_of(a_) + bytes_of(b_) + bytes_of(y_);
    const T* const a = call.inputs[0].as<const T>() + r * a_row_;
    const void* const from_a = a_.packed ? pack(a_, a, own_a) : static_cast<const void*>(a);
    const void* from_b = call.inputs[1].data;
    if (!shared_) {
      const T* const b = call.inputs[1].as<const T>() + r * b_row_;
      from_b = b_.packed ? pack(b_, b, own_b) : static_cast<const void*>(b);
    }
    T* const y = reduces_ ? nullptr : call.outputs[0].as<T>() + r * y_row_;
    const std::array<void*, 3> arguments{const_cast<void*>(from_a), const_cast<void*>(from_b),
                                         y_.packed ? static_cast<void*>(own_y) : y};
    XRUN_TRY(product_.run(arguments, own));
    if (reduces_) {
      add_elements(y_.loop, own_y, call.outputs[0].as<float>());
    } else if (y_.packed) {
      copy_elements(y_.loop, static_cast<const float*>(own_y), y);
    }
    return {};
  }

  Isa isa_;
  int64_t rows_;
  int64_t a_row_, b_row_, y_row_;  // number of elements of a, b and y per sample
  bool shared_;                    // all samples share one b, a parameter
  bool reduces_;                   // the result is the sum over the samples
  Matrices a_, b_, y_;
  dnn::MatmulShape shape_;
  dnn::Primitive product_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_product(const KernelSpec& spec) {
  return by_dtype<Product<float>::make, Product<Bf16>::make, Product<Half>::make>(spec);
}

}  // namespace xrun::ops
