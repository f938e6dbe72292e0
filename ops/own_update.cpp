#include "ops/own_update.h"

#include <algorithm>

#include "ops/optimizer.h"

namespace xrun::ops {
namespace {

constexpr Bytes kMostScratch = 64 * 1024;

struct ClipBody {
  XRUN_INLINE static void run(const UpdateScalars* u, const float* g, float* to, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      store(to + i, clipped(*u, load_upto(g + i, n - i)));
    }
  }
};

}  // namespace

OwnUpdate::OwnUpdate(UpdateRule rule)
    : rule_(std::move(rule)),
      narrow_(rule_.elements, rule_.inputs(), Isa::kAvx2),
      wide_(rule_.elements, rule_.inputs(), Isa::kAvx512) {}

Result<OwnUpdate> OwnUpdate::make(UpdateRule rule) {
  OwnUpdate update(std::move(rule));
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
  constexpr size_t kMostInputs = 2 + kMostUpdateStates + kMostUpdateScalars;
  alignas(64) std::byte scratch[kMostScratch];
  alignas(64) float blocks[kMostInputs][kScalarBlock];
  const ScalarProgram& program = isa >= Isa::kAvx512 ? wide_ : narrow_;
  const float** const inputs = program.inputs(scratch);
  for (int i = 0; i < rule_.inputs(); ++i) {
    inputs[i] = blocks[i];
  }
  const auto first_scalar = static_cast<size_t>(2 + rule_.states);
  for (size_t i = 0; i < rule_.scalars.results().size(); ++i) {
    std::fill_n(blocks[first_scalar + i], kScalarBlock, u.own[i]);
  }
  float* const changed[] = {w, s0, s1};
  for (int64_t begin = 0; begin < n; begin += kScalarBlock) {
    const int64_t count = std::min(kScalarBlock, n - begin);
    // Copies, since a result may be an input: `previous = weight`.
    std::copy_n(w + begin, count, blocks[0]);
    run_for<ClipBody>(isa, &u, g + begin, blocks[1], count);
    for (int s = 0; s < rule_.states; ++s) {
      std::copy_n(changed[1 + s] + begin, count, blocks[2 + s]);
    }
    program.run(scratch, count);
    for (int r = 0; r < program.results(); ++r) {
      std::copy_n(program.result(scratch, r), count, changed[r] + begin);
    }
  }
}

}  // namespace xrun::ops
