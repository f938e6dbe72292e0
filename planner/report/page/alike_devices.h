// Devices that do the same work in a step, so that a page draws one of them.
#pragma once

#include <vector>

#include "planner/cost/simulate.h"
#include "planner/program/program.h"

namespace xrun::planner {

struct AlikeDevices {
  std::vector<int> devices;  // in ascending order; the first one is drawn
  Seconds least_busy = 0;    // time of the compute stream of the device that is least busy, and most busy
  Seconds most_busy = 0;
};

// Returns the groups of devices of a program in the order of their first devices. The devices of a group have the same
// sequence of instructions, apart from shards and replicas; if there are at most `few`, each device is a group.
std::vector<AlikeDevices> alike_devices(const Program& program, const ProgramTimes& times, int few = 16);

}  // namespace xrun::planner
