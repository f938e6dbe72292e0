// Runs lists of launches through a driver, with the functions of ops::gpu::Device
// (tests/ops/gpu/launch/launch_runner.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cuda/bound_launches.h"
#include "runtime/device/cuda/driver/gpu_memory.h"
#include "tests/cuda/fake_program.h"
#include "tests/ops/gpu/launch/launch_runner.h"

namespace xrun::cuda {

class DriverDevice {
 public:
  // The context outlives the device.
  explicit DriverDevice(const Context& context)
      : context_(context), stream_(must(Stream::make(context))), kernels_(context) {}

  // Adds a buffer with these bytes; one without bytes gets one byte, so that it has an address.
  uint64_t add(const std::string& name, const ops::gpu::Raw& bytes) {
    const uint64_t address = add(name, static_cast<Bytes>(bytes.size()));
    write(address, bytes);
    return address;
  }
  // Adds uninitialised memory.
  uint64_t add(const std::string& /*name*/, Bytes bytes) {
    memory_.push_back(must(GpuMemory::allocate(context_, std::max<Bytes>(bytes, 1))));
    return memory_.back()->address();
  }
  void write(uint64_t address, const ops::gpu::Raw& bytes) {
    if (!bytes.empty()) {
      const Status status = of(address).write(0, bytes);
      EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    }
  }
  ops::gpu::Raw read(uint64_t address, size_t bytes) {
    ops::gpu::Raw values(bytes);
    if (bytes > 0) {
      const Status status = of(address).read(0, values);
      EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    }
    return values;
  }

  // Executes launches one after the other, and waits for them. Returns whether there was no error.
  bool run(const std::vector<ops::gpu::GpuLaunch>& launches, const ops::gpu::GpuCall& call) {
    const auto done = [&]() -> Status {
      BoundLaunches bound;
      XRUN_TRY(bound.add(kernels_, launches,
                         {.inputs = {call.inputs.begin(), call.inputs.end()},
                          .outputs = {call.outputs.begin(), call.outputs.end()},
                          .scratch = call.scratch,
                          .flags = call.flags,
                          .first_row = call.first_row}));
      XRUN_TRY(bound.queue({.seed = call.seed, .step = call.step, .loss_scale = static_cast<double>(call.loss_scale)},
                           *stream_));
      return stream_->synchronise();
    }();
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
    return done.ok();
  }

 private:
  GpuMemory& of(uint64_t address) {
    for (const auto& memory : memory_) {
      if (memory->address() == address) {
        return *memory;
      }
    }
    XRUN_CHECK(false, "no buffer begins at this address");
  }

  const Context& context_;
  std::unique_ptr<Stream> stream_;
  KernelStore kernels_;
  std::vector<std::unique_ptr<GpuMemory>> memory_;
};

}  // namespace xrun::cuda
