// GPUs as devices of a program. A task of a device runs on a thread of the host and queues work in the stream of the
// task; the backend, which this class leaves to another one, queues kernels.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device/cuda/cuda_memory.h"
#include "runtime/device/cuda/driver/context.h"
#include "runtime/device/cuda/stream_worker.h"
#include "runtime/device/device.h"

namespace xrun::cuda {

class CudaDevice final : public runtime::Device {
 public:
  // Opens the GPU with the number `gpu`, which serves the device `index` of the program. Errors: kWorld.
  static Result<std::unique_ptr<CudaDevice>> open(const DriverTable& driver, int gpu, int index);

  int index() const override { return index_; }
  int workers() const override { return 1; }
  // Errors: also kUsage, if files are to be mapped after the memory.
  Result<std::unique_ptr<runtime::DeviceMemory>> map(Bytes bytes, Bytes behind) override;
  void start(runtime::DeviceStream stream, runtime::Task task) override { worker(stream).start(task); }
  bool idle() const override;

  const Context& context() const { return *context_; }
  StreamWorker& worker(runtime::DeviceStream stream) { return *workers_[static_cast<size_t>(stream)]; }

 private:
  CudaDevice(std::unique_ptr<Context> context, int index) : context_(std::move(context)), index_(index) {}

  const std::unique_ptr<Context> context_;
  const int index_;
  std::array<std::unique_ptr<StreamWorker>, runtime::kDeviceStreams> workers_;  // index: DeviceStream
};

// Several devices may be the same GPU. A class that adds `bind` makes the set complete.
class CudaDevices : public runtime::DeviceSet {
 public:
  std::span<const std::unique_ptr<runtime::Device>> devices() const final { return devices_; }
  Result<std::unique_ptr<runtime::HostArena>> map_host(Bytes bytes) const final;
  CudaDevice& cuda(int index) const { return static_cast<CudaDevice&>(device(index)); }

 protected:
  // REQUIRES: `devices` are CudaDevices, in ascending order of index without gaps; at least one.
  explicit CudaDevices(std::vector<std::unique_ptr<runtime::Device>> devices) : devices_(std::move(devices)) {}

 private:
  std::vector<std::unique_ptr<runtime::Device>> devices_;
};

// Opens a device for each number of a GPU. `first`: index of the first device in the program. The table outlives the
// devices. Errors: kWorld.
Result<std::vector<std::unique_ptr<runtime::Device>>> open_devices(const DriverTable& driver, std::span<const int> gpus,
                                                                   int first = 0);

}  // namespace xrun::cuda
