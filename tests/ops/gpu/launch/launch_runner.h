// Runs the launches of operators on the PTX machine, and the operators on the processor block by block, with the same
// operands.
#pragma once

#include "ops/compute_modes.h"
#include "ops/gpu/launch/gpu_kernel.h"
#include "ops/jit/compiler.h"
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {

inline GpuTarget gpu_target(const Target& target) { return target.compute == 90 ? GpuTarget::kSm90 : GpuTarget::kSm80; }

// The memory of one device and the operands of a call.
class Device {
 public:
  Device(Target target, ptx::Order order) : target_(target), order_(order) {}

  // Adds a buffer with these bytes; one without bytes gets one byte, so that it has an address.
  uint64_t add(const std::string& name, const Raw& bytes) {
    const uint64_t address = memory_.add(name, std::max<size_t>(bytes.size(), 1));
    memory_.write(address, bytes);
    return address;
  }
  // Adds uninitialised memory.
  uint64_t add(const std::string& name, Bytes bytes) {
    return memory_.add(name, static_cast<uint64_t>(std::max<Bytes>(bytes, 1)));
  }
  void write(uint64_t address, const Raw& bytes) { memory_.write(address, bytes); }
  Raw read(uint64_t address, size_t bytes) const {
    Raw values(bytes);
    memory_.read(address, values);
    return values;
  }

  // Executes launches one after the other; a fault makes the running test fail. Returns whether there was none.
  bool run(const std::vector<GpuLaunch>& launches, const GpuCall& call) {
    for (const GpuLaunch& launch : launches) {
      const ptx::Module& module = module_of_text(launch.text);
      const ptx::Kernel* const kernel = module.find(launch.kernel);
      if (kernel == nullptr || kernel->parameters.size() != launch.arguments.size()) {
        ADD_FAILURE() << launch.kernel << " is missing or has not " << launch.arguments.size() << " parameters";
        return false;
      }
      ptx::Launch made{.blocks = launch.blocks,
                       .threads = launch.threads,
                       .dynamic_shared = launch.shared,
                       .registers = registers_of(target_.compute, launch.kernel)};
      for (size_t i = 0; i < launch.arguments.size(); ++i) {
        EXPECT_EQ(kernel->parameters[i].bytes, launch.arguments[i].bytes) << launch.kernel << ", parameter " << i;
        made.arguments.push_back(value_of(launch.arguments[i], call));
      }
      const ptx::Execution done = CheckedLaunches::instance().execute(
          module, launch.kernel, made, memory_, {.generation = target_.generation, .order = order_});
      if (done.fault) {
        ADD_FAILURE() << done.fault->print();
        return false;
      }
    }
    return true;
  }

 private:
  // Texts are parsed once for each test binary.
  static const ptx::Module& module_of_text(std::string_view text) {
    static std::map<std::string, std::unique_ptr<const ptx::Module>, std::less<>> parsed;
    auto at = parsed.find(text);
    if (at == parsed.end()) {
      at = parsed.emplace(std::string(text), module_of(std::string(text))).first;
    }
    return *at->second;
  }

  ptx::Memory memory_;
  Target target_;
  ptx::Order order_;
};

// The bytes of the operands of several row blocks: `whole` for an operand that all row blocks share.
struct Operand {
  TensorType type;
  std::vector<Raw> blocks;  // one for each row block, or a single one for a whole tensor

  bool is_whole() const { return !type.has_batch() && !type.per_block(); }
  Raw joined() const {
    Raw all;
    for (const Raw& block : blocks) {
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
};

struct NodeRun {
  const OpDef* op = nullptr;
  KernelSpec spec;
  int64_t blocks = 1;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;  // the initial contents, then the results
  std::vector<Operand> folded;   // inputs after fold_states
};

// Memory for vector instructions, with room for whole lanes after the end.
class AlignedMemory {
 public:
  explicit AlignedMemory(size_t bytes)
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 191) / 64 * 64)), &std::free) {
    std::memset(bytes_.get(), 0xFF, bytes + 128);
  }
  explicit AlignedMemory(const Raw& from) : AlignedMemory(from.size()) {
    std::memcpy(bytes_.get(), from.data(), from.size());
  }
  TensorView view() const { return {bytes_.get()}; }
  void store(Raw& to) const { std::memcpy(to.data(), bytes_.get(), to.size()); }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> bytes_;
};

