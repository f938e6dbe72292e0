// The floating-point modes in which all kernels compute (docs/internals/determinism.md, "Floating-point mode").
#pragma once

#include <cstdint>

namespace xrun::ops {

// Sets the modes of the calling thread and never restores them.
void enter_compute_modes();

// Sets flush-to-zero and denormals-are-zero, which VDPBF16PS and AMX always use, and one OpenMP thread for libraries
// that use OpenMP. The destructor restores the two modes only. For threads that run kernels outside of a device.
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
