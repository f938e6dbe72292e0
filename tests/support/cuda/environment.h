// The settings of the fake driver of a program that has opened it as a library, from the environment.
#pragma once

#include <string_view>
#include <vector>

#include "tests/support/cuda/fake_driver.h"

namespace xrun::cuda::fake {

// The GPUs that a value of CUDA_VISIBLE_DEVICES names, in its order: indices, or beginnings of UUIDs that only one GPU
// has. The first entry that names no GPU ends the list, and a GPU that is named twice hides all. GPU n has the UUID
// uuid_of(n). Sources: NVIDIA, "CUDA C++ Programming Guide", "CUDA Environment Variables"; for GPUs that are named
// twice, PyTorch, torch/cuda/__init__.py, which follows the driver.
std::vector<int> visible_gpus(std::string_view value, int gpus);

// "GPU-00000001-0000-0000-0000-000000000000" for GPU 0.
std::string uuid_of(int gpu);

// FAKE_CUDA_GPUS, FAKE_CUDA_NAMES, FAKE_CUDA_CAPABILITY, FAKE_CUDA_MEMORY_MIB, FAKE_CUDA_USED_MIB, FAKE_CUDA_VERSION,
// FAKE_CUDA_SEED, FAKE_CUDA_ERRORS, FAKE_CUDA_BLOCKS and CUDA_VISIBLE_DEVICES (docs/internals/cuda.md, "The fake
// driver").
Settings settings_of_environment();

}  // namespace xrun::cuda::fake
