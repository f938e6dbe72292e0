// The share of the machine's own rates that a benchmark reaches, and the lines of a report about it.
#pragma once

#include <string>

#include "runtime/bench/roofline.h"

namespace xrun::cli {

// If other programs take processors while the machine's rates are measured, the measured rates are too low, and the
// share is too high, even above 1.
struct MachineShare {
  double share = 0;            // share of the machine's rate, by wall time
  double processor_share = 0;  // share of the machine's rate, by processor time of this process
  double processors = 1;       // share of processor time that the workers got while the rates were measured

  // The largest plausible share: even on an idle machine the rates vary by some per cent.
  static constexpr double kMost = 1.05;
  // Whether other programs took processors, so that the share by the clock means nothing.
  bool is_loaded() const { return processors < 0.9 || share > kMost; }
};

// Computes MachineShare::processors.
//   time     wall and processor time of a measurement whose workers never wait
//   threads  the number of threads that measured it, on `cores` cores
double processors_of(const runtime::Elapsed& time, int threads, int cores);

// "42 % of 460 GFLOP/s, by processor time 42 %". On a loaded machine it has only the share by processor time, and says
// why.
std::string share_text(const MachineShare& share, const std::string& rates);

// The note that a report has on a loaded machine.
std::string loaded_note(const MachineShare& share);

}  // namespace xrun::cli
