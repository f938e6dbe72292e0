// Runs of models on GPUs of the fake driver, and on processors.
#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda/cuda_backend.h"
#include "runtime/train/session/session.h"
#include "tests/cuda/planted.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::cuda {

using runtime::testing::ModelOptions;
using runtime::testing::PlanChoice;
using runtime::testing::Prepared;

struct RunInputs {
  double rate = 0.1;
  // Writes the batch of a step.
  std::function<void(const Graph& graph, const runtime::BatchView& slot, int step)> fill;
  std::vector<std::string> tensors;  // tensors whose values are results
};

// Results of some steps.
struct Steps {
  std::vector<float> losses;                // one for each row of each step, or results_of_step
  std::string digest;                       // digest of the weights after the last step
  std::vector<std::vector<float>> tensors;  // values of RunInputs::tensors after the last step
};

// Reads the loss of each row. A program without losses gives the logits, or the best classes and their logits if the
// logits are those of a head.
inline Result<std::vector<float>> results_of_step(const runtime::Session& session) {
  const Module& module = session.module();
  const planner::Program& program = session.program();
  const ValueId loss = module.train.loss.empty() ? ValueId() : module.train.loss[0].rows;
  const ValueId value = loss.valid() ? loss : module.graph.outputs.back().value;
  if (!loss.valid() && !program.heads.empty()) {
    const auto count = static_cast<size_t>(program.batch * program.heads[0].top_k);
    std::vector<int32_t> classes(count);
    std::vector<float> numbers(count);
    XRUN_TRY(session.read_best(value, classes, numbers));
    numbers.insert(numbers.end(), classes.begin(), classes.end());
    return numbers;
  }
  std::vector<float> numbers(
      static_cast<size_t>(module.graph.value(value).type.elements(program.batch, program.norm_rows)));
  XRUN_TRY(session.read_rows(value, std::as_writable_bytes(std::span(numbers))));
  return numbers;
}

inline Result<Steps> run_steps(const Prepared& prepared, const planner::Program& program, const RunInputs& inputs,
                               const runtime::DeviceSet& devices, int steps) {
  const Module& module = program.training ? prepared.module : prepared.inference;
  XRUN_ASSIGN(auto session, runtime::Session::create(module, program, devices, {.isa = prepared.isa}));
  session->state().initialise(module.train.seed);
  XRUN_TRY(session->weights_changed());
  Steps results;
  for (int step = 0; step < steps; ++step) {
    const int slot = step % static_cast<int>(session->ring().size());
    inputs.fill(module.graph, session->ring()[static_cast<size_t>(slot)], step);
    XRUN_TRY(session->step(step, inputs.rate, slot));
    XRUN_ASSIGN(const std::vector<float> numbers, results_of_step(*session));
    results.losses.insert(results.losses.end(), numbers.begin(), numbers.end());
  }
  results.digest = session->state().weights_digest();
  for (const std::string& name : inputs.tensors) {
    const runtime::StateTensor* const tensor = session->state().find(name);
    XRUN_CHECK(tensor != nullptr, name);
    std::vector<float>& values = results.tensors.emplace_back();
    values.resize(static_cast<size_t>(tensor->rows() * tensor->row_elements()));
    session->state().read_values(*tensor, 0, tensor->rows(), values.data());
  }
  return results;
}

// Runs a program of one processor.
inline Result<Steps> train_on_processors(const Module& module, const RunInputs& inputs, int steps,
                                         bool training = true) {
  const Prepared prepared = runtime::testing::prepare_for(module);
  XRUN_ASSIGN(const planner::Program program, make_program(prepared, {}, training));
  const auto devices = runtime::make_cpu_devices(program.threads);
  return run_steps(prepared, program, inputs, *devices, steps);
}

// Runs a program of `choice` on the GPUs with these numbers, one for each device. The driver is started.
inline Result<Steps> train_with(const DriverTable& driver, const std::vector<int>& gpus, const Module& module,
                                const RunInputs& inputs, const PlanChoice& choice, int steps, bool training = true) {
  const Prepared prepared = runtime::testing::prepare_for_gpus(module);
  XRUN_ASSIGN(const planner::Program program, make_program(prepared, choice, training));
  XRUN_ASSIGN(auto devices, make_cuda_devices(driver, gpus));
  return run_steps(prepared, program, inputs, *devices, steps);
}

// Likewise on GPUs of the fake driver. Its faults are errors. `settings.gpus` is set here.
inline Result<Steps> train_on_gpus(const Module& module, const RunInputs& inputs, const PlanChoice& choice, int steps,
                                   fake::Settings settings = {}, bool training = true) {
  settings.gpus = choice.devices;
  fake::FakeDriver driver(std::move(settings));
  XRUN_TRY(start_driver(driver.table()));
  std::vector<int> gpus(static_cast<size_t>(choice.devices));
  std::iota(gpus.begin(), gpus.end(), 0);
  Result<Steps> results = train_with(driver.table(), gpus, module, inputs, choice, steps, training);
  if (!driver.faults().empty()) {
    return Error{ErrorKind::kWorld, "", print(driver.faults())};
  }
  return results;
}

// Likewise for a small model (tests/runtime/runs/small_models.h) and its rows.
inline RunInputs inputs_of(const ModelOptions& options) {
  return {.rate = options.rate, .fill = [options](const Graph& graph, const runtime::BatchView& slot, int step) {
            runtime::testing::SyntheticRows rows(graph, options, 1000);
            rows.begin(step * options.batch, options.batch, slot);
            XRUN_CHECK(rows.finish().ok(), "no rows");
          }};
}
inline Result<Steps> run_on_processors(const ModelOptions& options, int steps, bool training = true) {
  return train_on_processors(make_module(options), inputs_of(options), steps, training);
}
inline Result<Steps> run_on_gpus(const ModelOptions& options, const PlanChoice& choice, int steps,
                                 fake::Settings settings = {}, bool training = true) {
  return train_on_gpus(make_module(options), inputs_of(options), choice, steps, std::move(settings), training);
}

}  // namespace xrun::cuda
