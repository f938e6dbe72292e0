#include "ops/own_update.h"

#include <algorithm>
#include <cstring>

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

OwnUpdate::OwnUpdate(UpdateRule rule, Isa isa)
    : rule_(std::move(rule)), program_(rule_.elements, rule_.inputs(), isa), isa_(isa) {}

Result<OwnUpdate> OwnUpdate::make(UpdateRule rule, Isa isa) {
  OwnUpdate update(std::move(rule), isa);
  if (update.program_.scratch_bytes() > kMostScratch) {
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

void OwnUpdate::run(const UpdateScalars& u, float* w, const float* g, float* s0, float* s1, int64_t n) const {
  constexpr size_t kMostInputs = 2 + kMostUpdateStates + kMostUpdateScalars;
  alignas(64) std::byte scratch[kMostScratch];
  alignas(64) float blocks[kMostInputs][kScalarBlock];
  const float** const inputs = program_.inputs(scratch);
  const auto scalar_count = rule_.scalars.results().size();
  const auto first_scalar = static_cast<size_t>(2 + rule_.states);
  for (size_t i = 0; i < scalar_count; ++i) {
    std::fill_n(blocks[first_scalar + i], std::min(n + kLanes, kScalarBlock), u.own[i]);
    inputs[first_scalar + i] = blocks[first_scalar + i];
  }
  float* const changed[] = {w, s0, s1};
  for (int64_t begin = 0; begin < n; begin += kScalarBlock) {
    const int64_t count = std::min(kScalarBlock, n - begin);
    const auto read = [&](size_t input, const float* from) {
      inputs[input] = from + begin;
      if (count % kLanes != 0) {
        std::copy_n(from + begin, count, blocks[input]);
        inputs[input] = blocks[input];
      }
    };
    read(0, w);
    run_for<ClipBody>(isa_, &u, g + begin, blocks[1], count);
    inputs[1] = blocks[1];
    for (int s = 0; s < rule_.states; ++s) {
      read(static_cast<size_t>(2 + s), changed[1 + s]);
    }
    program_.run(scratch, count);
    for (int r = 0; r < program_.results(); ++r) {
      // A result may be an input, unchanged.
      std::memmove(changed[r] + begin, program_.result(scratch, r), static_cast<size_t>(count) * sizeof(float));
    }
  }
}

}  // namespace xrun::ops
