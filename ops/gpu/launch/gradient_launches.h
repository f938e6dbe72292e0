// Launches on gradients and losses between the operators of a step: zeros, sums of partials, and checks of numbers.
#pragma once

#include "ops/gpu/launch/launch_list.h"

namespace xrun::ops::gpu {

// Sets output 0, f32[n], to zeros.
GpuLaunch zeros_launch(GpuTarget target, int64_t n);

// Adds input 0 to output 0, both f32[n]: one sum of a tree of gradient partials (docs/internals/determinism.md,
// "Gradient partials").
GpuLaunch add_launch(GpuTarget target, int64_t n);

// Sets bit 0 of the flag word if a number of input 0 is not finite. REQUIRES: `dtype` is f32 or bf16.
GpuLaunch finite_launch(GpuTarget target, DType dtype, int64_t n);

// Sets output 0, f64[ceil(n / part)], to the sums of squares of every `part` elements of input 0, f32[n].
GpuLaunch squares_launch(GpuTarget target, int64_t n, int64_t part);

// Sets output 0, one f32, to the scale of gradients for `clip = norm`, from the sums of squares of all tensors,
// input 0, f64[count]. A sum that is not finite sets bit 0 of the flag word instead.
GpuLaunch clip_launch(GpuTarget target, int64_t count, double loss_scale, double limit);

}  // namespace xrun::ops::gpu
