// The build of a graph has these steps, of which the second runs in the background:
//   1. Before the step begin_of(k), each rank copies its class rows to its snapshot, and begins to send them to all
//   ranks.
//      its own, so that steps can go on with the older lists. For an approximate graph it also measures the recall.
//   3. Before the step use_of(k), the ranks wait until all of them have ended the build. Then each rank copies the new
//      lists over the lists in use.
// A checkpoint between begin_of(k) and use_of(k) contains the snapshot, so a run that resumes repeats the same build.
#include "runtime/train/knn/knn_graphs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <span>
#include <system_error>
#include <utility>

#include "graph/base/check.h"
#include "ops/knn/knn.h"
#include "ops/knn/knn_cells.h"
#include "ops/knn/knn_recall.h"
#include "planner/program/program.h"
#include "runtime/train/clock/rate.h"
#include "runtime/train/knn/knn_ranks.h"

namespace xrun::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using planner::Purpose;

// The time from the start of a build to the first step that uses its lists, as a share of the rebuild period.
constexpr double kDelay = 0.1;
constexpr double kSlack = 1e-12;  // relative rounding error of a period in epochs, converted to units of samples
constexpr double kMost = 0x1p50;  // largest time; builds that would begin later are never made

}  // namespace

GraphSchedule::GraphSchedule(const TrainSpec& train, int64_t samples)
    : sizes_(train, samples),
      in_steps_(train.active_classes.rebuild.unit == TrainSpan::kSteps),
      period_(train.active_classes.rebuild.steps(samples, train.unit())),
      at_start_(!train.init_checkpoint.empty()) {
  // A period is at least one step, so that two builds never begin at the same step.
  const double least = in_steps_ || !train.growth ? 1.0 : static_cast<double>(train.growth->times);
  period_ = std::clamp(period_, least, kMost);
  delay_ = static_cast<int64_t>(period_ * kDelay);
}

int64_t GraphSchedule::time_of(int64_t build) const {
  return static_cast<int64_t>(std::min(std::ceil(static_cast<double>(build) * period_ * (1 - kSlack)), kMost));
}

int64_t GraphSchedule::begin_of(int64_t build) const { return step_at(time_of(build)); }

int64_t GraphSchedule::use_of(int64_t build) const {
  if (build == 0) {
    return 0;
  }
  // Even if a step takes longer than the delay, the lists of a build are used before the next build begins.
  return std::max(begin_of(build), std::min(step_at(time_of(build) + delay_), begin_of(build + 1) - 1));
}

int64_t GraphSchedule::next(int64_t done) const {
  const auto time = static_cast<double>(in_steps_ ? done : sizes_.begin_of(done));
  auto build = std::max(first(), static_cast<int64_t>(time / period_) - 1);
  while (use_of(build) < done) {
    ++build;
  }
  return build;
}

Status check_graphs(const TrainSpec& train, int64_t samples) {
  if (train.active_classes.kind != ActiveSpec::kKnn) {
    return {};
  }
  const GraphSchedule schedule(train, samples);
  const int64_t used = schedule.use_of(schedule.first());
  const int64_t total = StepSizes(train, samples).steps();
  if (used < total) {
    return {};
  }
  return Error{ErrorKind::kContent, "XG0214",
               fmt::format("the first graph would be used after {} steps, but the whole run has {}", format_count(used),
                           format_count(total)),
               "write a shorter `rebuild`, train longer, or write active_classes = sample(10%)",
               train.active_classes.span};
}

std::optional<WarnEvent> slow_build(const std::string& head, bool exact, Seconds build, Seconds waited) {
  constexpr Seconds kLong = 1;
  if (waited < kLong || waited < build / 2) {
    return std::nullopt;
  }
  return WarnEvent{
      "XG0819",
      fmt::format("steps waited {} for the graph of nearest classes of `{}`, which takes {} to build: make "
                  "`rebuild` of `active_classes` longer{}",
                  format_seconds(waited), head, format_seconds(build), exact ? ", or write exact=false" : "")};
}

std::optional<WarnEvent> poor_graph(const std::string& head, double recall, int64_t probes) {
  constexpr double kPoor = 0.9;
  if (recall >= kPoor || probes >= kMostProbes) {
    return std::nullopt;
  }
  return WarnEvent{"XG0820", fmt::format("the graph of nearest classes of `{}` misses {:.0f}% of them: write probes={} "
                                         "in `active_classes`, which takes longer and misses fewer",
                                         head, 100 * (1 - recall), std::min(2 * probes, kMostProbes))};
}

