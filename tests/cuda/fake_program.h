// A small program on the fake driver, which the tests share: three streams copy inputs to the GPU, run a kernel, and
// copy results to the host.
#pragma once

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/cuda/driver/driver_open.h"
#include "runtime/device/cuda/driver/gpu_memory.h"
#include "runtime/device/cuda/driver/kernels.h"
#include "runtime/device/cuda/driver/stream.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/golden.h"

namespace xrun::cuda {

inline constexpr uint32_t kCount = 64;  // elements of each buffer
inline constexpr Bytes kBytes = kCount * sizeof(float);

// Returns the value of a result; the running test fails if it is an error.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  return std::move(result).value();
}

// Kernel `add`: out[i] = max(a[i] + b[i] * factor, 0).
inline std::string add_text() { return test::read_source_file("tests/golden/ptx/add.ptx"); }

inline std::vector<float> floats(uint32_t count, float first) {
  std::vector<float> values(count);
  for (uint32_t i = 0; i < count; ++i) {
    values[i] = first + static_cast<float>(i);
  }
  return values;
}

struct Program {
  explicit Program(fake::Settings settings = {}) : driver(std::move(settings)) {
    must(start_driver(driver.table()));
    context = must(Context::open(driver.table(), 0));
    module = must(KernelModule::load(*context, "add.ptx", add_text()));
    add = must(module->find("add"));
    inputs = make_stream("inputs");
    compute = make_stream("compute");
    outputs = make_stream("outputs");
    weights = make_memory("weights", 100);
    out = make_memory("out", 0);
    for (size_t slot = 0; slot < 2; ++slot) {
      input[slot] = make_memory("input " + std::to_string(slot), 0);
      batch[slot] = make_pinned("batch " + std::to_string(slot));
      copied[slot] = must(Event::make(*context));
      computed[slot] = must(Event::make(*context));
    }
    copied_out = must(Event::make(*context));
    for (int step = 0; step < kSteps; ++step) {
      results.push_back(make_pinned("result " + std::to_string(step)));
    }
  }

  std::unique_ptr<Stream> make_stream(const std::string& name) {
    auto stream = must(Stream::make(*context));
    driver.name(stream->handle(), name);
    return stream;
  }
  std::unique_ptr<GpuMemory> make_memory(const std::string& name, std::optional<float> first) {
    auto memory = must(GpuMemory::allocate(*context, kBytes));
    driver.name(memory->address(), name);
    if (first) {
      const std::vector<float> values = floats(kCount, *first);
      note(memory->write(0, std::as_bytes(std::span(values))));
    }
    return memory;
  }
  std::unique_ptr<PinnedMemory> make_pinned(const std::string& name) {
    auto memory = must(PinnedMemory::allocate(*context, kBytes));
    driver.name(static_cast<const void*>(memory->bytes().data()), name);
    return memory;
  }

  // Keeps the first error of a call.
  void note(Status status) {
    if (!status.ok() && error.message.empty()) {
      error = std::move(status).error();
    }
  }
  void launch_add(const Stream& stream, CUdeviceptr a, uint32_t count = kCount) {
    note(launch(add, {.blocks = {2, 1, 1}, .threads = {32, 1, 1}},
                Arguments(a, weights->address(), out->address(), 2.0F, count), stream));
  }
  // Writes the batch of a step into page-locked memory.
  static void fill(const PinnedMemory& memory, int step) {
    const std::vector<float> values = floats(kCount, static_cast<float>(step));
    std::memcpy(memory.bytes().data(), values.data(), static_cast<size_t>(kBytes));
  }
  static std::vector<float> values_of(const PinnedMemory& memory) {
    std::vector<float> values(kCount);
    std::memcpy(values.data(), memory.bytes().data(), static_cast<size_t>(kBytes));
    return values;
  }
  // The result of the kernel for the batch of a step.
  static std::vector<float> expected(int step) {
    std::vector<float> values(kCount);
    for (uint32_t i = 0; i < kCount; ++i) {
      values[i] = static_cast<float>(step) + static_cast<float>(i) + (100.0F + static_cast<float>(i)) * 2.0F;
    }
    return values;
  }

  // Destroys all objects in the right order, and returns the faults.
  std::vector<fake::Fault> finish() {
    note(context->make_current());
    note(context->synchronise());
    results.clear();
    for (size_t slot = 0; slot < 2; ++slot) {
      input[slot].reset();
      batch[slot].reset();
      copied[slot].reset();
      computed[slot].reset();
    }
    copied_out.reset();
    weights.reset();
    out.reset();
    inputs.reset();
    compute.reset();
    outputs.reset();
    module.reset();
    context.reset();
    return driver.faults();
  }

