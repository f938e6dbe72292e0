// Kernels that sum over rows (softmax, l2norm, cross entropy, layer_norm and rms_norm) have the bits of the processor
// in several orders of warps.
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

constexpr int64_t kRows = 5;

// Runs `body(target, order)` for each target and some orders.
template <class Body>
void for_machines(const Body& body) {
  for (const Target target : kTargets) {
    body(target, ptx::Order::kFair);
  }
  body(kTargets[1], ptx::Order::kThreadLast);
}

// Launches a kernel with sixteen threads for each row.
template <class... Arguments>
void run_rows(Machine& machine, const std::string& module, const std::string& kernel, const Arguments&... arguments) {
  machine.run_each(module, kernel, kRows * 16, arguments...);
}

// Compares outputs of an operator on rows [kRows, columns]. `run` launches the kernels and returns the results' bytes.
template <class Run>
void compare(const std::string& op, const CpuCall& call, const std::vector<Raw>& given, std::vector<Raw> results,
             const Run& run) {
  run_cpu(op, call, given, results);
  for_machines([&](Target target, ptx::Order order) {
    Machine machine(target, order);
    std::vector<uint64_t> in;
    for (const Raw& bytes : given) {
      in.push_back(machine.add("in", bytes));
    }
    const std::vector<uint64_t> out = run(machine, in);
    for (size_t i = 0; i < results.size(); ++i) {
      const Raw computed = machine.read<std::byte>(out[i], results[i].size());
      if (call.outputs[i].dtype == DType::kF32) {
        EXPECT_TRUE(same_bits(values_of<float>(computed), values_of<float>(results[i]))) << op << ", output " << i;
      } else {
        EXPECT_TRUE(same_bits(values_of<uint16_t>(computed), values_of<uint16_t>(results[i])))
            << op << ", output " << i;
      }
    }
  });
}

Raw numbers(DType dtype, const std::vector<float>& values) {
  return dtype == DType::kF32 ? raw(values) : raw(rounded(values));
}
std::string named(const std::string& kernel, DType dtype) { return kernel + (dtype == DType::kF32 ? "_f32" : "_bf16"); }

// Gradients in bf16 are widened before they are added, so tables get the bits of wide gradients with equal values. The
// second launch of a bag takes the mean of its numbers; number 9 has no row.
TEST(GpuRows, NarrowGradientsAreAddedToTablesLikeWideOnes) {
  constexpr int64_t kSamples = 6, kColumns = 19, kTable = 5, kLength = 3;
  const std::vector<int32_t> numbers{4, 0, 4, 2, 9, 1, 1, 1, 3, 0, 2, 4, 9, 3, 3, 0, 0, 1};
  const std::vector<uint16_t> narrow = rounded(random_floats(kSamples * kColumns, 5));
  std::vector<float> wide(narrow.size());
  std::ranges::transform(narrow, wide.begin(), [](uint16_t bits) { return to_float(Bf16{bits}); });
  for_machines([&](Target target, ptx::Order order) {
    for (const uint32_t mean : {0U, 1U}) {
      std::vector<std::vector<float>> tables;
      for (const std::string type : {"_f32", "_bf16"}) {
        Machine machine(target, order);
        const uint64_t chosen = machine.add("numbers", numbers);
        const uint64_t dy = type == "_f32" ? machine.add("dy", wide) : machine.add("dy", narrow);
        const uint64_t rows = machine.add("rows", random_floats(kTable * kColumns, 6));
        const uint64_t bags = machine.add("bags", random_floats(kTable * kColumns, 7));
        machine.run_each("layout", "add_rows" + type, kColumns, chosen, dy, rows, kSamples, kTable, kColumns);
        machine.run_each("embed_bag", "embed_bag_grad" + type, kColumns, chosen, dy, bags, kSamples, kColumns, kLength,
                         kTable, int64_t{-1}, mean);
        for (const uint64_t table : {rows, bags}) {
          tables.push_back(machine.read<float>(table, kTable * kColumns));
        }
      }
      EXPECT_TRUE(same_bits(tables[0], tables[2]));
      EXPECT_TRUE(same_bits(tables[1], tables[3]));
      EXPECT_FALSE(same_bits(tables[0], random_floats(kTable * kColumns, 6)));
    }
  });
}

