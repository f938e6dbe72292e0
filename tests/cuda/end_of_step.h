// The end of a training step alone, on processors and on GPUs of the fake driver: a program without its passes, whose
// gradients and batch statistics are random numbers.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/random.h"
#include "graph/layouts/row_updates.h"
#include "lang/frontend.h"
#include "planner/emit/dependences.h"
#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/bound_memory.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda/cuda_backend.h"
#include "runtime/device/cuda/update_launches.h"
#include "runtime/executor/exchanges.h"
#include "runtime/executor/executor.h"
#include "tests/cuda/planted.h"
#include "tests/runtime/runs/plan_maker.h"

namespace xrun::cuda {

using planner::Instruction;
using planner::Kind;
using planner::Operand;
using planner::Role;
using runtime::testing::PlanChoice;
using runtime::testing::Prepared;

// Returns the module of a text; the running test fails if it has faults.
inline xrun::Module module_of(const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  auto file = lang::check_text("test.xgraph", text, sources, diagnostics, {.ops = &ops::registry()});
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    ADD_FAILURE() << render(diagnostic, sources);
  }
  XRUN_CHECK(file.has_value(), "the text of a test does not check");
  return std::move(file->module);
}

inline bool is_at_the_end(const planner::Program& program, const Instruction& instruction) {
  const auto is_of_gradients = [&](const Operand& operand) {
    const planner::Buffer& buffer = program.buffer(operand.buffer);
    return buffer.purpose == planner::Purpose::kGradient || buffer.purpose == planner::Purpose::kNorms ||
           (buffer.purpose == planner::Purpose::kTerms && buffer.param.valid());
  };
  return ends_step(instruction.kind) ||
         (planner::communicates(instruction.kind) && std::ranges::all_of(instruction.operands, is_of_gradients));
}

// Removes all instructions before the end of the step and, without `with_passes`, the operators of stages.
inline planner::Program end_of(planner::Program program, bool with_passes) {
  std::erase_if(program.instructions,
                [&](const Instruction& instruction) { return !is_at_the_end(program, instruction); });
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    program.instructions[i].id = planner::InstructionId(i);
  }
  for (planner::Stage& stage : program.stages) {
    if (!with_passes) {
      stage.forward.clear();
      stage.backward.clear();
    }
  }
  planner::derive_dependences(program);
  return program;
}

// The gradients of a step.
struct Gradients {
  double loss_scale = 1;
  float first = 0;  // the first number of the first gradient, unless it is 0
};

class EndOfStep {
 public:
  // `gpus`: null for processors. Without `with_passes`, no kernels are made for the operators of the model.
  EndOfStep(const Prepared& prepared, const PlanChoice& choice, const DriverTable* gpus, bool with_passes = true)
      : by_row_(params_updated_by_row(prepared.module.graph)),
        graph_(prepared.module.graph),
        program_(end_of(must(make_program(prepared, choice)), with_passes)) {
    std::vector<int> numbers;
    for (int device = 0; device < choice.devices; ++device) {
      numbers.push_back(device);
    }
    devices_ = gpus == nullptr ? runtime::make_cpu_devices(program_.threads) : must(make_cuda_devices(*gpus, numbers));
    memory_ = std::make_unique<runtime::BoundMemory>(must(runtime::BoundMemory::map(program_, *devices_)));
    backend_ = must(devices_->bind(prepared.module, program_, *memory_, {.isa = ops::Isa::kAvx2}));
    communicator_ = std::make_unique<runtime::LocalCommunicator>(*devices_, runtime::exchanges_of(program_, *memory_));
    executor_ = runtime::make_parallel_executor(program_, *backend_, *communicator_);
    for_operands([&](const Operand& operand, int64_t place) {
      if (keeps(operand.role)) {
        write(operand, place, 0, operand.role == Role::kState || operand.role == Role::kRunningState);
      }
    });
  }

  Status step(int64_t number, double rate, const Gradients& with = {}) {
    for_operands([&](const Operand& operand, int64_t place) {
      if (operand.role == Role::kGradient || operand.role == Role::kStatistics) {
        write(operand, place, static_cast<uint64_t>(number) + 1, operand.role == Role::kStatistics);
      }
    });
    bool found = with.first == 0;
    for_operands([&](const Operand& operand, int64_t /*place*/) {
      if (operand.role == Role::kGradient && !std::exchange(found, true)) {
        memory_->write(operand.buffer, operand.offset, std::as_bytes(std::span(&with.first, 1)));
      }
    });
    backend_->begin_step({.step = number, .rate = rate, .loss_scale = with.loss_scale});
    XRUN_TRY(executor_->step());
    return backend_->end_step();
  }

