// Tests: tests/runtime/train/trainer_test.cpp, tests/runtime/device/cpu/kernels_test.cpp
#include "runtime/train/session/session.h"

#include <algorithm>
#include <utility>

#include "graph/base/check.h"
#include "graph/layouts/compression.h"
#include "graph/settings/known_update.h"
#include "ops/jit/compiler.h"
#include "runtime/comm/local/local_communicator.h"
#include "runtime/executor/exchanges.h"
#include "runtime/train/session/bound_session.h"
#include "runtime/train/session/rows_read.h"

namespace xrun::runtime {

using planner::Buffer;
using planner::Purpose;

namespace {

// Returns the address of each input in each slot of the ring. `address`: returns that of a buffer.
std::vector<std::vector<std::byte*>> addresses_of_ring(const Graph& graph, const planner::Program& program,
                                                       const std::function<std::byte*(const Buffer&)>& address) {
  std::vector<std::vector<std::byte*>> ring;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.purpose != Purpose::kInput) {
      continue;
    }
    const auto slot = static_cast<size_t>(buffer.ring);
    if (ring.size() <= slot) {
      ring.resize(slot + 1);
    }
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      ring[slot].resize(graph.inputs.size());
      if (graph.inputs[i].value == buffer.value) {
        ring[slot][i] = address(buffer);
      }
    }
  }
  return ring;
}

std::vector<BatchView> make_ring(const Graph& graph, const planner::Program& program, const BoundMemory& memory) {
  const std::vector<RowRange> rows = rows_read(graph, program, memory);
  std::vector<BatchView> ring;
  for (auto& inputs : addresses_of_ring(graph, program, [&](const Buffer& one) { return memory.host_at(one); })) {
    ring.push_back({std::move(inputs), rows});
  }
  return ring;
}

}  // namespace

BoundSession::BoundSession(const Module& module, const planner::Program& program, const DeviceSet& devices,
                           BoundMemory memory)
    : module_(module),
      program_(program),
      memory_(std::move(memory)),
      state_(module, program, memory_, devices),
      ring_(make_ring(module.graph, program, memory_)),
      inputs_(addresses_of_ring(module.graph, program, [this](const Buffer& one) { return memory_.at(one); })),
      own_devices_{devices.first(), devices.count()},
      times_(program, own_devices_) {}

Status BoundSession::take_over(Session& before) {
  state_.set_loss_scale(before.state().loss_scale());
  for (const StateTensor& tensor : before.state().tensors()) {
    state_.keep(*state_.find(tensor.name), tensor.kept);
  }
  // Zeroes the selections of heads, since their layout in the former program was for steps of another size.
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.purpose == Purpose::kHeadSelection && memory_.has(buffer.device)) {
      memory_.arena(buffer.device).fill(buffer.offset, buffer.bytes, std::byte{0});
    }
  }
  return state_.share_rows(before.state());
}

Status BoundSession::bind(const DeviceSet& devices, const SessionOptions& options) {
  rank_ = options.rank;
  if (options.check_memory) {
    check_ = std::make_unique<ArenaCheck>(program_, memory_);
  }
  XRUN_ASSIGN(backend_, devices.bind(module_, program_, memory_, {.isa = options.isa}));
  peers_ = options.peers;
  shared_ = peers_ == nullptr ? nullptr : std::make_unique<SharedResults>(program_, memory_, *peers_);
  std::vector<Exchange> exchanges = exchanges_of(program_, memory_, options.rank);
  if (module_.train.compress.is_on()) {
    exchanges_ = exchanges;
  }
  const bool has_one_worker = program_.devices == 1 && program_.threads[0] == 1;
  if (options.sequential || (has_one_worker && !backend_->orders())) {
    XRUN_ASSIGN(executor_, make_sequential_executor(program_, *backend_, std::move(exchanges), check_.get()));
    return {};
  }
  communicator_ =
      options.communicator ? options.communicator(exchanges) : std::make_unique<LocalCommunicator>(devices, exchanges);
  executor_ = make_parallel_executor(program_, *backend_, *communicator_, check_.get(), options.rank);
  return {};
}

