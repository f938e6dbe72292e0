// Tests: tests/planner/cost/durations_test.cpp, tests/planner/search/chain_test.cpp
#include "planner/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "graph/cost.h"
#include "graph/layouts/compression.h"
#include "graph/layouts/knn_cells_layout.h"
#include "graph/settings/reader_def.h"
#include "graph/settings/reading_task.h"

namespace xrun::planner {
namespace {

// The times to read a field of a sample, and to run one stage of the data pipeline over one element of it. The three
// stages of the glyph model take 4.3 us for 1 024 pixels (docs/reference/benchmarks.md, "Figures"); a row of the digits
// with its label takes 0.7 us.
constexpr Seconds kSample = 2.5e-7;
constexpr Seconds kElement = 1e-9;
// The time of a pass over elements in bf16 relative to that of its bytes in f32. The elements are converted to f32 and
// back, which takes longer than memory needs for half of the bytes. Measured on AMX (docs/reference/calibration.md).
constexpr double kConverted = 1.7;
// The time to decode a pixel of a JPEG, measured with `xrun bench --calibrate`, and the pixels of a picture for each
// pixel to which it is decoded.
constexpr Seconds kDecodedPixel = 2.5e-9;
constexpr double kPixelsOfPicture = 4;
// The time to draw an element of a generated sample. `synthetic` draws two normal numbers for an element; `sku_tree`
// draws four, but in blocks, which takes half the time for each number.
constexpr Seconds kDrawn = 3e-8;

// The costs of head passes on one core of AMD Zen 4, measured with `xrun bench head` (docs/reference/benchmarks.md,
// "Figures"). In order: the fraction of the peak that products reach; the f32 operations for the exponential, maximum
// and sum of a logit; the cost of a row in each class block in addition to its products; the cost of a class row that
// is not next to others in memory; the cost of an element that is widened or rounded; the cost of drawing an active
// class.
constexpr double kHeadShare = 0.9;
constexpr Flops kLogit = 56;
constexpr Seconds kBlockRow = 2e-8;
constexpr Seconds kRowApart = 1e-7;
constexpr Seconds kWidened = 4.5e-10;
constexpr Seconds kRounded = 2.5e-9;
constexpr Seconds kSelected = 5e-8;

// The costs of selecting the largest elements of a tensor on the same core, measured with
// `xrun_ops_bench --benchmark_filter=select/`: the cost of each element of the tensor and of each selected element, if
// the threshold is found from a sample, and if all elements are counted. The time is spent on comparisons, not on
// memory.
constexpr Seconds kSampled = 1.7e-9;
constexpr Seconds kCandidate = 1e-7;
constexpr Seconds kCounted = 1.1e-8;
constexpr Seconds kWritten = 3e-8;

// The costs of building graphs of nearest classes on the same core, measured with `xrun bench knn`
// (docs/reference/benchmarks.md, "Figures"): the fraction of the peak that the products of an exact and of an
// approximate build reach, and the additional costs of a class and of an entry of its list.
constexpr double kGraphShare = 0.75;
constexpr Seconds kGraphPair = 2.5e-10;  // to compare a score; AMX products are too fast to hide this time
constexpr double kCellsShare = 0.4;
constexpr int kCellRounds = 4;  // rounds of k-means
constexpr Seconds kGraphClass = 3e-6;
constexpr Seconds kGraphEntry = 3.1e-7;
constexpr Seconds kCellsClass = 5e-6;
constexpr Seconds kCellsEntry = 1.2e-7;

double ceil_div(int64_t a, int64_t b) {
  const int64_t whole = (a + b - 1) / b;
  return static_cast<double>(whole);
}

Seconds drawn_time(const ReaderDef& reader, const Attrs& arguments) {
  Seconds sum = 0;
  if (const auto fields = reader.fields(arguments); fields.ok()) {
    for (const Field& field : *fields) {
      sum += field.type.dtype == DType::kF32 ? kDrawn * static_cast<double>(field.type.row_elements()) : 0.0;
    }
  }
  return sum;
}

// Whether a binding decodes pictures. They have three colours.
bool decodes(const DataBinding& binding) {
  return std::ranges::any_of(binding.stages, [](const CallSpec& stage) { return stage.name == "decode"; });
}

}  // namespace

CostModel::CostModel(const KernelFacts& facts, const Machine& machine) : facts_(facts), machine_(machine) {}

Seconds CostModel::node(const Graph& graph, NodeId id, int64_t norm_rows) const {
  const auto index = static_cast<size_t>(id.index);
  double work = 1;
  if (index < facts_.nodes.size()) {
    const KernelFact& fact = facts_.nodes[index];
    if (fact.time) {
      return *fact.time;
    }
    work = fact.work;
  }
  const Node& node = graph.node(id);
  const OpCost cost = cost_of(graph, node);
  const bool narrow = !node.inputs.empty() && graph.value(node.inputs[0]).type.dtype == DType::kBF16;
  const double rate = narrow ? facts_.flops_per_second_bf16 : facts_.flops_per_second_f32;
  const auto rows = static_cast<double>(norm_rows);
  const Seconds arithmetic = work * cost.flops * rows / rate;
  const double conversions = narrow && facts_.isa == "amx" ? kConverted : 1;
  const Seconds memory = conversions * static_cast<double>(cost.bytes) * rows / facts_.bytes_per_second;
  return facts_.call + std::max(arithmetic, memory);
}

Seconds CostModel::prepare(NodeId id, int input) const {
  const auto node = static_cast<size_t>(id.index);
  const auto at = static_cast<size_t>(input);
  const bool known = node < facts_.nodes.size() && at < facts_.nodes[node].prepare.size();
  return known ? facts_.nodes[node].prepare[at] : 0.0;
}

Seconds CostModel::forward_pass(Seconds block, int64_t blocks, int workers) const {
  return ceil_div(blocks, workers) * block;
}

Seconds CostModel::backward_pass(Seconds block, int64_t blocks, int64_t partials, int workers) const {
  const int64_t meeting = std::clamp<int64_t>(partials, 1, std::max<int64_t>(1, blocks));
  return ceil_div(meeting, workers) * ceil_div(blocks, meeting) * block;
}

Seconds CostModel::pass(Seconds block, double factor, int calls) const {
  return machine_.has_gpus() ? std::max(block, factor * block - (factor - 1) * calls * facts_.call) : factor * block;
}

Seconds CostModel::head_products(double macs, bool bf16) const {
  const double rate = bf16 ? facts_.flops_per_second_bf16 : facts_.flops_per_second_f32;
  const double share = machine_.has_gpus() ? 1 : kHeadShare;
  return facts_.head_seconds_per_mac > 0 ? macs * facts_.head_seconds_per_mac : 2 * macs / (share * rate);
}

// A kernel is launched for each class block. Its logits leave the multiprocessors only if they are kept.
Seconds CostModel::head_on_gpu(const HeadSweep& sweep) const {
  const Seconds products = head_products(sweep.rows * sweep.classes * sweep.dim * sweep.macs, sweep.bf16);
  return sweep.blocks * facts_.call +
         std::max(products, sweep.classes * sweep.dim * sweep.bytes_of_element() / facts_.bytes_per_second);
}

Seconds CostModel::head(const HeadSweep& sweep, int workers) const {
  if (machine_.has_gpus()) {
    return head_on_gpu(sweep);
  }
  const double logits = sweep.rows * sweep.classes;
  const double elements = sweep.classes * sweep.dim;
  Seconds time =
      head_products(logits * sweep.dim * sweep.macs, sweep.bf16) + (sweep.apart ? sweep.classes * kRowApart : 0.0);
  if (facts_.head_seconds_per_mac == 0) {
    time += logits * kLogit / facts_.flops_per_second_f32 + sweep.rows * sweep.blocks * kBlockRow +
            elements * sweep.bytes_of_element() / facts_.bytes_per_second;
  }
  const bool narrow = sweep.weights != RowFormat::kF32;
  const double states = sweep.state_format != RowFormat::kF32 ? sweep.states : 0;
  time += narrow ? elements * kWidened : 0.0;
  time += sweep.updates ? elements * kRounded * ((narrow ? 1 : 0) + states) : 0.0;
  return time / static_cast<double>(workers);
}

Seconds CostModel::selection(int64_t active, int64_t targets) const {
  return kSelected * static_cast<double>(active + targets);
}

Seconds CostModel::select_largest(int64_t elements, int64_t selected, int workers) const {
  const bool sampled = selects_by_sample(elements, selected);
  const Seconds time = static_cast<double>(elements) * (sampled ? kSampled : kCounted) +
                       static_cast<double>(selected) * (sampled ? kCandidate : kWritten);
  return time / static_cast<double>(workers);
}

Seconds CostModel::exact_graph(const KnnShape& shape, int ranks) const {
  const auto classes = static_cast<double>(shape.classes);
  // A rank compares its own classes with one another once, and each of its classes with all classes of other ranks.
  const double share = 1.0 / ranks;
  const double pairs = classes * classes / 2 * share * (2 - share);
  const double macs = pairs * static_cast<double>(KnnLayout(shape, false).dim_padded);
  const double rate = kGraphShare * std::max(facts_.flops_per_second_f32, facts_.flops_per_second_bf16);
  const Seconds lists = share * classes * (kGraphClass + kGraphEntry * static_cast<double>(shape.found()));
  const Seconds compared = facts_.isa == "amx" ? pairs * kGraphPair : 0.0;
  return (2 * macs / rate + compared + lists) / static_cast<double>(std::min(shape.workers, machine_.cores));
}

Seconds CostModel::approximate_graph(const KnnCellsShape& shape, int ranks) const {
  const KnnCellsLayout cells(shape);
  const auto classes = static_cast<double>(shape.graph.classes);
  const auto centres = static_cast<double>(cells.cells);
  const double pairs = kCellRounds * static_cast<double>(cells.sample) * centres + classes * centres +
                       classes * static_cast<double>(cells.probes) * classes / centres +
                       static_cast<double>(kKnnRecallClasses) * classes;
  const Seconds lists = classes * (kCellsClass + kCellsEntry * static_cast<double>(shape.graph.found()));
  const Flops flops = 2 * pairs * static_cast<double>(cells.dim_padded);
  return (flops / (kCellsShare * facts_.flops_per_second_f32) + lists) /
         static_cast<double>(std::min(shape.graph.workers, machine_.cores)) / ranks;
}

Seconds CostModel::streaming(Bytes bytes, int workers) const {
  return static_cast<double>(bytes) / facts_.bytes_per_second / static_cast<double>(workers);
}

Seconds CostModel::sweep(Bytes bytes, int workers) const {
  const double all = machine_.workers_of_node();
  const bool is_measured = facts_.filling_workers > 0 && !machine_.has_gpus();
  return streaming(bytes, workers) * (is_measured ? std::max(1.0, all / facts_.filling_workers) : 1.0);
}

Seconds CostModel::hand_over() const {
  constexpr Seconds kHandOver = 5e-6;
  const bool is_alone = machine_.devices == 1 && machine_.threads == 1;
  return machine_.has_gpus()             ? facts_.call
         : is_alone                      ? 0.0
         : facts_.calibration != nullptr ? facts_.calibration->hand_over.value_or(kHandOver)
                                         : kHandOver;
}

Seconds CostModel::exchange(const ExchangeTime& measured, Bytes bytes, int others) const {
  return measured.rate > 0 ? measured.start * others + static_cast<double>(bytes) / measured.rate
                           : hand_over() * others + static_cast<double>(bytes) / exchange_rate();
}

Seconds CostModel::copy(Bytes bytes) const {
  return exchange(facts_.calibration != nullptr ? facts_.calibration->copy : ExchangeTime(), bytes, 1);
}

Seconds CostModel::copy_from_host(Bytes bytes) const {
  return facts_.host_rate > 0 ? hand_over() + static_cast<double>(bytes) / facts_.host_rate : copy(bytes);
}

Seconds CostModel::all_gather(Bytes bytes, int members) const {
  return exchange(facts_.calibration != nullptr ? facts_.calibration->all_gather : ExchangeTime(), bytes, members - 1);
}

Seconds CostModel::reduce_scatter(Bytes bytes, int members) const {
  return exchange(facts_.calibration != nullptr ? facts_.calibration->reduce_scatter : ExchangeTime(), bytes,
                  members - 1);
}

double CostModel::crowding(int devices) const {
  int threads = 0;
  for (int d = 0; d < std::min(devices, machine_.devices); ++d) {
    threads += machine_.threads_of(d);
  }
  return std::max(1.0, static_cast<double>(threads) / static_cast<double>(machine_.parallel_workers()));
}

Seconds CostModel::loader(const Module& module) const {
  if (facts_.sample > 0) {
    return facts_.sample * static_cast<double>(module.train.batch);
  }
  Seconds sample = 0;
  for (const SourceSpec& source : module.data.sources) {
    const ReaderDef* reader = source.name == "train" ? data_registry().find_reader(source.reader.name) : nullptr;
    if (reader != nullptr && reader->synthetic) {
      sample += drawn_time(*reader, source.reader.args);
    }
  }
  const bool is_measured = facts_.calibration != nullptr && facts_.calibration->decode > 0;
  const Seconds pixel = is_measured ? facts_.calibration->decode : kDecodedPixel;
  for (const DataBinding& binding : module.data.bindings) {
    for (const NamedValue& input : module.graph.inputs) {
      const double elements = static_cast<double>(module.graph.value(input.value).type.row_elements());
      const double passes = 1 + static_cast<double>(binding.stages.size());
      sample += input.name == binding.target ? kSample + elements * passes * kElement : 0.0;
      sample += input.name == binding.target && decodes(binding) ? elements / 3 * kPixelsOfPicture * pixel : 0.0;
    }
  }
  return sample * static_cast<double>(module.train.batch);
}

Seconds CostModel::loader_alone(const Module& module) const {
  return loader(module) / (machine_.has_gpus() ? machine_.cores : std::min(machine_.cores, machine_.threads));
}

Seconds CostModel::step_with_loader(const Module& module, Seconds makespan, Seconds busy, int waits) const {
  const Seconds loading = loader(module);
  if (machine_.has_gpus()) {
    return std::max(makespan, loader_alone(module));
  }
  const int workers = std::min(machine_.cores, machine_.threads);
  const Seconds row = loading / static_cast<double>(std::max<int64_t>(1, module.train.batch));
  // A worker that is in a task of the loader cannot start work of the step until the task ends. This delays the step by
  // a whole task at its start, and by half a task on average after each wait.
  const Seconds held = std::min(loading / workers, (kReadingTask + row) * (1 + waits / 2.0));
  return std::max(held + makespan, (busy + loading) / workers);
}

}  // namespace xrun::planner
