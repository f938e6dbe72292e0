#include "ops/compute_modes.h"

#include <omp.h>
#include <xmmintrin.h>

namespace xrun::ops {
namespace {

constexpr uint32_t kFlushToZero = 0x8000;
constexpr uint32_t kDenormalsAreZero = 0x0040;
constexpr uint32_t kModes = kFlushToZero | kDenormalsAreZero;

}  // namespace

void enter_compute_modes() {
  _mm_setcsr(_mm_getcsr() | kModes);
  omp_set_num_threads(1);
}

ComputeModes::ComputeModes() : saved_mxcsr_(_mm_getcsr()) { enter_compute_modes(); }

ComputeModes::~ComputeModes() { _mm_setcsr(saved_mxcsr_); }

bool has_compute_modes() { return (_mm_getcsr() & kModes) == kModes; }

}  // namespace xrun::ops
