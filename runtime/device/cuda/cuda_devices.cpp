// Tests: tests/cuda/cuda_devices_test.cpp
#include "runtime/device/cuda/cuda_devices.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace xrun::cuda {

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const DriverTable& driver, int gpu, int index) {
  XRUN_ASSIGN(auto context, Context::open(driver, gpu));
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(context), index));
  for (auto& worker : device->workers_) {
    XRUN_ASSIGN(worker, StreamWorker::make(*device->context_));
  }
  return device;
}

Result<std::unique_ptr<runtime::DeviceMemory>> CudaDevice::map(Bytes bytes, Bytes behind) {
  if (behind > 0) {
    return Error{ErrorKind::kUsage, "",
                 fmt::format("cuda:{}: class rows in a file cannot be in the memory of a GPU", context_->gpu()),
                 "keep the rows in memory, or train on CPUs"};
  }
  XRUN_ASSIGN(auto memory, CudaMemory::map(*context_, worker(runtime::DeviceStream::kExchanges), bytes));
  return std::unique_ptr<runtime::DeviceMemory>(std::move(memory));
}

bool CudaDevice::idle() const {
  return std::ranges::all_of(workers_, [](const auto& worker) { return worker->idle(); });
}

Result<std::unique_ptr<runtime::HostArena>> CudaDevices::map_host(Bytes bytes) const {
  return PinnedArena::map(static_cast<const CudaDevice&>(*devices_.front()).context(), bytes);
}

Result<std::vector<std::unique_ptr<runtime::Device>>> open_devices(const DriverTable& driver, std::span<const int> gpus,
                                                                   int first) {
  std::vector<std::unique_ptr<runtime::Device>> devices;
  for (const int gpu : gpus) {
    XRUN_ASSIGN(auto device, CudaDevice::open(driver, gpu, first + static_cast<int>(devices.size())));
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace xrun::cuda
