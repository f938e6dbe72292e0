// The floating-point modes in which all kernels compute (docs/determinism.md, "Floating-point mode").
#pragma once

#include <cstdint>

namespace xrun::ops {

// Sets the modes of the calling thread now and for good.
void enter_compute_modes();

// Flush-to-zero and denormals-are-zero, as VDPBF16PS and AMX have them always, and one OpenMP thread for libraries that
// ask. Set while the object lives, restored after; for threads that run kernels outside of a device.
class ComputeModes {
 public:
  ComputeModes();
  ~ComputeModes();
  ComputeModes(const ComputeModes&) = delete;
  ComputeModes& operator=(const ComputeModes&) = delete;

 private:
  uint32_t saved_mxcsr_;
};

// Whether the calling thread has the modes.
bool has_compute_modes();

}  // namespace xrun::ops