  // Weights, states and running statistics of all updates, in the order of the program.
  std::vector<std::pair<std::string, std::vector<float>>> kept() const { return values(keeps); }
  // Whether the prepared forms of weights are those of the current weights.
  bool is_prepared() const {
    const auto is_form = [](Role role) { return role == Role::kPrepared; };
    const auto before = values(is_form);
    const Status status = backend_->prepare_weights();
    EXPECT_TRUE(status.ok());
    return !before.empty() && bits(before) == bits(values(is_form));
  }
  const runtime::Backend& backend() const { return *backend_; }
  int64_t count(Kind kind) const { return std::ranges::count(program_.instructions, kind, &Instruction::kind); }

 private:
  static bool keeps(Role role) { return role == Role::kWeight || role == Role::kState || role == Role::kRunningState; }
  static std::vector<std::string> bits(const std::vector<std::pair<std::string, std::vector<float>>>& values) {
    std::vector<std::string> all;
    for (const auto& [name, numbers] : values) {
      all.emplace_back(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
    }
    return all;
  }

  // Calls visit(operand, place) for the operands of all updates. `place` is the replica of a gradient, else 0.
  template <class Visit>
  void for_operands(const Visit& visit) const {
    for (const Instruction& instruction : program_.instructions) {
      for (const Operand& operand : instruction.operands) {
        if (instruction.kind == Kind::kUpdate) {
          visit(operand, operand.role == Role::kGradient ? instruction.replica : 0);
        }
      }
    }
  }

  // Writes numbers that are a function of operand, place and seed; gradients have all partials of the replica.
  void write(const Operand& operand, int64_t place, uint64_t seed, bool positive) {
    const bool gradient = operand.role == Role::kGradient;
    const int64_t partials = gradient ? program_.partials_of_replica() : 1;
    std::vector<float> numbers(static_cast<size_t>(operand.bytes) / sizeof(float));
    for (int64_t partial = 0; partial < partials; ++partial) {
      const uint64_t key = static_cast<uint64_t>(operand.role) * 1'000'003 +
                           static_cast<uint64_t>(operand.param.index + 1) * 7'919 +
                           static_cast<uint64_t>(operand.node.index + 1) * 104'729 +
                           static_cast<uint64_t>(operand.index + 1) * 31 + static_cast<uint64_t>(place * 64 + partial);
      RandomStream(seed + 17, key).fill_normal(0, numbers);
      if (positive) {
        std::ranges::transform(numbers, numbers.begin(), [](float x) { return x < 0 ? -x : x; });
      }
      if (gradient && std::ranges::binary_search(by_row_, operand.param)) {
        clear_rows(graph_.value(graph_.param(operand.param).value).type.dims[1], numbers);
      }
      memory_->write(operand.buffer, operand.offset + partial * operand.step, std::as_bytes(std::span(numbers)));
    }
  }

  // Sets all rows but every third one to zero.
  static void clear_rows(int64_t row, std::vector<float>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<int64_t>(i) / row % 3 == 0 ? numbers[i] : 0;
    }
  }

  template <class Wanted>
  std::vector<std::pair<std::string, std::vector<float>>> values(const Wanted& wanted) const {
    std::vector<std::pair<std::string, std::vector<float>>> all;
    for_operands([&](const Operand& operand, int64_t /*place*/) {
      if (wanted(operand.role)) {
        std::vector<float> numbers(static_cast<size_t>(operand.bytes) / sizeof(float));
        memory_->read(operand.buffer, operand.offset, std::as_writable_bytes(std::span(numbers)));
        all.emplace_back(program_.buffer(operand.buffer).name, std::move(numbers));
      }
    });
    return all;
  }

  const std::vector<ParamId> by_row_;
  const Graph& graph_;
  const planner::Program program_;
  std::unique_ptr<runtime::DeviceSet> devices_;
  std::unique_ptr<runtime::BoundMemory> memory_;
  std::unique_ptr<runtime::Backend> backend_;
  std::unique_ptr<runtime::LocalCommunicator> communicator_;
  std::unique_ptr<runtime::Executor> executor_;
};

}  // namespace xrun::cuda
