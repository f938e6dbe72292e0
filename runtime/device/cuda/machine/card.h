// A GPU of this machine as its driver describes it, and the figures with which the planner plans for it.
#pragma once

#include <string>

#include "graph/base/result.h"
#include "graph/settings/gpu_def.h"
#include "runtime/device/cuda/driver/driver_table.h"

namespace xrun::cuda {

// The least compute capability that the kernels need, times ten: tensor cores compute bf16 from 8.0 on.
inline constexpr int kLeastCapability = 80;

struct Card {
  int number = 0;           // that of cuda:N
  std::string name;         // "NVIDIA H100 80GB HBM3"
  int capability = 0;       // compute capability times ten: 90
  int multiprocessors = 0;  // the other members are 0 if the driver does not report them
  double clock = 0;         // clock of the multiprocessors, in Hz
  double memory_clock = 0;  // in Hz; the memory moves two words in each cycle
  int bus_bits = 0;         // width of the memory's bus
};

// Asks a started driver for the GPU with this number. Errors: kWorld, with XG0852 if there is no such GPU.
Result<Card> read_card(const DriverTable& driver, int number);

struct CardFigures {
  GpuDef gpu;              // without its memory
  std::string assumption;  // "planned as h100, with ..."; empty: the figures are published ones of the card
};

// The figures of a card. Cards whose name contains that of a kind (graph/settings/gpu_def.h) have its figures, which
// are those of SXM modules. Others have figures that follow from the multiprocessors, the clocks and the memory's bus.
// Their name is that of the card, and their links are assumed to be PCIe 4.0 with 16 lanes.
CardFigures figures_of(const Card& card);

}  // namespace xrun::cuda
