// Times of operators for the calibration of a machine: those of a few small models of usual shapes, forward and
// backward, in f32 and in bf16, with the kernels of training.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/settings/calibration.h"
#include "ops/simd/isa.h"

namespace xrun::runtime {

// A small model whose operators are measured.
struct Probe {
  std::string_view name;   // "windows of bottleneck units"
  std::string_view shape;  // dimensions of the input: "3, 224, 224"
  std::string_view body;   // operators from `image` to `feature`
  int64_t rows;            // rows of a call
};
std::span<const Probe> probes();

// Returns the text of a model file with a probe.
std::string probe_text(const Probe& probe, bool bf16);

struct MeasuredCalls {
  CallTimes f32;
  CallTimes bf16;
  Flops head_f32 = 0;
  Flops head_bf16 = 0;
  double update = 0;  // bytes a second
  int calls = 0;      // number of measured calls
  double spread = 0;  // median over the calls: how far the rounds differ from their median
};

// Measures all calls in `rounds` rounds; the median counts. Times are processor times of one thread, so that other
// programs have little effect.
//   progress  called with the work that begins; may be null
// Errors: those of the kernels.
Result<MeasuredCalls> measure_calls(ops::Isa isa, int rounds, const std::function<void(std::string)>& progress);

}  // namespace xrun::runtime
