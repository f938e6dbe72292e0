// Rates of a machine for its calibration: memory, workers next to one another, exchanges between devices, hand-overs of
// tasks, and decoding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/calibration.h"
#include "ops/simd/isa.h"
#include "runtime/device/host.h"

namespace xrun::runtime {

// A median over rounds, and how far the farthest round is from it: 0.1 is a tenth.
struct Spread {
  std::string what;
  double median = 0;
  double spread = 0;
};

// Fills `bandwidth`, `slow_down`, `copy`, `all_gather`, `reduce_scatter`, `hand_over` and `decode` of a calibration.
// Other programs on the machine lower the rates. One thread calls it; it starts the threads that it needs and ends
// them.
//   progress  called with the work that begins; may be null
// Returns the spread of each figure. Errors: kWorld if the system refuses memory or threads.
Result<std::vector<Spread>> measure_rates(const Host& host, ops::Isa isa, int rounds,
                                          const std::function<void(std::string)>& progress, Calibration& calibration);

// Returns the start and the rate of an exchange between two devices that takes `small` for `small_bytes` and `large`
// for `large_bytes`. If the times do not grow with the bytes, the rate is that of the larger exchange.
ExchangeTime exchange_time(double small_bytes, Seconds small, double large_bytes, Seconds large);

}  // namespace xrun::runtime
