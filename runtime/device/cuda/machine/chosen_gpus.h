// The GPUs that `--devices cuda:...` names: the figures of one device for the planner, and the checks before a plan
// runs on them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/gpu_def.h"
#include "runtime/device/cuda/driver/driver_table.h"

namespace xrun::cuda {

// `cuda` or `cuda:0,1` for the numbers of the GPUs of devices.
std::string print_numbers(std::span<const int> numbers);

// "; CUDA_VISIBLE_DEVICES is ..." if that variable hides GPUs from the driver; otherwise empty.
std::string hidden_text();

struct ChosenGpus {
  std::vector<int> numbers;  // number of the GPU of each device
  // The figures of one device. Devices of one GPU share its memory and its rates equally. The memory is what is free
  // now on the fullest GPU, without an eighth of it, at most 512 MiB, for kernels and other programs.
  GpuDef figures;
  std::string note;  // one line about the GPUs: their name, the memory and the figures that are assumed
};

// Chooses GPUs of a started driver; no numbers choose all of them. Opens and closes a context of each GPU. Errors:
// kWorld with XG0852 for a number without a GPU or a compute capability below 8.0, XG0854 if no memory is free; XG0635
// if the GPUs are of several kinds.
Result<ChosenGpus> choose_gpus(const DriverTable& driver, std::span<const int> numbers);

// Checks GPUs of a started driver before a plan runs on them.
//   kind   GpuDef::name for which the plan was made
//   needs  bytes of memory that each device needs
// Errors: those of choose_gpus; XG0635 for GPUs of another kind, XG0854 if a GPU has less free memory.
Status check_chosen(const DriverTable& driver, std::span<const int> numbers, const std::string& kind,
                    std::span<const Bytes> needs);

}  // namespace xrun::cuda
