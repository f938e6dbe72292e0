// Tests: tests/ops/jit/interpreter_test.cpp, tests/ops/optimizer/update_norms_test.cpp
#include "ops/optimizer/own_update.h"

#include <algorithm>

#include "ops/optimizer/optimizer.h"
#include "ops/simd/square_sums.h"

namespace xrun::ops {
namespace {

constexpr Bytes kMostScratch = 128 * 1024;
// The largest number of inputs of a loop: weight, gradient, states, numbers of the step and of norms, and the two
// bounds of clipping.
constexpr size_t kMostInputs = 2 + kMostUpdateStates + kMostUpdateScalars + 2;
static_assert(kMostInputs + std::max(1 + kMostUpdateStates, kMostUpdateNorms) <= kMostOperands);

// Makes a loop of functions of the rule, in which the gradient is clipped first (`clipped` of
// ops/optimizer/optimizer.h). The two inputs for clipping follow the inputs of the rule.
LoopForm form_of(const UpdateRule& rule, std::span<const ScalarExpr> functions) {
  LoopForm form;
  std::vector<ScalarId> places;
  for (int i = 0; i < rule.inputs(); ++i) {
    places.push_back(form.expr.input(i));
    form.inputs.push_back(i < 2 + rule.states ? LoopInput::kF32 : LoopInput::kUniform);
  }
  const ScalarId scale = form.expr.input(rule.inputs());
  const ScalarId limit = form.expr.input(rule.inputs() + 1);
  form.inputs.insert(form.inputs.end(), 2, LoopInput::kUniform);
  const ScalarId scaled = form.expr.make(ScalarOp::kMul, places[1], scale);
  const ScalarId below =
      form.expr.make(ScalarOp::kSelect, form.expr.make(ScalarOp::kLess, limit, scaled), limit, scaled);
  const ScalarId least = form.expr.make(ScalarOp::kNeg, limit);
  places[1] = form.expr.make(ScalarOp::kSelect, form.expr.make(ScalarOp::kLess, below, least), least, below);
  std::vector<ScalarId> results;
  for (const ScalarExpr& function : functions) {
    std::ranges::copy(form.expr.insert(function, places), std::back_inserter(results));
  }
  form.outputs.assign(results.size(), DType::kF32);
  form.expr.set_results(std::move(results));
  return form;
}

// The loop that sums the squares of the norms of one level.
LoopForm form_of_norms(const UpdateRule& rule, int level) {
  const std::vector<int> levels = norm_levels(rule);
  std::vector<ScalarExpr> norms;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i] == level) {
      norms.push_back(rule.norms[i]);
    }
  }
  LoopForm form = form_of(rule, norms);
  form.squares = true;
  return form;
}

bool compiles(std::optional<Isa> compiled_for, bool wide) {
  return compiled_for.has_value() && (*compiled_for >= Isa::kAvx512) == wide;
}

}  // namespace

OwnUpdate::Loops::Loops(const LoopForm& form, std::optional<Isa> compiled_for)
    : narrow(form, Isa::kAvx2, compiles(compiled_for, false)), wide(form, Isa::kAvx512, compiles(compiled_for, true)) {}

OwnUpdate::OwnUpdate(UpdateRule rule, std::optional<Isa> compiled_for)
    : rule_(std::move(rule)),
      update_(form_of(rule_, {&rule_.elements, 1}), compiled_for),
      level_of_(norm_levels(rule_)) {
  const int levels = level_of_.empty() ? 0 : std::ranges::max(level_of_) + 1;
  for (int level = 0; level < levels; ++level) {
    levels_.emplace_back(form_of_norms(rule_, level), compiled_for);
  }
}

