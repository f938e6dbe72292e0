// Launches of updates on the PTX machine have the bits of the processor's updates: tables of tensors for sgd and adamw,
// and one launch a tensor for all other rules; and those of sums of gradients.
#include "ops/gpu/launch/updates.h"

#include "ops/gpu/launch/gradient_launches.h"
#include "ops/optimizer/update_norms.h"
#include "tests/ops/gpu/launch/launch_runner.h"
#include "tests/support/optimizers.h"

namespace xrun::ops::gpu {
namespace {

// A weight tensor with its gradient, states and running mean, in the memory of the processor.
struct Tensor {
  int64_t elements;
  std::vector<float> gradient;
  std::vector<std::vector<float>> kept;  // weight, states, mean
};

Tensor tensor_of(int64_t elements, const OptimizerForm& form, uint64_t seed) {
  const auto count = static_cast<size_t>(elements);
  Tensor made{.elements = elements, .gradient = random_floats(count, seed), .kept = {random_floats(count, seed + 1)}};
  for (int i = 0; i < form.kept_states(); ++i) {
    std::vector<float> state = random_floats(count, seed + 2 + static_cast<uint64_t>(i));
    std::ranges::transform(state, state.begin(), [](float x) { return std::fabs(x); });
    made.kept.push_back(std::move(state));
  }
  return made;
}

// Updates a tensor. If `row` is not 0, it has rows of so many numbers, and those with a gradient of zero are left out.
void update_on_processor(const OptimizerForm& form, const UpdateScalars& scalars, Tensor& tensor, int64_t row = 0) {
  const ComputeModes modes;
  UpdateStates states{};
  for (size_t i = 1; i < tensor.kept.size(); ++i) {
    states[i - 1] = tensor.kept[i].data();
  }
  if (row > 0) {
    update_rows(Isa::kAvx2, form, scalars, tensor.kept[0].data(), tensor.gradient.data(), states, row, 0,
                tensor.elements);
  } else {
    update(Isa::kAvx2, form, scalars, tensor.kept[0].data(), tensor.gradient.data(), states, tensor.elements);
  }
}

// A gradient in which only every third row is not zero; one of them has a single number, and one only NaN.
void clear_rows(Tensor& tensor, int64_t row) {
  for (int64_t i = 0; i < tensor.elements; ++i) {
    float& g = tensor.gradient[static_cast<size_t>(i)];
    const int64_t r = i / row;
    g = r % 3 != 0 || (r == 3 && i % row != 5) ? 0 : r == 6 ? NAN : g;
  }
}

uint64_t add_decision(Device& device, double grad_scale, bool held) {
  return device.add(
      "decision",
      raw(std::vector<GpuDecision>{{.stage_scale = static_cast<float>(grad_scale), .held = held ? 1.0F : 0.0F}}));
}

const std::vector<CallSpec>& known_optimizers() {
  static const std::vector<CallSpec> calls{
      test::optimizer("sgd", {{"momentum", 0.0}}), test::optimizer("sgd", {{"momentum", 0.9}}),
      test::optimizer("sgd", {{"momentum", 0.9}, {"nesterov", true}}), test::optimizer("adamw")};
  return calls;
}

// ---- rules with a table

struct Table {
  std::vector<Tensor> tensors;
  std::vector<UpdateEntry> entries;
  std::vector<std::vector<uint64_t>> kept;  // addresses
};

constexpr int64_t kRow = 20;  // numbers in a row of the third tensor

// Adds a tensor to the device and the table, and updates it on the processor unless updates are held back.
void add_tensor(Device& device, GpuTarget target, const OptimizerForm& form, int64_t elements, bool held,
                Table& table) {
  const size_t index = table.tensors.size();
  const bool by_row = elements % kRow == 0 && index == 2;
  Tensor& tensor = table.tensors.emplace_back(tensor_of(elements, form, 10 * index));
  if (by_row) {
    clear_rows(tensor, kRow);
  }
  UpdateScalars scalars = update_scalars(form, 0.1 * static_cast<double>(index), 0.01, index % 2 == 0, 4, 0.5, 3.0);
  std::vector<uint64_t>& at = table.kept.emplace_back();
  for (const std::vector<float>& values : tensor.kept) {
    at.push_back(device.add("kept", raw(values)));
  }
  UpdateEntry& entry = table.entries.emplace_back();
  entry.weight = at[0];
  entry.gradient = device.add("gradient", raw(tensor.gradient));
  std::copy_n(at.begin() + 1, form.states, entry.states);
  entry.mean = form.ema > 0 ? at.back() : 0;
  entry.elements = elements;
  entry.take = static_cast<float>(1 - form.ema);
  if (by_row) {
    entry.row = kRow;
    entry.touched = device.add("touched", elements / kRow * 4);
    ASSERT_TRUE(device.run({touched_launch(target, elements / kRow, kRow)},
                           {.inputs = std::span(&entry.gradient, 1), .outputs = std::span(&entry.touched, 1)}));
  }
  if (!held) {
    update_on_processor(form, scalars, tensor, by_row ? kRow : 0);
  }
  scalars.grad_scale = NAN;  // the factor of the decision takes its place
  entry.scalars = device.add("scalars", raw(std::vector<KnownScalars>{scalars}));
}

// Tensors of one, of several and of no complete thread block, with different scalars.
void compare_table(const CallSpec& call, double ema, Target target, bool held) {
  const GpuTarget made_for = gpu_target(target);
  const auto update = GpuUpdate::make(call, ema, made_for, true);
  ASSERT_TRUE(update.ok()) << update.error().message;
  ASSERT_TRUE(update->has_table());
  Device device(target, ptx::Order::kReversed);
  Table table;
  for (const int64_t elements : {700, 1024, 2500, 1}) {
    add_tensor(device, made_for, update->form(), elements, held, table);
  }
  const int64_t blocks = number_blocks(std::span(table.entries));
  EXPECT_EQ(blocks, 1 + 1 + 3 + 1);
  const std::vector<uint64_t> in{device.add("table", raw(table.entries)), add_decision(device, 0.5, held)};
  ASSERT_TRUE(device.run({update->of_table(std::ssize(table.entries), blocks)}, {.inputs = in}));
  for (size_t t = 0; t < table.tensors.size(); ++t) {
    for (size_t i = 0; i < table.kept[t].size(); ++i) {
      const std::vector<float>& expected = table.tensors[t].kept[i];
      const Raw now = device.read(table.kept[t][i], expected.size() * sizeof(float));
      EXPECT_TRUE(same_bits(values_of<float>(now), expected)) << call.name << ", tensor " << t << ", array " << i;
    }
  }
}

TEST(GpuUpdateTables, OneLaunchUpdatesAllTensorsWithTheBitsOfTheProcessor) {
  for (const CallSpec& call : known_optimizers()) {
    for (const double ema : {0.0, 0.9}) {
      for (const Target target : kTargets) {
        compare_table(call, ema, target, false);
      }
    }
  }
}

TEST(GpuUpdateTables, NothingChangesWhileUpdatesAreHeldBack) {
  for (const CallSpec& call : known_optimizers()) {
    compare_table(call, 0.9, kTargets[0], true);
  }
}

// ---- other rules

// Computes the norms of a tensor on the processor, in the order of the runtime.
void find_norms(const OptimizerForm& form, Tensor& tensor, UpdateScalars& scalars) {
  const ComputeModes modes;
  UpdateStates states{};
  std::vector<double> norms(static_cast<size_t>(norms_of(form)));
  for (int level = 0; level < norm_levels_of(form); ++level) {
    std::vector<double> totals(norms.size()), sums(norms.size());
    for (int64_t at = 0; at < tensor.elements; at += GpuUpdate::kNormPiece) {
      for (size_t i = 1; i < tensor.kept.size(); ++i) {
        states[i - 1] = tensor.kept[i].data() + at;
      }
      norm_squares(Isa::kAvx2, form, level, scalars, tensor.kept[0].data() + at, tensor.gradient.data() + at, states,
                   std::min(GpuUpdate::kNormPiece, tensor.elements - at), sums);
      std::ranges::transform(totals, sums, totals.begin(), std::plus());
    }
    std::ranges::transform(totals, norms.begin(), [](double total) { return std::sqrt(total); });
    set_norms(form, norms, scalars);
  }
}

struct OwnCase {
  const char* name;
  int64_t elements = 600;
  double ema = 0;
  int64_t row = 0;
  bool held = false;
};

void compare_own(const OwnCase& with) {
  const auto update = GpuUpdate::make(test::optimizer(with.name), with.ema, GpuTarget::kSm80, true, with.row);
  ASSERT_TRUE(update.ok()) << update.error().message;
  ASSERT_FALSE(update->has_table());
  const OptimizerForm& form = update->form();
  Tensor tensor = tensor_of(with.elements, form, 77);
  if (with.row > 0) {
    clear_rows(tensor, with.row);
    std::ranges::replace_if(
        tensor.gradient, [](float g) { return std::isnan(g); }, 1.0F);
  }
  Device device(kTargets[0], ptx::Order::kGreedy);
  UpdateScalars scalars = update_scalars(form, 0.1, 0.01, true, 4, 0.5);
  const int64_t rows = with.row > 0 ? with.elements / with.row : 1;
  const std::vector<uint64_t> in{device.add("scalars", raw(std::vector<UpdateScalars>{scalars})),
                                 device.add("gradient", raw(tensor.gradient)), add_decision(device, 0.5, with.held),
                                 device.add("take", raw(std::vector<float>{static_cast<float>(1 - with.ema)})),
                                 device.add("touched", rows * 4)};
  std::vector<uint64_t> out;
  for (const std::vector<float>& values : tensor.kept) {
    out.push_back(device.add("kept", raw(values)));
  }
  const GpuCall call{.inputs = in, .outputs = out, .scratch = device.add("sums", update->norm_scratch(with.elements))};
  const NormProgram& program = update->program();
  const NormEntry entry{.squares = call.scratch,
                        .norms = device.add("norms", Raw(static_cast<size_t>(program.value_bytes()))),
                        .results = in[0] + static_cast<uint64_t>(program.result_offset()),
                        .stride = GpuUpdate::norm_bytes(with.elements),
                        .pieces = pieces_of(with.elements, GpuUpdate::kNormPiece)};
  const std::vector<uint64_t> of_norms{device.add("entries", raw(std::vector<NormEntry>{entry})),
                                       device.add("program", program.bytes())};
  for (int level = 0; level < update->norm_levels(); ++level) {
    ASSERT_TRUE(device.run({update->of_norms(level, with.elements)}, call));
    ASSERT_TRUE(device.run({program.launch(GpuTarget::kSm80, level, 1)}, {.inputs = of_norms}));
  }
  if (with.row > 0) {
    ASSERT_TRUE(device.run({touched_launch(GpuTarget::kSm80, rows, with.row)},
                           {.inputs = std::span(in).subspan(1, 1), .outputs = std::span(in).subspan(4, 1)}));
  }
  ASSERT_TRUE(device.run({update->of_tensor(with.elements)}, call));
  if (!with.held) {
    find_norms(form, tensor, scalars);
    update_on_processor(form, scalars, tensor, with.row);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const Raw now = device.read(out[i], tensor.kept[i].size() * sizeof(float));
    EXPECT_TRUE(same_bits(values_of<float>(now), tensor.kept[i])) << with.name << ", array " << i;
  }
}

TEST(GpuUpdateTables, OtherRulesUpdateOneTensorALaunchWithTheBitsOfTheProcessor) {
  if (open_jit().compiler.empty()) {
    GTEST_SKIP() << "there is no compiler of loops";
  }
  for (const char* name : {"lars", "lamb"}) {
    compare_own({.name = name});
    compare_own({.name = name, .ema = 0.9});
    compare_own({.name = name, .ema = 0.9, .row = 20});
    compare_own({.name = name, .row = 30});
    compare_own({.name = name, .ema = 0.9, .row = 20, .held = true});
  }
  compare_own({.name = "lars", .elements = GpuUpdate::kNormPiece + 100});
}

// ---- gradients

TEST(GpuGradients, TermsAreAddedInTheOrderOfATree) {
  for (const Target target : kTargets) {
    Device device(target, ptx::Order::kFair);
    std::vector<FoldEntry> entries;
    std::vector<std::vector<float>> expected;
    for (const int64_t terms : {1, 2, 3, 5, 8, 13, 16}) {
      const auto elements = static_cast<size_t>(terms == 5 ? 1500 : 100 + terms);
      std::vector<std::vector<float>> values;
      FoldEntry& entry = entries.emplace_back();
      for (int64_t t = 0; t < terms; ++t) {
        values.push_back(random_floats(elements, static_cast<uint64_t>(20 * terms + t)));
        entry.terms[t] = device.add("term", raw(values.back()));
      }
      entry.sum = terms % 2 == 0 ? entry.terms[terms / 2] : device.add("sum", static_cast<Bytes>(elements) * 4);
      entry.count = terms;
      entry.elements = static_cast<int64_t>(elements);
      for (size_t stride = 1; stride < values.size(); stride *= 2) {
        for (size_t i = 0; i + stride < values.size(); i += 2 * stride) {
          std::ranges::transform(values[i], values[i + stride], values[i].begin(), std::plus());
        }
      }
      expected.push_back(values[0]);
    }
    const int64_t blocks = number_blocks(std::span(entries));
    const uint64_t table = device.add("table", raw(entries));
    ASSERT_TRUE(
        device.run({fold_launch(gpu_target(target), std::ssize(entries), blocks)}, {.inputs = std::span(&table, 1)}));
    for (size_t i = 0; i < entries.size(); ++i) {
      EXPECT_TRUE(same_bits(values_of<float>(device.read(entries[i].sum, expected[i].size() * 4)), expected[i]));
    }
  }
}

TEST(GpuGradients, GradientsAreZeroedAndClippedByTheirNorm) {
  constexpr int64_t kCount = 300, kPart = 96;
  const std::vector<float> a = random_floats(kCount, 1);
  TrainSpec train;
  train.clip = {.kind = ClipSpec::kNorm, .limit = 0.5};
  for (const Target target : kTargets) {
    const GpuTarget made_for = gpu_target(target);
    Device device(target, ptx::Order::kFair);
    const std::vector<uint64_t> out{device.add("a", raw(a))};
    const uint64_t flags = device.add("flags", Raw(4));
    ASSERT_TRUE(device.run({finite_launch(made_for, DType::kF32, kCount)}, {.inputs = out, .flags = flags}));
    EXPECT_EQ(values_of<uint32_t>(device.read(flags, 4))[0], 0u);

    const std::vector<GradientPart> parts{{.first = 0, .count = 4}};
    const std::vector<uint64_t> in{device.add("squares", Bytes{4 * 8}), device.add("parts", raw(parts))};
    const uint64_t decision = device.add("decision", Bytes{sizeof(GpuDecision)});
    ASSERT_TRUE(device.run({squares_launch(made_for, kCount, kPart)}, {.inputs = out, .outputs = in}));
    ASSERT_TRUE(device.run({decide_launch(made_for, train, 1)},
                           {.inputs = in, .outputs = std::span(&decision, 1), .flags = flags, .loss_scale = 4}));
    double total = 0;
    for (int64_t begin = 0; begin < kCount; begin += kPart) {
      total += sum_of_squares(Isa::kAvx2, a.data() + begin, std::min(kPart, kCount - begin)) / 16;
    }
    const GpuDecision made = values_of<GpuDecision>(device.read(decision, sizeof(GpuDecision)))[0];
    EXPECT_EQ(made.norm, std::sqrt(total));
    EXPECT_EQ(made.of_stages, 0.5 / std::sqrt(total) / 4);

    ASSERT_TRUE(device.run({zeros_launch(made_for, kCount)}, {.outputs = out}));
    EXPECT_EQ(values_of<float>(device.read(out[0], kCount * 4)), std::vector<float>(kCount, 0.0F));
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