TEST(GpuRows, SoftmaxAndL2normHaveTheBitsOfTheProcessor) {
  for (const int64_t columns : {3, 16, 45}) {
    for (const std::string op : {"softmax", "l2norm"}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        if (op == "softmax" && dtype != DType::kF32) {
          continue;  // computed in f32
        }
        const TensorType type = type_of({kBatch, columns}, dtype);
        const auto count = static_cast<size_t>(kRows * columns);
        const Raw x = numbers(dtype, random_floats(count, 1));
        const Raw dy = numbers(dtype, random_floats(count, 2));
        CpuCall call{.attrs = {}, .rows = kRows, .inputs = {type}, .outputs = {type}};
        compare(op, call, {x}, {Raw(x.size())}, [&](Machine& machine, const std::vector<uint64_t>& in) {
          const uint64_t y = machine.empty<std::byte>("y", x.size());
          run_rows(machine, "softmax", named(op, dtype), in[0], y, kRows, columns);
          return std::vector{y};
        });
        call.inputs = {type, type};
        compare(op + ".grad", call, {x, dy}, {Raw(x.size())}, [&](Machine& machine, const std::vector<uint64_t>& in) {
          const uint64_t dx = machine.empty<std::byte>("dx", x.size());
          run_rows(machine, "softmax", named(op + "_grad", dtype), in[0], in[1], dx, kRows, columns);
          return std::vector{dx};
        });
      }
    }
  }
}

TEST(GpuRows, CrossEntropyHasTheBitsOfTheProcessor) {
  for (const int64_t classes : {10, 37}) {
    for (const double smoothing : {0.0, 0.1}) {
      const Attrs attrs{{"scale", 1.5}, {"smoothing", smoothing}};
      const TensorType logits = type_of({kBatch, classes}), row = type_of({kBatch});
      std::vector<float> numbers = random_floats(static_cast<size_t>(kRows * classes), 3);
      numbers[static_cast<size_t>(classes) + 2] = NAN;  // in the second row
      const Raw x = raw(numbers);
      const std::vector<int32_t> labels{0, static_cast<int32_t>(classes) - 1, -1, 3, static_cast<int32_t>(classes)};
      const std::vector<float> dloss = random_floats(kRows, 4);
      const TensorType label = type_of({kBatch}, DType::kI32);
      CpuCall call{.attrs = attrs, .rows = kRows, .inputs = {logits, label}, .outputs = {row}};
      compare("softmax_ce", call, {x, raw(labels)}, {Raw(4 * kRows)},
              [&](Machine& machine, const std::vector<uint64_t>& in) {
                const uint64_t loss = machine.empty<float>("loss", kRows);
                run_rows(machine, "cross_entropy", "softmax_ce_f32", in[0], in[1], loss, kRows, classes, 1.5F,
                         smoothing);
                return std::vector{loss};
              });
      call.inputs.push_back(row);
      call.outputs = {logits};
      compare("softmax_ce.dx", call, {x, raw(labels), raw(dloss)}, {Raw(x.size())},
              [&](Machine& machine, const std::vector<uint64_t>& in) {
                const uint64_t dx = machine.empty<float>("dx", static_cast<size_t>(kRows * classes));
                run_rows(machine, "cross_entropy", "softmax_ce_dx_f32", in[0], in[1], in[2], dx, kRows, classes, 1.5F,
                         smoothing);
                return std::vector{dx};
              });
    }
  }
}

