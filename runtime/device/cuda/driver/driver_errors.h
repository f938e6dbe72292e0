// Converts the results of calls of CUDA's driver library to errors with cause and fix.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "runtime/device/cuda/driver/driver_table.h"

namespace xrun::cuda {

struct ResultText {
  std::string_view name;   // "CUDA_ERROR_OUT_OF_MEMORY"
  std::string_view cause;  // a clause without full stop
  std::string_view fix;    // a sentence without full stop
  std::string_view code;   // the page that `xrun explain` prints
};

// The text of a result. A result that this version does not know has the name "CUDA_ERROR".
ResultText text_of(CUresult result);

// Returns whether all later calls of the process give this result: a kernel or the GPU has failed, and nothing in its
// memory can be used any more.
bool is_permanent(CUresult result);

// The error of a call. `place` names the GPU and the purpose: "cuda:0: allocating 3.0 GiB". A driver runs kernels and
// copies after the call that starts them, so a permanent error may come from an earlier call.
// `driver` names results that xrun does not know. REQUIRES: the result is not CUDA_SUCCESS.
Error driver_error(CUresult result, std::string_view symbol, const std::string& place,
                   const DriverTable* driver = nullptr);

// Likewise; the status is ok for CUDA_SUCCESS.
Status to_status(CUresult result, std::string_view symbol, const std::string& place);

}  // namespace xrun::cuda
