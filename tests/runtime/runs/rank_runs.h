// Runs some steps of a plan in one process, or on ranks that share no memory. Each rank is a thread with its own arenas
// and sends everything else as messages (tests/support/message_communicator.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/knn/knn_graphs.h"
#include "runtime/train/session/session.h"
#include "runtime/train/state/train_state.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"
#include "tests/support/message_communicator.h"
#include "tests/support/slow_communicator.h"

namespace xrun::runtime::testing {

using Channels = std::vector<std::shared_ptr<Channel>>;  // indexed by rank; null for this rank

// The tensors that all ranks of a run saved: whole tensors, put together from each rank's rows. A run on any number of
// ranks can start from them.
struct SharedStore {
  int steps = 0;  // number of completed steps
  std::map<std::string, std::vector<std::byte>> tensors;
  bool agrees = true;  // all ranks have equal bytes of the tensors that each of them holds
  std::mutex mutex;

  void save(const TrainState& state, int done) {
    const std::lock_guard lock(mutex);
    steps = done;
    for (const StateTensor& tensor : state.tensors()) {
      if (!tensor.kept || tensor.role == StateTensor::Role::kShift) {
        continue;
      }
      const auto width = static_cast<size_t>(tensor.row_bytes());
      const auto [at, added] = tensors.try_emplace(tensor.name, static_cast<size_t>(tensor.rows()) * width);
      const std::vector<std::byte> before = at->second;
      for (const TensorPiece& piece : tensor.pieces) {
        state.read_rows(tensor, piece.row_begin, piece.row_end,
                        at->second.data() + static_cast<size_t>(piece.row_begin) * width);
      }
      agrees = agrees && (added || tensor.role != StateTensor::Role::kGraph || at->second == before);
    }
  }

