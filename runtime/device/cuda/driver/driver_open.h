// Opens CUDA's driver library at run time, so that xrun starts on machines without a driver.
#pragma once

#include <string>

#include "graph/base/result.h"
#include "runtime/device/cuda/driver/driver_table.h"

namespace xrun::cuda {

inline constexpr const char* kDriverLibrary = "libcuda.so.1";

// The least version of CUDA that the driver must support. 12.0 is the first whose driver accepts PTX 8.0, in which the
// kernels are written. CUDA represents version 12.0 as 12000.
inline constexpr int kLeastDriver = 12000;

// "12.4" for 12040.
std::string version_text(int version);

// Finds the functions of the driver library. The library is never closed. Errors: kWorld with XG0850 if the library
// cannot be opened, XG0851 if it lacks a function.
Result<DriverTable> find_driver(const std::string& library = kDriverLibrary);

// Starts a driver whose functions were found. May be called again. Returns the version of CUDA that it supports.
// Errors: kWorld with XG0850 if the parts of the driver do not match, XG0851 for a driver that is too old, XG0852 if it
// finds no GPU or CUDA_VISIBLE_DEVICES hides all GPUs.
Result<int> start_driver(const DriverTable& driver);

// Finds the functions and starts the driver. Errors: as above.
Result<DriverTable> open_driver(const std::string& library = kDriverLibrary);

}  // namespace xrun::cuda