// The state of the builds for one head.
struct ClassGraphs::Graph {
  // Makes the build stop waiting for other ranks, then waits for its end.
  ~Graph() {
    if (ranks != nullptr) {
      ranks->cancel();
    }
  }
  size_t index = 0;  // index in Program::heads
  const planner::HeadPlan* head = nullptr;
  const StateTensor* weight = nullptr;
  const StateTensor* lists = nullptr;
  const StateTensor* snapshot = nullptr;
  int32_t* lists_in_use = nullptr;
  float* snapshot_rows = nullptr;
  int32_t* next_lists = nullptr;
  std::byte* scratch = nullptr;
  int64_t next = 0;  // number of the next build
  Seconds seconds = 0;
  Seconds waited = 0;  // time that steps have waited for this build
  double recall = 1;
  Status status;  // outcome of the build
  std::unique_ptr<GraphRanks> ranks;
  std::unique_ptr<BackgroundWork> work;  // last member, because its threads use the others

  // Builds the lists, on the threads of the build. Errors: those of other ranks.
  Status build_lists(const KnnCellsShape& cells, ops::Isa isa, ops::Workers& workers);
};

Status ClassGraphs::Graph::build_lists(const KnnCellsShape& cells, ops::Isa isa, ops::Workers& workers) {
  XRUN_TRY(ranks->wait_for_rows());
  if (head->exact_graph) {
    XRUN_TRY(ops::KnnGraph(cells.graph, isa).build(snapshot_rows, next_lists, scratch, workers, *ranks));
    return {};
  }
  XRUN_TRY(ops::KnnCells(cells, isa).build(snapshot_rows, next_lists, scratch, workers, *ranks));
  XRUN_ASSIGN(recall, ops::KnnRecall(cells.graph, 0, isa).measure(snapshot_rows, next_lists, scratch, workers, *ranks));
  return {};
}

ClassGraphs::ClassGraphs(Session& session, int64_t samples, ops::Isa isa, const std::atomic<bool>* stop,
                         EventSink& events)
    : session_(&session), schedule_(session.module().train, samples), isa_(isa), stop_(stop), events_(events) {
  for (size_t h = 0; h < session.program().heads.size(); ++h) {
    if (session.program().heads[h].neighbours > 0) {
      graphs_.push_back(std::make_unique<Graph>());
      graphs_.back()->index = h;
      bind(*graphs_.back());
    }
  }
}

void ClassGraphs::bind(Graph& graph) {
  const planner::Program& program = session_->program();
  const planner::HeadPlan& head = program.heads[graph.index];
  graph.head = &head;
  graph.ranks = std::make_unique<GraphRanks>(*session_, graph.index);
  const std::string& name = session_->module().graph.param(head.weight).name;
  graph.weight = session_->state().find(name);
  graph.lists = session_->state().find(name + ".lists");
  graph.snapshot = session_->state().find(name + ".snapshot");
  for (const planner::Buffer& buffer : program.buffers) {
    if (buffer.head != static_cast<int32_t>(graph.index) || buffer.device != planner::kHost) {
      continue;
    }
    std::byte* const data = session_->host_memory(buffer.id);
    if (buffer.purpose == Purpose::kHeadLists) {
      graph.lists_in_use = reinterpret_cast<int32_t*>(data);
    } else if (buffer.purpose == Purpose::kHeadSnapshot) {
      graph.snapshot_rows = reinterpret_cast<float*>(data);
    } else if (buffer.purpose == Purpose::kHeadBuild) {
      graph.next_lists = reinterpret_cast<int32_t*>(data);
      graph.scratch = data + align_up(head.classes * head.neighbours * static_cast<Bytes>(sizeof(int32_t)));
    }
  }
}

ClassGraphs::~ClassGraphs() = default;

Status ClassGraphs::begin(int64_t done) {
  for (const auto& graph : graphs_) {
    graph->next = schedule_.next(done);
    const bool used = graph->next > schedule_.first();
    const bool building = schedule_.begin_of(graph->next) < done;
    for (const auto& [tensor, wanted] : {std::pair(graph->lists, used), std::pair(graph->snapshot, building)}) {
      if (wanted && !tensor->kept) {
        return Error{ErrorKind::kContent, "XG0818",
                     "the checkpoint has no `" + tensor->name + "`, which the active classes of the next step need",
                     "continue from another checkpoint, or start over with --resume never"};
      }
      session_->state().keep(*tensor, wanted);
    }
    const std::span lists(graph->lists_in_use, static_cast<size_t>(graph->head->classes * graph->head->neighbours));
    if (used && std::ranges::any_of(lists, [&](int32_t c) { return c < -1 || c >= graph->head->classes; })) {
      return Error{ErrorKind::kContent, "XG0818",
                   "the checkpoint is damaged: `" + graph->lists->name + "` names classes that do not exist",
                   "continue from another checkpoint, or start over with --resume never"};
    }
    if (!used) {
      std::ranges::fill(lists, -1);
    }
    if (building) {
      XRUN_TRY(build(*graph));
    }
  }
  return {};
}