void BoundSession::follow(std::function<double(int64_t step)> rate, int64_t done) {
  const bool exact = std::ranges::any_of(
      program_.heads, [](const planner::HeadPlan& head) { return head.untouched == Untouched::kExact; });
  if (exact) {
    const KnownUpdate update = known_update(module_.train.optimizer);
    idle_ = std::make_unique<ops::IdleSteps>(update.momentum, update.nesterov);
    rate_ = std::move(rate);
    idle_->advance(done, rate_);
    state_.catch_up_by(idle_.get());
  }
}

Status BoundSession::step(int64_t step, double rate, int slot, const std::atomic<bool>* stop) {
  XRUN_CHECK(idle_ == nullptr || (idle_->step() == step && rate_(step) == rate),
             "steps follow one another, each with the rate of the curve");
  set_density_of(step);
  LossScale scale = state_.loss_scale();
  backend_->begin_step({.seed = module_.train.seed,
                        .step = step,
                        .skipped = scale.skipped_steps,
                        .rate = rate,
                        .loss_scale = scale.scale,
                        .density = density_,
                        .idle = idle_.get(),
                        .measures_mass = measures_mass_,
                        .guard = guard_,
                        .rows = state_.rows(),
                        .inputs = inputs_[static_cast<size_t>(slot)]});
  Outcome outcome{.status = executor_->step()};
  if (outcome.status.ok()) {
    outcome.status = backend_->end_step();
  }
  if (outcome.status.ok()) {
    outcome.status = memory_.status();
  }
  if (idle_ != nullptr) {
    idle_->advance(step + 1, rate_);  // class rows that are read from now on catch up to the next step
  }
  outcome.stop = stop != nullptr && stop->load(std::memory_order_relaxed);
  outcome.skipped = backend_->skipped();
  if (communicator_ != nullptr) {
    outcome = communicator_->agree(std::move(outcome));
  }
  stops_ = outcome.stop;
  if (outcome.status.ok()) {
    follow_step(module_.train.loss_scale, outcome.skipped, scale);
    state_.set_loss_scale(scale);
  }
  if (outcome.status.ok() && shared_ != nullptr) {
    return shared_->exchange(measures_mass_);
  }
  return std::move(outcome.status);
}

// Applies the density of a step. The density changes only a few times in a run, so most calls do nothing.
void BoundSession::set_density_of(int64_t step) {
  const CompressSpec& compress = module_.train.compress;
  if (!program_.training || !compress.is_on()) {
    return;
  }
  const double density = density_of_ ? density_of_(step) : compress.density;
  XRUN_CHECK(density > 0 && density <= largest_density(compress), "pairs are planned for a lower density");
  if (density != density_) {
    set_density(program_, module_.graph, density, rank_, exchanges_);
    executor_->resize(exchanges_);
    density_ = density;
  }
}

Result<std::unique_ptr<Session>> Session::create(const Module& module, const planner::Program& program,
                                                 const DeviceSet& devices, const SessionOptions& options,
                                                 Session* before) {
  XRUN_CHECK(static_cast<int>(program.threads.size()) == program.devices, "a program names the workers of each device");
  for (int d = 0; d < program.devices && !options.sequential; ++d) {
    if (program.rank_of(d) == options.rank &&
        (!devices.has(d) || devices.device(d).workers() != program.threads[static_cast<size_t>(d)])) {
      return Error{ErrorKind::kUsage, "XG0625", "the plan is for other devices than this run has",
                   "make the plan again with the same `--devices` and `--threads`"};
    }
  }
  XRUN_ASSIGN(BoundMemory memory,
              before == nullptr ? BoundMemory::map(program, devices) : before->bound().shared_with(program));
  auto session = std::make_unique<BoundSession>(module, program, devices, std::move(memory));
  if (before != nullptr) {
    XRUN_TRY(session->take_over(*before));
  }
  XRUN_TRY(session->bind(devices, options));
  session->measure(false);
  return std::unique_ptr<Session>(std::move(session));
}

void warn_if_interpreted(EventSink& events) {
  if (const auto failure = ops::jit_report().failure) {
    events.on(WarnEvent{failure->code, failure->message + "; " + failure->help});
  }
}

}  // namespace xrun::runtime