// Calls the kernel of the processor for each row block in ascending order.
inline void run_on_processor(NodeRun& run) {
  const ComputeModes modes;
  const auto made = find_op(run.op->name)->cpu(run.spec);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const Kernel& kernel = **made;
  const AlignedMemory scratch(static_cast<size_t>(kernel.scratch_bytes()));
  for (int64_t b = 0; b < run.blocks; ++b) {
    std::vector<AlignedMemory> memory;
    std::vector<TensorView> in, out;
    memory.reserve(2 * run.inputs.size() + run.outputs.size());
    for (size_t i = 0; i < run.inputs.size(); ++i) {
      const Operand& input = run.inputs[i];
      in.push_back(memory.emplace_back(input.blocks[input.is_whole() ? 0 : static_cast<size_t>(b)]).view());
      if (const Bytes bytes = kernel.prepared_bytes(static_cast<int>(i)); bytes > 0) {
        const TensorView prepared = memory.emplace_back(static_cast<size_t>(bytes)).view();
        ASSERT_TRUE(kernel.prepare(static_cast<int>(i), in.back(), prepared.data, scratch.view().data).ok());
        in.back() = prepared;
      }
    }
    const size_t first = memory.size();
    for (const Operand& output : run.outputs) {
      out.push_back(memory.emplace_back(output.blocks[output.is_whole() ? 0 : static_cast<size_t>(b)]).view());
    }
    const Status status = kernel.run({.inputs = in,
                                      .outputs = out,
                                      .scratch = scratch.view().data,
                                      .seed = kCallSeed,
                                      .step = kCallStep,
                                      .loss_scale = 4,
                                      .first_row = kCallRow + b * run.spec.rows,
                                      .shared = scratch.view().data});
    ASSERT_TRUE(status.ok()) << status.error().message;
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      memory[first + i].store(run.outputs[i].blocks[run.outputs[i].is_whole() ? 0 : static_cast<size_t>(b)]);
    }
  }
  if (!run.op->folds_states) {
    return;
  }
  run.folded = run.inputs;
  std::vector<AlignedMemory> memory;
  std::vector<TensorView> in, out;
  memory.reserve(run.inputs.size() + run.outputs.size());
  for (const Operand& input : run.inputs) {
    in.push_back(memory.emplace_back(input.joined()).view());
  }
  for (const Operand& output : run.outputs) {
    out.push_back(memory.emplace_back(output.joined()).view());
  }
  ASSERT_TRUE(kernel.fold_states(in, out, run.blocks).ok());
  for (size_t i = 0; i < run.folded.size(); ++i) {
    if (run.folded[i].is_whole()) {
      memory[i].store(run.folded[i].blocks[0]);
    }
  }
}

// Results of the launches: the bytes of each output, and of each input after fold_states.
struct GpuResults {
  std::vector<Raw> outputs;
  std::vector<Raw> folded;
};

// Executes the launches of all row blocks at once. `run` has the initial contents of the outputs. `device` has the
// functions of Device.
template <class AnyDevice>
std::optional<GpuResults> run_on_gpu(const NodeRun& run, const GpuKernel& kernel, AnyDevice& device) {
  std::vector<uint64_t> in, out;
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    in.push_back(device.add("input " + std::to_string(i), run.inputs[i].joined()));
    if (const Bytes bytes = kernel.prepared_bytes(static_cast<int>(i)); bytes > 0) {
      const uint64_t prepared = device.add("prepared " + std::to_string(i), bytes);
      if (!device.run(kernel.prepare(static_cast<int>(i)),
                      {.inputs = std::span(in).last(1), .outputs = std::span(&prepared, 1)})) {
        return std::nullopt;
      }
      in.back() = prepared;
    }
  }
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    out.push_back(device.add("output " + std::to_string(i), run.outputs[i].joined()));
  }
  const GpuCall call{.inputs = in,
                     .outputs = out,
                     .scratch = device.add("scratch", kernel.scratch_bytes()),
                     .flags = device.add("flags", Raw(4)),
                     .seed = kCallSeed,
                     .step = kCallStep,
                     .first_row = kCallRow,
                     .loss_scale = 4};
  if (!device.run(kernel.launches(run.blocks), call)) {
    return std::nullopt;
  }
  GpuResults results;
  for (size_t i = 0; i < out.size(); ++i) {
    results.outputs.push_back(device.read(out[i], run.outputs[i].joined().size()));
  }
  if (run.op->folds_states) {
    if (!device.run(kernel.fold_states(run.blocks), call)) {
      return std::nullopt;
    }
    for (size_t i = 0; i < in.size(); ++i) {
      results.folded.push_back(device.read(in[i], run.inputs[i].joined().size()));
    }
  }
  EXPECT_EQ(device.read(call.flags, 4), Raw(4)) << "the flag word was set";
  return results;
}

inline std::optional<GpuResults> run_on_gpu(const NodeRun& run, const GpuKernel& kernel, Target target,
                                            ptx::Order order) {
  Device device(target, order);
  return run_on_gpu(run, kernel, device);
}

}  // namespace xrun::ops::gpu
