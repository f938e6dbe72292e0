// Products of ops/gpu: the order of the sum of an element does not depend on the shape and the grouping of rows.
#include "tests/ops/gpu/kernel_runner.h"
#include "tests/support/ptx/mma_model.h"

namespace xrun::ops::gpu {
namespace {

struct Shape {
  int64_t m, n, k;
};
// Sizes that no tile divides, and sizes whose rows begin at multiples of 16 bytes.
constexpr Shape kShapes[] = {{70, 10, 45}, {65, 72, 40}};

enum class Form { kNt, kNn, kTn };
constexpr Form kForms[] = {Form::kNt, Form::kNn, Form::kTn};

std::string name_of(Form form) { return form == Form::kNt ? "nt" : form == Form::kNn ? "nn" : "tn"; }

// Places of the elements (row, term) of a and (term, column) of b in memory.
size_t place_a(Form form, const Shape& s, int64_t row, int64_t term) {
  return static_cast<size_t>(form == Form::kTn ? term * s.m + row : row * s.k + term);
}
size_t place_b(Form form, const Shape& s, int64_t term, int64_t column) {
  return static_cast<size_t>(form == Form::kNt ? column * s.k + term : term * s.n + column);
}

std::array<uint32_t, 3> grid_of(const Shape& s) { return {blocks_for(s.n, 64), blocks_for(s.m, 64), 1}; }

struct Operands {
  std::vector<float> a, b, bias, before;
  explicit Operands(const Shape& s)
      : a(random_floats(static_cast<size_t>(s.m * s.k), 1)),
        b(random_floats(static_cast<size_t>(s.n * s.k), 2)),
        bias(random_floats(static_cast<size_t>(s.n), 3)),
        before(random_floats(static_cast<size_t>(s.m * s.n), 4)) {}
};

TEST(GpuProduct, F32IsOneChainOfFusedMultiplyAdds) {
  for (const Shape& s : kShapes) {
    const Operands of(s);
    for (const Form form : kForms) {
      std::vector<float> expected;
      for (int64_t row = 0; row < s.m; ++row) {
        for (int64_t column = 0; column < s.n; ++column) {
          float sum = 0;
          for (int64_t term = 0; term < s.k; ++term) {
            sum = std::fma(of.a[place_a(form, s, row, term)], of.b[place_b(form, s, term, column)], sum);
          }
          const auto at = static_cast<size_t>(row * s.n + column);
          expected.push_back(form == Form::kNt   ? sum + of.bias[static_cast<size_t>(column)]
                             : form == Form::kTn ? of.before[at] + sum
                                                 : sum);
        }
      }
      for (const Target target : kTargets) {
        Machine machine(target, target.compute == 80 ? ptx::Order::kFair : ptx::Order::kGreedy);
        const uint64_t a = machine.add("a", of.a), b = machine.add("b", of.b), bias = machine.add("bias", of.bias);
        const uint64_t out =
            form == Form::kTn ? machine.add("out", of.before) : machine.empty<float>("out", expected.size());
        const std::string kernel = "product_" + name_of(form) + "_f32";
        if (form == Form::kNt) {
          machine.run("product_f32", kernel, grid_of(s), {256, 1, 1}, a, b, bias, out, s.m, s.n, s.k);
        } else {
          machine.run("product_f32", kernel, grid_of(s), {256, 1, 1}, a, b, out, s.m, s.n, s.k);
        }
        EXPECT_TRUE(same_bits(machine.read<float>(out, expected.size()), expected)) << kernel;
      }
    }
  }
}

// Returns one element of a product as tensor cores sum it, by the published model.
float model_sum(const ptx::TensorCore& core, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b, Form form,
                const Shape& s, int64_t row, int64_t column) {
  std::vector<ptx::Term> terms_a, terms_b;
  for (int64_t term = 0; term < (s.k + 31) / 32 * 32; ++term) {  // zeros after the last term
    terms_a.push_back(ptx::term_of_bfloat(term < s.k ? a[place_a(form, s, row, term)] : 0));
    terms_b.push_back(ptx::term_of_bfloat(term < s.k ? b[place_b(form, s, term, column)] : 0));
  }
  return ptx::sum_of_products(core, terms_a, terms_b, 0.0F);
}

struct Bf16Outcome {
  std::vector<float> sums;        // accumulator of product_tn
  std::vector<uint16_t> results;  // results of the other forms
};

Bf16Outcome run_bf16(const Shape& s, Form form, const Operands& of, Target target, ptx::Order order, int64_t rows) {
  Machine machine(target, order);
  const uint64_t a = machine.add("a", rounded(of.a)), b = machine.add("b", rounded(of.b));
  const auto count = static_cast<size_t>(s.m * s.n);
  const std::string kernel = "product_" + name_of(form) + "_bf16";
  if (form == Form::kTn) {
    const uint64_t out = machine.add("out", of.before);
    machine.run("product_bf16", kernel, grid_of(s), {128, 1, 1}, a, b, out, s.m, s.n, s.k);
    return {.sums = machine.read<float>(out, count), .results = {}};
  }
  const uint64_t out = machine.empty<uint16_t>("out", count), bias = machine.add("bias", of.bias);
  for (int64_t first = 0; first < s.m; first += rows) {  // in groups of rows
    const Shape part{std::min(rows, s.m - first), s.n, s.k};
    const auto from = a + static_cast<uint64_t>(first * s.k * 2), to = out + static_cast<uint64_t>(first * s.n * 2);
    if (form == Form::kNt) {
      machine.run("product_bf16", kernel, grid_of(part), {128, 1, 1}, from, b, bias, to, part.m, part.n, part.k);
    } else {
      machine.run("product_bf16", kernel, grid_of(part), {128, 1, 1}, from, b, to, part.m, part.n, part.k);
    }
  }
  return {.sums = {}, .results = machine.read<uint16_t>(out, count)};
}

TEST(GpuProduct, Bf16HasTheSumsOfTensorCores) {
  for (const Shape& s : kShapes) {
    const Operands of(s);
    const auto a = rounded(of.a), b = rounded(of.b);
    for (const Form form : kForms) {
      for (const Target target : kTargets) {
        const auto core = ptx::tensor_core(target.generation);
        const Bf16Outcome done = run_bf16(s, form, of, target, ptx::Order::kReversed, s.m);
        std::vector<float> sums;
        std::vector<uint16_t> results;
        double error = 0, size = 0;
        for (int64_t row = 0; row < s.m; ++row) {
          for (int64_t column = 0; column < s.n; ++column) {
            const float sum = model_sum(core, a, b, form, s, row, column);
            double exact = 0;
            for (int64_t term = 0; term < s.k; ++term) {
              exact += static_cast<double>(to_float(Bf16{a[place_a(form, s, row, term)]})) *
                       static_cast<double>(to_float(Bf16{b[place_b(form, s, term, column)]}));
            }
            error += (static_cast<double>(sum) - exact) * (static_cast<double>(sum) - exact);
            size += exact * exact;
            sums.push_back(of.before[static_cast<size_t>(row * s.n + column)] + sum);
            results.push_back(to_bf16(form == Form::kNt ? sum + of.bias[static_cast<size_t>(column)] : sum).bits);
          }
        }
        EXPECT_LT(std::sqrt(error / size), 1e-6) << "the sums of tensor cores are f32, only their results are bf16";
        if (form == Form::kTn) {
          EXPECT_TRUE(same_bits(done.sums, sums)) << name_of(form);
        } else {
          EXPECT_TRUE(same_bits(done.results, results)) << name_of(form);
        }
      }
    }
  }
}

TEST(GpuProduct, BitsDependNeitherOnTheOrderOfWarpsNorOnTheGroupingOfRows) {
  const Shape s = kShapes[1];
  const Operands of(s);
  const auto expected = run_bf16(s, Form::kNt, of, kTargets[1], ptx::Order::kFair, s.m).results;
  for (const ptx::Order order : ptx::kOrders) {
    EXPECT_EQ(run_bf16(s, Form::kNt, of, kTargets[1], order, 16).results, expected) << static_cast<int>(order);
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
