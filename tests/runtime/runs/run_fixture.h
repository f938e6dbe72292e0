// A fixture for runs of small models with a checkpoint store in memory. It collects the output of the runs and can
// resume them.
#pragma once

#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/base/overloaded.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/state/checkpoint_store.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::runtime::testing {

struct Recorder final : EventSink {
  std::vector<StepReport> steps;
  std::vector<EvalEvent> evals;
  std::vector<EndEvent> ends;
  std::vector<ProfileEvent> profiles;
  std::vector<GraphEvent> graphs;
  std::vector<WarnEvent> warnings;
  std::vector<std::string> notes;
  std::vector<std::pair<Work, int64_t>> works;  // reported kinds of work, each with the amount of work done
  std::vector<std::string> subjects;
  // A step is reported if its number, counted from 1, is a multiple of `every`.
  int64_t every = 1;
  int64_t asked = 0;
  std::function<void(const StepReport&)> at_step;  // called for each step if set
  std::function<void()> at_graph;                  // called for each graph if set

  bool wants_step(bool) override { return ++asked % every == 0; }
  void on(const Event& event) override {
    const auto record = Overloaded{
        [this](const WorkEvent& e) {
          works.emplace_back(e.work, e.done);
          subjects.emplace_back(e.subject);
        },
        [this](const StepEvent& e) {
          steps.push_back(e.report);
          if (at_step) {
            at_step(e.report);
          }
        },
        [this](const EvalEvent& e) { evals.push_back(e); },
        [this](const ProfileEvent& e) { profiles.push_back(e); },
        [this](const GraphEvent& e) {
          graphs.push_back(e);
          if (at_graph) {
            at_graph();
          }
        },
        [this](const WarnEvent& e) { warnings.push_back(e); },
        [this](const NoteEvent& e) { notes.push_back(e.message); },
        [this](const EndEvent& e) { ends.push_back(e); },
        [](const auto&) {},
    };
    std::visit(record, event);
  }
};

// A checkpoint store in memory.
struct MemoryStore final : CheckpointStore {
  std::map<std::string, std::vector<std::byte>> tensors;
  std::optional<Resumed> latest;
  LossScale loss_scale;
  int saves = 0;

  Result<SavedCheckpoint> save(const TrainState& state, int64_t step, int64_t) override {
    tensors.clear();
    for (const StateTensor& tensor : state.tensors()) {
      if (!tensor.kept) {
        continue;
      }
      auto& bytes = tensors[tensor.name];
      bytes.resize(static_cast<size_t>(tensor.rows() * tensor.row_bytes()));
      state.read_rows(tensor, 0, tensor.rows(), bytes.data());
    }
    loss_scale = state.loss_scale();
    latest = Resumed{step, "memory"};
    ++saves;
    return SavedCheckpoint{"memory", 0};
  }
  Result<std::optional<Resumed>> resume(TrainState& state) override {
    for (const StateTensor& tensor : state.tensors()) {
      const auto at = tensors.find(tensor.name);
      if (tensor.role == StateTensor::Role::kGraph) {
        state.keep(tensor, at != tensors.end());
      }
      if (at != tensors.end()) {
        state.write_rows(tensor, 0, tensor.rows(), at->second.data());
      }
    }
    if (latest) {
      state.set_loss_scale(resumed_scale(state.loss_scale_spec(), loss_scale));
    }
    return latest;
  }
  Result<StartedParts> start_from(const std::string&, const std::vector<std::string>&, TrainState&) override {
    return Error{ErrorKind::kUsage, "", "no other run is in memory", ""};
  }
};

class RunsTest : public ::testing::Test {
 protected:
  Result<TrainOutcome> train_with(CheckpointStore* store, int64_t steps, const std::atomic<bool>* stop = nullptr) {
    SyntheticRows rows(prepared_.module.graph, options_, 1000);
    return train_on(rows, store, steps, stop);
  }

  Result<TrainOutcome> train_on(BatchSource& rows, CheckpointStore* store, int64_t steps = -1,
                                const std::atomic<bool>* stop = nullptr, RowSource* measured = nullptr) {
    const auto program = make_program(prepared_, choice_).value();
    const auto inference = make_program(prepared_, {}, false).value();
    const auto devices = make_cpu_devices(program.threads);
    TrainRequest request{.module = prepared_.module,
                         .training = program,
                         .inference_module = &prepared_.inference,
                         .inference = measured == nullptr ? nullptr : &inference,
                         .devices = *devices,
                         .batches = rows,
                         .eval_sources = {measured},
                         .checkpoints = store,
                         .events = events_,
                         .session = {.isa = prepared_.isa},
                         .steps = steps,
                         .stop = stop};
    return train(request);
  }

  ModelOptions options_{.classes = 70, .head = true, .dropout = 0.1, .steps = 12};
  Prepared prepared_ = prepare_for(make_module(options_));
  PlanChoice choice_;
  Recorder events_;
};

}  // namespace xrun::runtime::testing
