// Tests: tests/runtime/train/trainer_test.cpp, tests/runtime/device/cpu/kernels_test.cpp
#include "runtime/train/session/session.h"

#include <algorithm>

#include "graph/base/check.h"
#include "graph/layouts/compression.h"
#include "graph/settings/known_update.h"
#include "ops/head/catch_up.h"
#include "ops/head/mass.h"
#include "ops/jit/compiler.h"
#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/backend.h"
#include "runtime/executor/arena_check.h"
#include "runtime/executor/exchanges.h"
#include "runtime/executor/step_times.h"
#include "runtime/train/session/rows_read.h"
#include "runtime/train/session/shared_results.h"

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::Purpose;

std::vector<BatchView> make_ring(const Graph& graph, const planner::Program& program, const BoundMemory& memory) {
  std::vector<BatchView> ring;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.purpose != Purpose::kInput) {
      continue;
    }
    const auto slot = static_cast<size_t>(buffer.ring);
    if (ring.size() <= slot) {
      ring.resize(slot + 1);
    }
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      ring[slot].inputs.resize(graph.inputs.size());
      if (graph.inputs[i].value == buffer.value) {
        ring[slot].inputs[i] = memory.at(buffer);
      }
    }
  }
  const std::vector<RowRange> rows = rows_read(graph, program, memory);
  for (BatchView& view : ring) {
    view.rows = rows;
  }
  return ring;
}

class BoundSession final : public Session {
 public:
  BoundSession(const Module& module, const planner::Program& program, const DeviceSet& devices, BoundMemory memory)
      : module_(module),
        program_(program),
        memory_(std::move(memory)),
        state_(module, program, memory_, devices),
        ring_(make_ring(module.graph, program, memory_)),
        own_devices_{devices.first(), devices.count()},
        times_(program, own_devices_) {}

