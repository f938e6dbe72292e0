#include "ops/own_update.h"

#include <algorithm>

#include "ops/optimizer.h"

namespace xrun::ops {
namespace {

constexpr Bytes kMostScratch = 64 * 1024;

// The update with the gradient clipped first (`clipped` of ops/optimizer.h); the bounds of clipping follow the inputs
// of the rule.
LoopForm form_of(const UpdateRule& rule) {
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
  form.expr.set_results(form.expr.insert(rule.elements, places));
  form.outputs.assign(form.expr.results().size(), DType::kF32);
  return form;
}

bool compiles(std::optional<Isa> compiled_for, bool wide) {
  return compiled_for.has_value() && (*compiled_for >= Isa::kAvx512) == wide;
}

}  // namespace

OwnUpdate::OwnUpdate(UpdateRule rule, std::optional<Isa> compiled_for)
    : rule_(std::move(rule)),
      narrow_(form_of(rule_), Isa::kAvx2, compiles(compiled_for, false)),
      wide_(form_of(rule_), Isa::kAvx512, compiles(compiled_for, true)) {}

Result<OwnUpdate> OwnUpdate::make(UpdateRule rule, std::optional<Isa> compiled_for) {
  OwnUpdate update(std::move(rule), compiled_for);
  if (update.wide_.scratch_bytes() > kMostScratch) {
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
  return scalars;
}

void OwnUpdate::run(Isa isa, const UpdateScalars& u, float* w, const float* g, float* s0, float* s1, int64_t n) const {
  static_assert(kMostUpdateStates == 2);
  alignas(64) std::byte scratch[kMostScratch];
  float* const changed[] = {w, s0, s1};
  const void* inputs[2 + kMostUpdateStates + kMostUpdateScalars + 2] = {w, g};
  const void** input = std::copy_n(changed + 1, rule_.states, inputs + 2);
  for (size_t i = 0; i < rule_.scalars.results().size(); ++i) {
    *input++ = &u.own[i];
  }
  *input++ = &u.grad_scale;
  *input = &u.grad_limit;
  void* outputs[] = {w, s0, s1};
  (isa >= Isa::kAvx512 ? wide_ : narrow_).run(inputs, outputs, n, scratch);
}

}  // namespace xrun::ops