GpuLoop update_kernel(const UpdateRule& rule, bool keeps_mean, int64_t row) {
  GpuLoop loop = gpu_loop(form_of(rule, {&rule.elements, 1}));
  ScalarExpr& expr = loop.expr;
  const auto operand = [&](GpuOperand::Reach reach, std::vector<int64_t> steps = {}) {
    loop.inputs.push_back({.reach = reach, .dtype = DType::kF32, .steps = std::move(steps)});
    return expr.input(static_cast<int>(loop.inputs.size()) - 1);
  };
  std::vector<ScalarId> results = expr.results();
  const ScalarId held = operand(GpuOperand::Reach::kOne);
  if (row > 0) {
    loop.dims = {1, row};
    const ScalarId touched = operand(GpuOperand::Reach::kSteps, {1, 0});
    for (size_t i = 0; i < results.size(); ++i) {
      results[i] = expr.make(ScalarOp::kSelect, touched, results[i], expr.input(i == 0 ? 0 : static_cast<int>(i) + 1));
    }
  }
  if (keeps_mean) {
    const ScalarId mean = operand(GpuOperand::Reach::kEach);
    const ScalarId take = operand(GpuOperand::Reach::kOne);
    const ScalarId moved = expr.make(ScalarOp::kMul, expr.make(ScalarOp::kSub, results[0], mean), take);
    results.push_back(expr.make(ScalarOp::kSelect, held, mean, expr.make(ScalarOp::kAdd, mean, moved)));
    loop.outputs.push_back(DType::kF32);
  }
  for (int i = 0; i < 1 + rule.states; ++i) {
    ScalarId& result = results[static_cast<size_t>(i)];
    result = expr.make(ScalarOp::kSelect, held, expr.input(i == 0 ? 0 : i + 1), result);
  }
  expr.set_results(std::move(results));
  return loop;
}

GpuLoop norm_kernel(const UpdateRule& rule, int level, int64_t piece) {
  return gpu_loop(form_of_norms(rule, level), piece);
}

Result<OwnUpdate> OwnUpdate::make(UpdateRule rule, std::optional<Isa> compiled_for) {
  OwnUpdate update(std::move(rule), compiled_for);
  const auto is_large = [](const Loops& loops) { return loops.wide.scratch_bytes() > kMostScratch; };
  if (is_large(update.update_) || std::ranges::any_of(update.levels_, is_large)) {
    return Error{ErrorKind::kContent, "XG0216", "the update of an optimizer keeps too many numbers for each element",
                 "write it with fewer operations"};
  }
  return update;
}

std::array<float, kMostUpdateScalars> OwnUpdate::scalars(double rate, int64_t step, double decay) const {
  const double inputs[kStepInputs] = {rate, static_cast<double>(step + 1), decay};
  std::array<float, kMostUpdateScalars> scalars{};
  std::ranges::transform(evaluate(rule_.scalars, inputs), scalars.begin(),
                         [](double value) { return static_cast<float>(value); });
  set_norms(std::vector<double>(rule_.norms.size()), scalars);
  return scalars;
}

void OwnUpdate::set_norms(std::span<const double> norms, std::array<float, kMostUpdateScalars>& scalars) const {
  if (!rule_.ratios.results().empty()) {
    std::ranges::transform(evaluate(rule_.ratios, norms), scalars.begin() + rule_.step_scalars(),
                           [](double value) { return static_cast<float>(value); });
  }
}

const void** OwnUpdate::uniform_inputs(const UpdateScalars& u, const void** next) const {
  for (int i = 0; i < rule_.inputs() - 2 - rule_.states; ++i) {
    *next++ = &u.own[static_cast<size_t>(i)];
  }
  *next++ = &u.grad_scale;
  *next++ = &u.grad_limit;
  return next;
}

void OwnUpdate::run(Isa isa, const UpdateScalars& u, float* w, const float* g, std::span<float* const> states,
                    int64_t n) const {
  alignas(64) std::byte scratch[kMostScratch];
  const void* inputs[kMostInputs] = {w, g};
  uniform_inputs(u, std::copy_n(states.begin(), rule_.states, inputs + 2));
  void* outputs[1 + kMostUpdateStates] = {w};
  std::copy_n(states.begin(), rule_.states, outputs + 1);
  update_.of(isa).run(inputs, outputs, n, scratch);
}

void OwnUpdate::norm_squares(Isa isa, int level, const UpdateScalars& u, const float* w, const float* g,
                             std::span<const float* const> states, int64_t n, std::span<double> sums) const {
  alignas(64) std::byte scratch[kMostScratch];
  const void* inputs[kMostInputs] = {w, g};
  uniform_inputs(u, std::copy_n(states.begin(), rule_.states, inputs + 2));
  SquareLanes lanes[kMostUpdateNorms];
  void* outputs[kMostUpdateNorms];
  std::ranges::transform(lanes, outputs, [](SquareLanes& place) { return &place; });
  levels_[static_cast<size_t>(level)].of(isa).run(inputs, outputs, n, scratch);
  const SquareLanes* next = lanes;
  for (size_t i = 0; i < level_of_.size(); ++i) {
    if (level_of_[i] == level) {
      sums[i] = total_of(*next++);
    }
  }
}

}  // namespace xrun::ops