  void load(TrainState& state) const {
    for (const StateTensor& tensor : state.tensors()) {
      const auto at = tensors.find(tensor.name);
      if (tensor.role == StateTensor::Role::kGraph) {
        state.keep(tensor, at != tensors.end());
      }
      if (at != tensors.end()) {
        state.write_rows(tensor, 0, tensor.rows(), at->second.data());
      }
    }
  }
};

struct RankOptions {
  int steps = 3;                       // number of steps of the whole run
  int fails_in_step = -1;              // step in which this rank's data is not finite
  int stops_in_step = -1;              // step in which this rank is asked to stop
  int gives_up_in_step = -1;           // step in which this rank leaves the run
  std::chrono::milliseconds delay{0};  // delay of broadcasts that do not belong to a step
  const SharedStore* from = nullptr;   // state from which the run starts; after its last step it saves to `to`
  SharedStore* to = nullptr;
};

// The final state of one rank: the weights of all ranks, and the number of ranges that this rank holds.
struct RankResult {
  Status status;
  int steps = 0;
  std::vector<float> losses;    // losses of this rank's rows in all steps
  std::vector<int64_t> active;  // active classes of the first head in each step, if this rank has a shard of it
  std::vector<GraphEvent> graphs;
  std::vector<int32_t> lists;  // lists of the last graph of nearest classes of the first head
  std::string weights;
  LossScale scale;  // scale of the loss after the last step
  size_t ranges = 0;
  bool stops = false;
};

struct GraphSink final : EventSink {
  explicit GraphSink(std::vector<GraphEvent>& events) : graphs(events) {}
  std::vector<GraphEvent>& graphs;
  void on(const Event& event) override {
    if (const auto* const graph = std::get_if<GraphEvent>(&event)) {
      graphs.push_back(*graph);
    }
  }
};

// Runs the steps in a new session and records the results.
inline Status run_steps(Session& session, const ModelOptions& model, const RankOptions& options, RankResult& result) {
  const TrainSpec& train = session.module().train;
  const planner::Program& program = session.program();
  session.state().initialise(train.seed);
  if (options.from != nullptr) {
    options.from->load(session.state());
    result.steps = options.from->steps;
  }
  session.follow([&](int64_t) { return model.rate; }, result.steps);
  SyntheticRows rows(session.module().graph, model, 1000);
  std::atomic<bool> stop{false};
  GraphSink sink(result.graphs);
  ClassGraphs graphs(session, rows.samples(), ops::detect_isa(), &stop, sink);
  XRUN_TRY(graphs.begin(result.steps));
  XRUN_TRY(session.weights_changed());
  XRUN_TRY(rows.start(result.steps, session.ring()));
  for (; result.steps < options.steps && !result.stops; ++result.steps) {
    const int step = result.steps;
    XRUN_TRY(rows.wait(step));
    const int slot = step % static_cast<int>(session.ring().size());
    if (step == options.fails_in_step) {
      auto* const data = reinterpret_cast<float*>(session.ring()[static_cast<size_t>(slot)].inputs[0]);
      std::fill_n(data, 8, std::numeric_limits<float>::infinity());
    }
    if (step == options.gives_up_in_step) {
      return Error{ErrorKind::kWorld, "", "this rank gave up"};
    }
    stop = step == options.stops_in_step;
    XRUN_TRY(graphs.before_step(step));
    XRUN_TRY(session.step(step, model.rate, slot, &stop));
    result.stops = session.stops();
    std::vector<float> losses(static_cast<size_t>(program.batch));
    if (session.read_rows(train.loss[0].rows, std::as_writable_bytes(std::span(losses))).ok()) {
      result.losses.insert(result.losses.end(), losses.begin(), losses.end());
    }
    if (!program.heads.empty() && session.active(0).classes > 0) {
      result.active.push_back(session.active(0).classes);
    }
  }
  for (const planner::Buffer& buffer : program.buffers) {
    if (buffer.purpose == planner::Purpose::kHeadLists && buffer.head == 0) {
      const auto* const lists = reinterpret_cast<const int32_t*>(session.host_memory(buffer.id));
      result.lists.assign(lists, lists + program.heads[0].classes * program.heads[0].neighbours);
    }
  }
  result.scale = session.state().loss_scale();
  if (options.to != nullptr) {
    XRUN_TRY(graphs.before_save());
    options.to->save(session.state(), result.steps);
  }
  return {};
}

inline RankResult run_rank(const Prepared& prepared, const ModelOptions& model, planner::Program program, int rank,
                           const Channels& channels, const RankOptions& options = {}) {
  RankResult result;
  const auto run = [&]() -> Status {
    std::vector<int> threads;
    int first = program.devices;
    for (int d = 0; d < program.devices; ++d) {
      if (program.rank_of(d) == rank) {
        threads.push_back(program.threads[static_cast<size_t>(d)]);
        first = std::min(first, d);
      }
    }
    const auto devices = make_cpu_devices(threads, {}, first);
    MessageCommunicator* communicator = nullptr;
    SessionOptions session_options{.isa = prepared.isa, .check_memory = true, .rank = rank};
    session_options.communicator = [&](std::span<const Exchange> exchanges) {
      auto made = std::make_unique<MessageCommunicator>(
          rank, [&](int device) { return program.rank_of(device); }, exchanges, channels);
      communicator = made.get();
      std::unique_ptr<Communicator> given = std::move(made);
      if (options.delay != std::chrono::milliseconds(0)) {
        given = std::make_unique<SlowCommunicator>(std::move(given), rank, options.delay);
      }
      return given;
    };
    XRUN_ASSIGN(auto session, Session::create(prepared.module, program, *devices, session_options));
    XRUN_TRY(run_steps(*session, model, options, result));
    const std::vector<RangeDigest> own = session->state().range_digests();
    result.ranges = own.size();
    std::string text;
    for (const RangeDigest& one : own) {
      text += std::to_string(one.range) + " " + one.digest + " ";
    }
    std::vector<RangeDigest> all;
    for (const std::string& said : communicator->gather(text)) {
      std::istringstream in(said);
      for (RangeDigest one; in >> one.range >> one.digest;) {
        all.push_back(one);
      }
    }
    result.weights = digest_of(all);
    return {};
  };
  result.status = run();
  return result;
}

// Connects all pairs of ranks. Element [rank] of the result holds the channels of that rank.
inline std::vector<Channels> connect(int ranks) {
  std::vector<Channels> channels(static_cast<size_t>(ranks), Channels(static_cast<size_t>(ranks)));
  for (size_t a = 0; a < channels.size(); ++a) {
    for (size_t b = a + 1; b < channels.size(); ++b) {
      std::tie(channels[a][b], channels[b][a]) = make_queue_channel();
    }
  }
  return channels;
}

// Runs the plan with a thread for each rank. `options`: one element per rank.
inline std::vector<RankResult> run_ranks(const Prepared& prepared, const ModelOptions& model, planner::Program program,
                                         int ranks, const std::vector<RankOptions>& options = {}) {
  program.ranks = ranks;
  const std::vector<Channels> channels = connect(ranks);
  std::vector<RankResult> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = run_rank(prepared, model, program, static_cast<int>(rank), channels[rank],
                               rank < options.size() ? options[rank] : RankOptions{});
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return results;
}

// Runs the plan in one process.
inline RankResult run_one(const Prepared& prepared, const ModelOptions& model, const planner::Program& program,
                          const RankOptions& options = {}) {
  RankResult result;
  const auto devices = make_cpu_devices(program.threads);
  auto session = Session::create(prepared.module, program, *devices, {.isa = prepared.isa});
  XRUN_CHECK(session.ok(), "no session");
  result.status = run_steps(**session, model, options, result);
  XRUN_CHECK(result.status.ok(), result.status.ok() ? "" : result.status.error().message);
  result.weights = (*session)->state().weights_digest();
  return result;
}

}  // namespace xrun::runtime::testing