  // Takes over the state of `before`. REQUIRES: `memory_` is shared with `before`.
  Status take_over(Session& before) {
    for (const StateTensor& tensor : before.state().tensors()) {
      state_.keep(*state_.find(tensor.name), tensor.kept);
    }
    // Zeroes the selections of heads: the former program laid out their contents for steps of another size.
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.purpose == Purpose::kHeadSelection && memory_.has(buffer.device)) {
        memory_.arena(buffer.device).fill(buffer.offset, buffer.bytes, std::byte{0});
      }
    }
    return state_.share_rows(before.state());
  }

  // Creates the parts that need a backend: the communicator and the executor.
  Status bind(const DeviceSet& devices, const SessionOptions& options) {
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
    if (options.sequential || (program_.devices == 1 && program_.threads[0] == 1)) {
      XRUN_ASSIGN(executor_, make_sequential_executor(program_, *backend_, std::move(exchanges), check_.get()));
      return {};
    }
    communicator_ = options.communicator ? options.communicator(exchanges)
                                         : std::make_unique<LocalCommunicator>(devices, exchanges);
    executor_ = make_parallel_executor(program_, *backend_, *communicator_, check_.get(), options.rank);
    return {};
  }

  TrainState& state() override { return state_; }
  const BoundMemory& bound() const override { return memory_; }

  Status weights_changed() override { return backend_->prepare_weights(); }

  std::span<const BatchView> ring() const override { return ring_; }

  void follow(std::function<double(int64_t step)> rate, int64_t done) override {
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

  void compress_by(std::function<double(int64_t step)> density) override { density_of_ = std::move(density); }

  Status step(int64_t step, double rate, int slot, const std::atomic<bool>* stop) override {
    XRUN_CHECK(idle_ == nullptr || (idle_->step() == step && rate_(step) == rate),
               "steps follow one another, each with the rate of the curve");
    set_density_of(step);
    backend_->begin_step({.seed = module_.train.seed,
                          .step = step,
                          .rate = rate,
                          .density = density_,
                          .idle = idle_.get(),
                          .measures_mass = measures_mass_,
                          .guard = guard_,
                          .rows = state_.rows(),
                          .inputs = ring_[static_cast<size_t>(slot)].inputs});
    Outcome outcome{.status = executor_->step()};
    if (idle_ != nullptr) {
      idle_->advance(step + 1, rate_);  // rows that are read from now on catch up to the next step
    }
    outcome.stop = stop != nullptr && stop->load(std::memory_order_relaxed);
    if (communicator_ != nullptr) {
      outcome = communicator_->agree(std::move(outcome));
    }
    stops_ = outcome.stop;
    if (outcome.status.ok() && shared_ != nullptr) {
      return shared_->exchange(measures_mass_);
    }
    return std::move(outcome.status);
  }

  Status agree(Status mine) override { return peers_ == nullptr ? std::move(mine) : peers_->agree(std::move(mine)); }

  void share(std::span<const ValueId> values) override {
    if (shared_ != nullptr) {
      shared_->share(values);
    }
  }

  Result<std::string> weights_digest() const override {
    return peers_ == nullptr ? Result<std::string>(state_.weights_digest())
                             : gather_digest(*peers_, state_.range_digests());
  }

  void guard(ChangeGuard* guard) override { guard_ = guard; }
  bool stops() const override { return stops_; }

  int rank() const override { return rank_; }
  Peers* peers() override { return peers_; }
  Communicator* communicator() override { return communicator_.get(); }

  std::byte* host_memory(planner::BufferId buffer) override { return memory_.at(buffer); }

  bool has_rows(ValueId value) const override {
    return std::any_of(program_.buffers.begin(), program_.buffers.end(), [&](const Buffer& buffer) {
      return buffer.purpose == Purpose::kResult && buffer.value == value &&
             (memory_.has(buffer.device) || shared_ != nullptr);
    });
  }

  Status read_rows(ValueId value, std::span<std::byte> out) const override {
    const TensorType& type = module_.graph.value(value).type;
    XRUN_CHECK(static_cast<Bytes>(out.size()) >= type.bytes(program_.batch, program_.norm_rows),
               "the memory for results is too small");
    int64_t rows = 0;
    for (const Buffer& buffer : program_.buffers) {
      // Skips buffers of a single head pass: their rows have been copied to the buffer of the whole batch.
      if (buffer.purpose != Purpose::kResult || buffer.value != value || buffer.head_pass >= 0 || !has(buffer)) {
        continue;
      }
      const int64_t count = buffer.replica >= 0 ? program_.batch / program_.replicas : program_.batch;
      const int64_t first = count * std::max(buffer.replica, 0);
      read(buffer, out.subspan(static_cast<size_t>(type.bytes(first, program_.norm_rows)),
                               static_cast<size_t>(type.bytes(count, program_.norm_rows))));
      rows += count;
    }
    if (rows < program_.batch) {
      return Error{ErrorKind::kUsage, "XG0808",
                   "the plan keeps no result for `" + module_.graph.value(value).name + "`",
                   "make it an output of the model"};
    }
    return {};
  }

  Status read_best(ValueId logits, std::span<int32_t> classes, std::span<float> scores) const override {
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.purpose == Purpose::kResult && buffer.value == logits && buffer.head_pass < 0) {
        XRUN_CHECK(classes.size() == scores.size() && static_cast<Bytes>(classes.size_bytes()) * 2 <= buffer.bytes,
                   "classes and scores are [batch, k]");
        memory_.read(buffer.id, 0, std::as_writable_bytes(classes));
        memory_.read(buffer.id, static_cast<Bytes>(classes.size_bytes()), std::as_writable_bytes(scores));
        return {};
      }
    }
    return Error{ErrorKind::kUsage, "XG0808",
                 "the plan keeps no best classes of `" + module_.graph.value(logits).name + "`", ""};
  }

  Status read_softmax(int head, std::span<ops::RowSoftmax> rows) const override {
    XRUN_CHECK(std::ssize(rows) == program_.batch, "each row of the batch has a softmax");
    const int64_t count = program_.micro_batch_rows();
    int64_t read = 0;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.purpose != Purpose::kHeadSoftmax || buffer.head != head) {
        continue;
      }
      // The buffer holds the rows of the whole batch, or of one pass, which covers a micro-batch of each replica.
      const bool whole = buffer.head_pass < 0;
      const int64_t parts = whole ? 1 : program_.replicas;
      const int64_t part_rows = whole ? program_.batch : count;
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t first = whole ? 0 : (part * program_.micro_batches_of_replica() + buffer.head_pass) * count;
        memory_.read(buffer.id, part * part_rows * kHeadSoftmaxRow,
                     std::as_writable_bytes(rows.subspan(static_cast<size_t>(first), static_cast<size_t>(part_rows))));
        read += part_rows;
      }
    }
    return read == program_.batch ? Status()
                                  : Error{ErrorKind::kUsage, "XG0808", "the plan keeps no softmax of this head", ""};
  }

  double grad_norm() const override { return backend_->grad_norm(); }
  void measure(bool on) override {
    measured_ = on;
    executor_->measure(on);
  }
  DeviceRange own_devices() const override { return own_devices_; }
  const StepTimes& times() override { return times_.measure(timings()); }
  std::span<const Timing> timings() const override {
    XRUN_CHECK(measured_, "times of a step that was not timed");
    return executor_->timings();
  }
  void measure_mass(bool on) override { measures_mass_ = on; }

  ActiveReport active(int head) const override {
    const planner::HeadPlan& plan = program_.heads[static_cast<size_t>(head)];
    ActiveReport report{.head = module_.graph.heads[static_cast<size_t>(plan.head)].name};
    std::vector<std::vector<ops::RowMass>> masses;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.head != head || !has(buffer)) {
        continue;
      }
      if (buffer.purpose == Purpose::kHeadSelection) {
        HeadCounts counts;
        read(buffer, std::as_writable_bytes(std::span(&counts, 1)));
        report.classes = counts.all;
        report.near = static_cast<double>(counts.near) / static_cast<double>(counts.all);
        report.common += static_cast<double>(counts.common) / static_cast<double>(counts.all);
      } else if (buffer.purpose == Purpose::kHeadMass) {
        masses.emplace_back(static_cast<size_t>(plan.rows));
        read(buffer, std::as_writable_bytes(std::span(masses.back())));
      }
    }
    if (measures_mass_) {
      report.mass = ops::active_share(masses);
    }
    return report;
  }

  Bytes memory() const override { return memory_.bytes(); }
  Bytes peak_before() const override { return memory_.peak_before(); }
  const planner::Program& program() const override { return program_; }
  const Module& module() const override { return module_; }

 private:
  // Whether the first bytes of a buffer can be read: it belongs to this rank, or is shared.
  bool has(const Buffer& buffer) const {
    return buffer.device == planner::kHost || memory_.has(buffer.device) ||
           (shared_ != nullptr && shared_->find(buffer.id) != nullptr);
  }
  void read(const Buffer& buffer, std::span<std::byte> out) const {
    const std::vector<std::byte>* shared = shared_ == nullptr ? nullptr : shared_->find(buffer.id);
    if (shared == nullptr) {
      memory_.read(buffer.id, 0, out);
    } else {
      std::copy_n(shared->begin(), out.size(), out.begin());
    }
  }

  // Applies the density of a step. It changes only a few times in a run, so most calls do nothing.
  void set_density_of(int64_t step) {
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

  const Module& module_;
  const planner::Program& program_;
  BoundMemory memory_;
  TrainState state_;
  std::vector<BatchView> ring_;
  bool measured_ = false;
  bool measures_mass_ = false;
  std::unique_ptr<ops::IdleSteps> idle_;  // null: no rows catch up
  std::function<double(int64_t)> rate_;
  std::function<double(int64_t)> density_of_;
  double density_ = 0;               // density of the last step; 0 before the first
  std::vector<Exchange> exchanges_;  // for compressed gradients
  DeviceRange own_devices_;
  TimeTable times_;
  std::unique_ptr<ArenaCheck> check_;  // null: not requested
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> communicator_;  // null: the sequential executor
  std::unique_ptr<Executor> executor_;
  int rank_ = 0;
  Peers* peers_ = nullptr;                 // null: one process
  std::unique_ptr<SharedResults> shared_;  // null: one process
  bool stops_ = false;                     // the answer of `stops()` for the last step
  ChangeGuard* guard_ = nullptr;
};

}  // namespace

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
    events.on_warn({failure->code, failure->message + "; " + failure->help});
  }
}

}  // namespace xrun::runtime