  static constexpr int kSteps = 4;

  fake::FakeDriver driver;
  std::unique_ptr<Context> context;
  std::unique_ptr<KernelModule> module;
  Kernel add;
  std::unique_ptr<Stream> inputs;
  std::unique_ptr<Stream> compute;
  std::unique_ptr<Stream> outputs;
  std::unique_ptr<GpuMemory> weights;
  std::unique_ptr<GpuMemory> out;
  std::array<std::unique_ptr<GpuMemory>, 2> input;
  std::array<std::unique_ptr<PinnedMemory>, 2> batch;
  std::array<std::unique_ptr<Event>, 2> copied;    // the batch is on the GPU
  std::array<std::unique_ptr<Event>, 2> computed;  // the kernel has read it
  std::unique_ptr<Event> copied_out;
  std::vector<std::unique_ptr<PinnedMemory>> results;
  Error error;  // the first error; its message is empty if all calls succeeded
};

// Faults of order that can be planted in the program.
enum class Defect {
  kNone,
  kNoWaitForInput,
  kNoWaitBeforeInputIsOverwritten,
  kNoWaitForResult,
  kNoWaitBeforeResultIsOverwritten,
  kRecordBeforeCopy,
  kRecordBeforeKernel,
  kRecordBeforeCopyOut,
  kWaitBeforeRecord,
  kWrongEvent,
  kKernelInWrongStream,
  kTwoWriters,
  kHostOverwritesBatch,
  kHostReadsResult,
};

// Runs four steps with two slots of inputs, and one of the faults.
inline void run_program(Program& at, Defect defect) {
  const auto is = [&](Defect other) { return defect == other; };
  for (int step = 0; step < Program::kSteps; ++step) {
    const auto slot = static_cast<size_t>(step) % 2;
    if (step >= 2 && !is(Defect::kHostOverwritesBatch)) {
      at.note(at.copied[slot]->synchronise());
    }
    Program::fill(*at.batch[slot], step);
    if (is(Defect::kRecordBeforeCopy)) {
      at.note(at.inputs->record(*at.copied[slot]));
    }
    if (step >= 2 && !is(Defect::kNoWaitBeforeInputIsOverwritten)) {
      at.note(at.inputs->wait(*at.computed[slot]));
    }
    at.note(at.inputs->copy_in(at.input[slot]->address(), at.batch[slot]->bytes()));
    if (is(Defect::kWaitBeforeRecord)) {
      at.note(at.compute->wait(*at.copied[slot]));
    }
    if (!is(Defect::kRecordBeforeCopy)) {
      at.note(at.inputs->record(*at.copied[slot]));
    }
    if (!is(Defect::kNoWaitForInput) && !is(Defect::kWaitBeforeRecord)) {
      at.note(at.compute->wait(*at.copied[is(Defect::kWrongEvent) ? 1 - slot : slot]));
    }
    if (step >= 1 && !is(Defect::kNoWaitBeforeResultIsOverwritten)) {
      at.note(at.compute->wait(*at.copied_out));
    }
    if (is(Defect::kRecordBeforeKernel)) {
      at.note(at.compute->record(*at.computed[slot]));
    }
    at.launch_add(is(Defect::kKernelInWrongStream) ? *at.inputs : *at.compute, at.input[slot]->address());
    if (is(Defect::kTwoWriters)) {
      at.note(at.inputs->fill(at.out->address(), std::byte{0}, kBytes));
    }
    if (!is(Defect::kRecordBeforeKernel)) {
      at.note(at.compute->record(*at.computed[slot]));
    }
    if (!is(Defect::kNoWaitForResult)) {
      at.note(at.outputs->wait(*at.computed[slot]));
    }
    if (is(Defect::kRecordBeforeCopyOut)) {
      at.note(at.outputs->record(*at.copied_out));
    }
    at.note(at.outputs->copy_out(at.results[static_cast<size_t>(step)]->bytes(), at.out->address()));
    if (!is(Defect::kRecordBeforeCopyOut)) {
      at.note(at.outputs->record(*at.copied_out));
    }
  }
  if (!is(Defect::kHostReadsResult)) {
    at.note(at.outputs->synchronise());
  }
}

}  // namespace xrun::cuda
