// Products of two tensors, sample by sample. einsum("nij,njk->nik"): y[n, i, k] = sum over j of a[n, i, j] · b[n, j,
// k]; a letter that the result lacks is summed. matmul is the product of the last two dimensions. A sample is one batch
// of f32 matrix products: letters of both operands and the result count the products, letters of one operand and the
// result are rows or columns, and letters of both operands alone are the inner dimension. An operand whose memory is no
// such matrix, or is bf16, is packed first, and then sums over the letters that it has alone.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "graph/autodiff.h"
#include "ops/catalog.h"
#include "ops/dnn.h"
#include "ops/make_kernel.h"
#include "ops/shape.h"
#include "ops/shard.h"
#include "ops/strides.h"

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

// Letters of the operands and of the result.
struct Rule {
  std::string a, b, y;
  std::string text() const { return a + "," + b + "->" + y; }
};

bool has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

bool are_distinct_letters(const std::string& letters) {
  for (size_t i = 0; i < letters.size(); ++i) {
    const char c = letters[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) || letters.find(c, i + 1) != std::string::npos) {
      return false;
    }
  }
  return !letters.empty();
}

Result<Rule> parse_rule(std::string text) {
  std::erase(text, ' ');
  const size_t comma = text.find(',');
  const size_t arrow = text.find("->");
  if (comma != std::string::npos && arrow != std::string::npos && comma < arrow) {
    Rule rule{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
    if (are_distinct_letters(rule.a) && are_distinct_letters(rule.b) && are_distinct_letters(rule.y)) {
      return rule;
    }
  }
  return argument_error("`einsum` cannot read \"" + text + "\"",
                        "write a letter for each dimension of both operands and of the result: \"nij,njk->nik\"");
}

Result<OpShape> infer_einsum(Types in, const Attrs& attrs) {
  XRUN_ASSIGN(const Rule rule, parse_rule(attrs.text("rule")));
  const auto about = [&rule] { return "`einsum` \"" + rule.text() + "\""; };
  std::array<int64_t, 256> sizes{};
  const auto size_of_letter = [&sizes](char letter) -> int64_t& { return sizes[static_cast<unsigned char>(letter)]; };
  for (size_t o = 0; o < 2; ++o) {
    XRUN_TRY(expect_activation("einsum", in[o]));
    const std::string& letters = o == 0 ? rule.a : rule.b;
    if (letters.size() != in[o].dims.size()) {
      return shape_error(about() + " does not fit " + to_text(in[o]), "write a letter for each dimension");
    }
    for (size_t d = 0; d < letters.size(); ++d) {
      int64_t& size = size_of_letter(letters[d]);
      if (size != 0 && size != in[o].dims[d]) {
        return shape_error(about() + " does not fit " + to_text(in[0]) + " and " + to_text(in[1]),
                           "give dimensions of different sizes different letters");
      }
      size = in[o].dims[d];
    }
  }
  TensorType y = with_dims(in[0], {});
  for (const char letter : rule.y) {
    const int64_t size = size_of_letter(letter);
    if (size == 0) {
      return argument_error(about() + " has a result letter that no operand has",
                            "the letters behind `->` are some of those before it");
    }
    y.dims.push_back(size);
  }
  if (rule.a[0] != rule.b[0] || rule.a[0] != rule.y[0]) {
    return shape_error(about() + " would mix samples",
                       "let both operands and the result begin with one letter, that of the batch");
  }
  return OpShape{{std::move(y)}};
}

Result<OpShape> infer_matmul(Types in, const Attrs&) {
  XRUN_TRY(expect_activation("matmul", in[0]));
  XRUN_TRY(expect_activation("matmul", in[1]));
  const auto& a = in[0].dims;
  const auto& b = in[1].dims;
  if (a.size() < 3 || a.size() != b.size() || a.back() != b[b.size() - 2] ||
      !std::equal(a.begin(), a.end() - 2, b.begin())) {
    return shape_error("cannot multiply matrices " + to_text(in[0]) + " and " + to_text(in[1]),
                       "[N, ..., I, K] and [N, ..., K, J] give [N, ..., I, J]");
  }
  TensorType y = with_dims(in[0], a);
  y.dims.back() = b.back();
  return OpShape{{std::move(y)}};
}

// The rule of a call; matmul has that of its rank.
Rule rule_of(Types in, const Attrs& attrs) {
  if (attrs.has("rule")) {
    return parse_rule(attrs.text("rule")).value();
  }
  std::string batch = shard_letters(in[0]);
  batch.resize(batch.size() - 2);
  return {batch + "xy", batch + "yz", batch + "xz"};
}

OpCost product_cost(Types in, Types out, const Attrs& attrs) {
  const Rule rule = rule_of(in, attrs);
  double flops = 2;
  std::string seen;
  const auto count = [&](const std::string& letters, const TensorType& type) {
    for (size_t d = 1; d < letters.size(); ++d) {
      if (!has(seen, letters[d])) {
        seen += letters[d];
        flops *= static_cast<double>(type.dims[d]);
      }
    }
  };
  count(rule.a, in[0]);
  count(rule.b, in[1]);
  return {.flops = flops, .bytes = traffic(in, out)};
}

// The derivative by an operand is the product of dy and the other operand, over the letters that the operand lacks.
Status grad_product(GradBuilder& builder) {
  const std::array<TensorType, 2> in{builder.type(builder.input(0)), builder.type(builder.input(1))};
  const Rule rule = rule_of(in, builder.node().attrs);
  const ValueId dy = builder.output_grad(0);
  const auto attrs_of = [](const Rule& gradient, const TensorType& of) {
    return Attrs{{"rule", gradient.text()}, {"dims", of.dims}};
  };
  XRUN_TRY(builder.set_grad_by(0, "einsum.grad", {dy, builder.input(1)}, attrs_of({rule.y, rule.b, rule.a}, in[0])));
  return builder.set_grad_by(1, "einsum.grad", {dy, builder.input(0)}, attrs_of({rule.y, rule.a, rule.b}, in[1]));
}

// The letters of a rule are those of its shard rule, which calls the batch n.
std::string shard_product(Types in, Types, const Attrs& attrs) {
  const Rule rule = rule_of(in, attrs);
  const auto renamed = [&rule](std::string letters) {
    for (char& c : letters) {
      c = c == rule.a[0] ? 'n' : c == 'n' ? rule.a[0] : c;
    }
    return letters;
  };
  return shard_text({renamed(rule.a), renamed(rule.b)}, {renamed(rule.y)});
}

// One operand or the result, within a sample: where each letter lies in memory.
class Letters {
 public:
  Letters(std::string letters, const TensorType& type, int64_t rows)
      : letters_(std::move(letters)), dims_(block_dims(type, rows)), strides_(block_strides(type, rows)) {}

  int64_t size(char letter) const { return dims_[letters_.find(letter)]; }
  int64_t stride(char letter) const { return has(letters_, letter) ? strides_[letters_.find(letter)] : 0; }
  int64_t count(const std::string& group) const {
    return std::accumulate(group.begin(), group.end(), int64_t{1}, [&](int64_t n, char c) { return n * size(c); });
  }
  // The step of a group of letters that are one run in memory, the last one innermost.
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

// An operand or the result as a batch of matrices: used where it lies, or packed in scratch.
struct Matrices {
  std::array<int64_t, 3> strides{};  // batch, row, column
  int64_t elements = 0;
  bool packed = true;
  bool sums = false;    // several elements of memory are one of the pack
  StridedLoop<2> loop;  // 0: the side that is written
};

Matrices matrices_of(const Letters& at, const std::string& batch, const std::string& rows, const std::string& columns,
                     const std::string& alone, const TensorType& type, bool result) {
  const int64_t m = at.count(rows);
  const int64_t n = at.count(columns);
  Matrices made{.strides = {m * n, n, 1}, .elements = at.count(batch) * m * n, .sums = !alone.empty()};
  if (type.dtype == DType::kF32 && alone.empty()) {
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

// scratch: a, b and y as packed | oneDNN's own
template <typename T>
class Product final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec) {
    auto kernel = std::unique_ptr<Product>(new Product(spec));
    XRUN_ASSIGN(kernel->product_, dnn::matmul(kernel->shape_));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  int64_t parts() const override { return rows_; }

  Bytes scratch_bytes() const override {
    return bytes_of(a_) + bytes_of(b_) + bytes_of(y_) + align_up(product_.scratch_bytes());
  }

  Status run(const KernelCall& call) const override {
    const Range some = part_of(call, rows_);
    for (int64_t r = some.begin; r < some.end; ++r) {
      XRUN_TRY(run_sample(call.inputs[0].as<T>() + r * a_row_, call.inputs[1].as<T>() + r * b_row_,
                          call.outputs[0].as<T>() + r * y_row_, call.scratch));
    }
    return {};
  }

 private:
  explicit Product(const KernelSpec& spec)
      : rows_(spec.rows),
        a_row_(spec.inputs[0].row_elements()),
        b_row_(spec.inputs[1].row_elements()),
        y_row_(spec.outputs[0].row_elements()) {
    const Rule rule = rule_of(spec.inputs, spec.attrs);
    const auto those = [&](const std::string& of, bool in_a, bool in_b, bool in_y) {
      std::string chosen;
      std::copy_if(of.begin() + 1, of.end(), std::back_inserter(chosen),
                   [&](char c) { return has(rule.a, c) == in_a && has(rule.b, c) == in_b && has(rule.y, c) == in_y; });
      return chosen;
    };
    const std::string batch = those(rule.y, true, true, true);
    const std::string rows = those(rule.y, true, false, true);
    const std::string columns = those(rule.y, false, true, true);
    const std::string inner = those(rule.a, true, true, false);
    const Letters a(rule.a, spec.inputs[0], spec.rows);
    const Letters b(rule.b, spec.inputs[1], spec.rows);
    const Letters y(rule.y, spec.outputs[0], spec.rows);
    a_ = matrices_of(a, batch, rows, inner, those(rule.a, true, false, false), spec.inputs[0], false);
    b_ = matrices_of(b, batch, inner, columns, those(rule.b, false, true, false), spec.inputs[1], false);
    y_ = matrices_of(y, batch, rows, columns, those(rule.y, false, false, true), spec.outputs[0], true);
    shape_ = {y.count(batch), y.count(rows), a.count(inner), y.count(columns), a_.strides, b_.strides, y_.strides};
  }

  static Bytes bytes_of(const Matrices& matrices) {
    return matrices.packed ? align_up(matrices.elements * static_cast<Bytes>(sizeof(float))) : 0;
  }

  Status run_sample(const T* a, const T* b, T* y, std::byte* scratch) const {
    auto* const own_a = reinterpret_cast<float*>(scratch);
    auto* const own_b = reinterpret_cast<float*>(scratch + bytes_of(a_));
    auto* const own_y = reinterpret_cast<float*>(scratch + bytes_of(a_) + bytes_of(b_));
    const void* const from_a = a_.packed ? pack(a_, a, own_a) : static_cast<const void*>(a);
    const void* const from_b = b_.packed ? pack(b_, b, own_b) : static_cast<const void*>(b);
    const std::array<void*, 3> arguments{const_cast<void*>(from_a), const_cast<void*>(from_b),
                                         y_.packed ? static_cast<void*>(own_y) : y};
    XRUN_TRY(product_.run(arguments, scratch + bytes_of(a_) + bytes_of(b_) + bytes_of(y_)));
    if (y_.packed) {
      copy_elements(y_.loop, static_cast<const float*>(own_y), y);
    }
    return {};
  }

  int64_t rows_;
  int64_t a_row_, b_row_, y_row_;  // elements of a sample
  Matrices a_, b_, y_;
  dnn::MatmulShape shape_;
  dnn::Primitive product_;
};

constexpr Op kMatmul{.def = {.name = "matmul",
                             .signature = "(a: [N, ...], b: [N, ...])",
                             .group = "dense",
                             .doc = "matrix product of the last two dimensions",
                             .example = "matmul(b)",
                             .aliases = "bmm batch_matmul dot mm",
                             .precision = PrecisionRule::kNarrow,
                             .infer = infer_matmul,
                             .cost = product_cost,
                             .grad = grad_product,
                             .shard_of = shard_product},
                     .cpu = by_dtype<Product<float>::make, Product<Bf16>::make>};

constexpr Op kEinsum{.def = {.name = "einsum",
                             .signature = "(a: [N, ...], b: [N, ...], rule: str)",
                             .group = "dense",
                             .doc = "sum of products named by letters; a letter that the result lacks is summed",
                             .example = "einsum(b, \"nij,njk->nik\")",
                             .aliases = "equation=rule",
                             .precision = PrecisionRule::kNarrow,
                             .infer = infer_einsum,
                             .cost = product_cost,
                             .grad = grad_product,
                             .shard_of = shard_product},
                     .cpu = by_dtype<Product<float>::make, Product<Bf16>::make>};

// inputs: dy and the other operand; its result may have letters that neither has.
constexpr Op kEinsumGrad{.def = {.name = "einsum.grad",
                                 .signature = "(dy: [N, ...], other: [N, ...])",
                                 .group = "dense",
                                 .doc = "gradient of a product by one of its operands",
                                 .precision = PrecisionRule::kNarrow,
                                 .infer = infer_dims,
                                 .cost = product_cost,
                                 .shard_of = shard_product},
                         .cpu = by_dtype<Product<float>::make, Product<Bf16>::make>};

constexpr std::array<const Op*, 3> kOps{&kMatmul, &kEinsum, &kEinsumGrad};

}  // namespace

std::span<const Op* const> product_ops() { return kOps; }

}  // namespace xrun::ops