bool ClassGraphs::change_before(int64_t done) const {
  return std::ranges::any_of(graphs_, [&](const auto& graph) {
    return schedule_.begin_of(graph->next) == done || schedule_.use_of(graph->next) == done;
  });
}

Status ClassGraphs::before_step(int64_t done) {
  for (const auto& graph : graphs_) {
    if (schedule_.begin_of(graph->next) == done && graph->work == nullptr) {
      take_snapshot(*graph);
      XRUN_TRY(session_->agree(build(*graph)));
    }
    if (schedule_.use_of(graph->next) == done) {
      XRUN_TRY(use(*graph, done));
    }
  }
  return {};
}

Status ClassGraphs::before_save() {
  for (const auto& graph : graphs_) {
    if (graph->snapshot->kept) {
      XRUN_TRY(graph->ranks->wait_for_rows());
    }
  }
  return {};
}

void ClassGraphs::take_snapshot(Graph& graph) {
  for (const TensorPiece& piece : graph.weight->pieces) {
    session_->state().read_current(*graph.weight, piece.row_begin, piece.row_end,
                                   graph.snapshot_rows + piece.row_begin * graph.head->dim);
  }
  session_->state().keep(*graph.snapshot, true);
  graph.ranks->send_rows(graph.snapshot_rows);
}

Status ClassGraphs::build(Graph& graph) {
  const KnnCellsShape cells = planner::knn_cells_shape(session_->program(), *graph.head);
  try {
    graph.work =
        std::make_unique<BackgroundWork>(graph.ranks->workers(), [&graph, cells, isa = isa_](ops::Workers& workers) {
          const auto begin = Clock::now();
          graph.status = graph.build_lists(cells, isa, workers);
          graph.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        });
  } catch (const std::system_error&) {
    return Error{ErrorKind::kWorld, "XG0803", "the system lets no thread start that builds the graph of classes",
                 "raise its limit (`ulimit -u`, `ulimit -v`, pids.max of the control group)"};
  }
  return {};
}

Status ClassGraphs::wait_for_builds() {
  for (const auto& graph : graphs_) {
    if (graph->work != nullptr) {
      XRUN_ASSIGN(const Seconds waited, wait_for(*graph));
      graph->waited += waited;
    }
  }
  return {};
}

void ClassGraphs::move_to(Session& session) {
  session_ = &session;
  for (const auto& graph : graphs_) {
    bind(*graph);
  }
}

// Waits until all ranks have ended the build, and returns the duration of the wait.
Result<Seconds> ClassGraphs::wait_for(Graph& graph) {
  const auto begin = Clock::now();
  events_.on(WorkEvent{.work = Work::kPrepare, .subject = "the graph of nearest classes"});
  graph.ranks->listen();
  const bool built =
      graph.work->wait_unless([&] { return (stop_ != nullptr && *stop_) || graph.ranks->others_leave(); });
  const Outcome outcome = graph.ranks->agree({.status = built ? graph.status : Status(), .stop = !built});
  XRUN_TRY(outcome.status);
  if (outcome.stop) {
    return Error{ErrorKind::kInterrupted, "", "stopped while a graph of classes was built", ""};
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Status ClassGraphs::use(Graph& graph, int64_t done) {
  XRUN_ASSIGN(Seconds waited, wait_for(graph));
  waited += std::exchange(graph.waited, 0);
  const std::string& head = session_->module().graph.heads[static_cast<size_t>(graph.head->head)].name;
  graph.work = nullptr;
  std::copy_n(graph.next_lists, graph.head->classes * graph.head->neighbours, graph.lists_in_use);
  session_->state().keep(*graph.lists, true);
  session_->state().keep(*graph.snapshot, false);
  events_.on(GraphEvent{.step = done,
                        .head = head,
                        .of_step = schedule_.begin_of(graph.next),
                        .recall = graph.recall,
                        .seconds = graph.seconds,
                        .waited = waited});
  warn(graph, head, waited);
  ++graph.next;
  return {};
}

// Reports the warnings about a build, each warning only once in a run.
void ClassGraphs::warn(const Graph& graph, const std::string& head, Seconds waited) {
  if (const auto slow = slow_build(head, graph.head->exact_graph, graph.seconds, waited); slow && !told_slow_) {
    told_slow_ = true;
    events_.on(*slow);
  }
  if (const auto poor = poor_graph(head, graph.recall, graph.head->probes); poor && !told_poor_) {
    told_poor_ = true;
    events_.on(*poor);
  }
}

}  // namespace xrun::runtime