TEST(GpuRows, AccuracyRanksTheLowerOfEqualClassesFirst) {
  const std::vector<float> logits{1, 3, 3, 0, 1, 3, 3, 0, 2, NAN, 1, 0, 5, 4, 3, 2, 1, 1, 1, 1};
  const std::vector<int32_t> labels{1, 2, 0, 2, -1};
  const TensorType type = type_of({kBatch, 4}), row = type_of({kBatch}), label = type_of({kBatch}, DType::kI32);
  for (const int64_t k : {1, 2, 3}) {
    const CpuCall call{.attrs = Attrs{{"k", k}}, .rows = kRows, .inputs = {type, label}, .outputs = {row}};
    compare("accuracy", call, {raw(logits), raw(labels)}, {Raw(4 * kRows)},
            [&](Machine& machine, const std::vector<uint64_t>& in) {
              const uint64_t hit = machine.empty<float>("hit", kRows);
              run_rows(machine, "cross_entropy", "accuracy_f32", in[0], in[1], hit, kRows, int64_t{4}, k);
              return std::vector{hit};
            });
  }
}

// Operands of a norm over rows.
struct NormCase {
  int64_t columns;
  DType dtype;
  bool centred;
  Raw x, dy, weight, bias;
  TensorType type, column;

  NormCase(int64_t width, DType of, bool layer)
      : columns(width),
        dtype(of),
        centred(layer),
        x(numbers(of, random_floats(static_cast<size_t>(kRows * width), 5))),
        dy(numbers(of, random_floats(static_cast<size_t>(kRows * width), 6))),
        weight(raw(random_floats(static_cast<size_t>(width), 7))),
        bias(raw(random_floats(static_cast<size_t>(width), 8))),
        type(type_of({kBatch, width}, of)),
        column(type_of({width})) {}
  std::string name() const { return centred ? "layer_norm" : "rms_norm"; }
};

void compare_forward(const NormCase& at) {
  CpuCall call{.attrs = Attrs{{"eps", 1e-6}}, .rows = kRows, .inputs = {at.type, at.column}, .outputs = {at.type}};
  std::vector<Raw> given{at.x, at.weight};
  if (at.centred) {
    call.inputs.push_back(at.column);
    given.push_back(at.bias);
  }
  compare(at.name(), call, given, {Raw(at.x.size())}, [&](Machine& machine, const std::vector<uint64_t>& in) {
    const uint64_t y = machine.empty<std::byte>("y", at.x.size());
    if (at.centred) {
      run_rows(machine, "layer_norm", named("layer_norm", at.dtype), in[0], in[1], in[2], y, kRows, at.columns, 1e-6F);
    } else {
      run_rows(machine, "layer_norm", named("rms_norm", at.dtype), in[0], in[1], y, kRows, at.columns, 1e-6F);
    }
    return std::vector{y};
  });
}

void compare_gradient(const NormCase& at) {
  CpuCall call{.attrs = Attrs{{"eps", 1e-6}},
               .rows = kRows,
               .inputs = {at.type, at.type, at.column},
               .outputs = {at.type, at.column}};
  std::vector<Raw> results{Raw(at.x.size()), at.bias};  // the accumulators have values
  if (at.centred) {
    call.outputs.push_back(at.column);
    results.push_back(at.weight);
  }
  compare(at.name() + ".grad", call, {at.x, at.dy, at.weight}, results,
          [&](Machine& machine, const std::vector<uint64_t>& in) {
            const uint64_t dx = machine.empty<std::byte>("dx", at.x.size());
            const uint64_t means = machine.empty<float>("means", kRows), rstds = machine.empty<float>("rstds", kRows);
            const uint64_t dweight = machine.add("dweight", at.bias);
            const uint64_t dbias = at.centred ? machine.add("dbias", at.weight) : 0;
            run_rows(machine, "layer_norm", named(at.name() + "_grad", at.dtype), in[0], in[1], in[2], dx, means, rstds,
                     kRows, at.columns, 1e-6F);
            machine.run("layer_norm", named("row_norm_weights", at.dtype), {blocks_for(at.columns, 32), 1, 1},
                        {32, 8, 1}, in[0], in[1], means, rstds, dweight, dbias, kRows, at.columns);
            return std::vector{dx, dweight, dbias};
          });
}

TEST(GpuRows, LayerNormAndRmsNormHaveTheBitsOfTheProcessor) {
  for (const int64_t columns : {7, 48}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const bool centred : {true, false}) {
        const NormCase at(columns, dtype, centred);
        compare_forward(at);
        compare_gradient(at);
      }
    }
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
