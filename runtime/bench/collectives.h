// Measures an all-gather and a reduce-scatter of f32 arrays between devices with the communicator of a run.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/comm/communicator.h"

namespace xrun::runtime {

struct CollectiveCase {
  int devices = 2;  // total number of devices of all ranks
  int first = 0;    // index of the first device of this rank
  int own = 2;      // number of devices of this rank
  int threads = 1;  // threads per device
  Bytes bytes = 0;  // size of the array on a device: the result of the all-gather, the input of the reduce-scatter
  int rounds = 1;
};

// The duration of each collective in each round: from the start, which all ranks synchronise, to its end on this rank.
struct CollectiveFigures {
  std::vector<Seconds> all_gather;
  std::vector<Seconds> reduce_scatter;
  std::vector<Seconds> scattered;  // exchanges of the reduce-scatter without its sums
};

// Makes the communicator for exchanges of this rank's devices with all devices.
using MakeCommunicator =
    std::function<std::unique_ptr<Communicator>(const DeviceSet& devices, std::span<const Exchange> exchanges)>;

// Measures both collectives and checks their results. All ranks call it with equal devices, bytes and rounds. If `make`
// is empty, all devices are in this process. Errors: kWorld if the system refuses memory or threads; those of the
// communicator.
Result<CollectiveFigures> measure_collectives(const CollectiveCase& one, const MakeCommunicator& make);

}  // namespace xrun::runtime
