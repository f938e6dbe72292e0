// The floating-point modes in which all kernels compute (docs/internals/determinism.md, "Floating-point mode").
#pragma once

#include <cstdint>

namespace xrun::ops {

// Sets the modes of the calling thread and never restores them.
void enter_compute_modes();

// Sets flush-to-zero and denormals-are-zero, as VDPBF16PS and AMX always compute, and one OpenMP thread for libraries
// that use OpenMP. The destructor restores only the two floating-point modes. Use it on threads that run kernels
// outside of a device.
class ComputeModes {
 public:
  ComputeModes();
  ~ComputeModes();
  ComputeModes(const ComputeModes&) = delete;
  ComputeModes& operator=(const ComputeModes&) = delete;

 private:
  uint32_t saved_mxcsr_;
};

// Whether the calling thread computes with flush-to-zero and denormals-are-zero.
bool has_compute_modes();

}  // namespace xrun::ops
