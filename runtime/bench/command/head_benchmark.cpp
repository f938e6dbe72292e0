// `xrun bench head`: the limits of its flags, the case that they describe, and the report.
// Tests: tests/runtime/cli/commands/bench_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>

#include "graph/base/counted.h"
#include "graph/layouts/head_shape.h"
#include "runtime/bench/command/benchmark.h"
#include "runtime/bench/command/machine_name.h"
#include "runtime/bench/command/machine_share.h"
#include "runtime/bench/head_step.h"
#include "runtime/device/host.h"

namespace xrun::cli {
namespace {

constexpr int64_t kMaxClasses = std::numeric_limits<int32_t>::max();  // labels are int32
constexpr int64_t kMaxDim = 1 << 16;
constexpr int64_t kMaxBatch = 1 << 20;
constexpr int64_t kMaxShards = 4096;
constexpr int64_t kMaxRounds = 10'000;
constexpr int64_t kNeighbours = 32;
constexpr int64_t kMaxNeighbours = 1 << 16;
constexpr double kCosineScale = 64;  // scale of the logits, usual for training with margins

Error usage(const std::string& message, const std::string& help) { return {ErrorKind::kUsage, "", message, help}; }

// Prints a time with at least three digits, so that steps can be compared.
std::string step_text(Seconds seconds) {
  return seconds < 1 ? format_seconds(seconds) : fmt::format("{:.2f} s", seconds);
}

RowFormat format_of(const std::string& name) {
  return name == "f32" ? RowFormat::kF32 : name == "bf16" ? RowFormat::kBf16 : RowFormat::kFp8;
}

class HeadBenchmark final : public Benchmark {
 public:
  explicit HeadBenchmark(const HeadBenchArgs& args)
      : args_(args),
        one_{.classes = args.classes,
             .dim = args.dim,
             .batch = args.batch,
             .form = {.cosine = args.cosine},
             .margin = {.m2 = args.margin},
             .kept = args.kept,
             .shards = args.shards} {}

  Outcome<BenchReport> run(const GlobalOptions& options) override {
    const runtime::Host host = runtime::detect_host();
    XRUN_TRY(check());
    one_.active = args_.mode == "full" ? 0 : args_.active.value_or(std::max(one_.classes / 10, needed()));
    one_.neighbours = args_.mode == "knn" ? args_.neighbours.value_or(std::min(kNeighbours, one_.classes)) : 0;
    one_.bf16 = args_.dtype == "bf16";
    one_.weights = format_of(args_.weights);
    if (args_.momentum != "none") {
      one_.momentum = format_of(args_.momentum);
    }
    one_.margin.scale = one_.form.cosine ? kCosineScale : 1;
    one_.threads = options.threads > 0 ? options.threads : host.cores;
    one_.rounds = static_cast<int>(args_.rounds);
    XRUN_ASSIGN(const runtime::HeadFigures figures, runtime::measure_head_step(one_));
    return report(figures, host);
  }

 private:
  // The largest number of different classes among the targets of a step; at least this many classes are active.
  int64_t needed() const { return std::min(one_.batch, one_.classes); }

  Status check() const {
    if (args_.mode == "full" && args_.active) {
      return usage("`--active` is the number of active classes, but with --mode full all are active",
                   "add --mode sample");
    }
    XRUN_TRY(check_number("--classes", one_.classes, kMaxClasses, "1M"));
    if (args_.neighbours && args_.mode != "knn") {
      return usage("`--neighbours` is the length of lists, which only --mode knn has", "add --mode knn");
    }
    XRUN_TRY(check_number("--dim", one_.dim, kMaxDim, "128"));
    XRUN_TRY(check_number("--batch", one_.batch, kMaxBatch, "256"));
    if (args_.neighbours) {
      XRUN_TRY(check_number("--neighbours", *args_.neighbours, std::min(kMaxNeighbours, one_.classes),
                            std::to_string(std::min(kNeighbours, one_.classes))));
    }
    if (args_.active) {
      const std::string tenth = std::to_string(std::max(one_.classes / 10, needed()));
      XRUN_TRY(check_number("--active", *args_.active, one_.classes, tenth));
      if (*args_.active < needed()) {
        return usage(
            fmt::format(
                "`--active {}` is too few: a step of {} rows may have targets of {} classes, which must all be active",
                *args_.active, one_.batch, needed()),
            "give that many classes, or a smaller --batch: --active " + tenth);
      }
    }
    XRUN_TRY(check_number("--shards", one_.shards, kMaxShards, "2"));
    XRUN_TRY(check_number("--rounds", args_.rounds, kMaxRounds, "5"));
    if (!(one_.kept >= 0 && one_.kept <= 1)) {
      return usage(fmt::format("`--kept {}` is not a share from 0 to 1", one_.kept), "give such a share: --kept 0.5");
    }
    if (one_.margin.m2 != 0 && !one_.form.cosine) {
      return usage("`--margin` is added to an angle, but these logits are not cosines", "add --cosine");
    }
    if (!(one_.margin.m2 >= 0 && one_.margin.m2 < 3)) {
      return usage(fmt::format("`--margin {}` is not an angle from 0 to 3", one_.margin.m2),
                   "give radians: --margin 0.5");
    }
    return {};
  }

  // Medians over the rounds, and figures computed from them.
  struct Medians {
    Seconds step = 0;
    Seconds least = 0;  // time of the fastest step
    Seconds selection = 0;
    Seconds forward = 0;
    Seconds backward = 0;
    double samples = 0;  // rows per second
    double flops = 0;    // the machine's operations per second; next: its exponentials and its bytes per second
    double exponentials = 0;
    double traffic = 0;
    MachineShare share;
    Bytes beyond = 0;  // peak memory less the weights, states, lists and logits
  };

  Medians medians_of(const runtime::HeadFigures& figures, const runtime::Host& host) const {
    const auto median_of = [&](auto value) {
      std::vector<double> values;
      std::ranges::transform(figures.rounds, std::back_inserter(values), value);
      return median(std::move(values));
    };
    Medians medians;
    medians.step = median_of([](const auto& round) { return round.step(); });
    medians.least = std::ranges::min_element(figures.rounds, {}, &runtime::HeadRound::step)->step();
    medians.selection = median_of([](const auto& round) { return round.selection.wall; });
    medians.forward = median_of([](const auto& round) { return round.forward.wall; });
    medians.backward = median_of([](const auto& round) { return round.backward.wall; });
    medians.samples = static_cast<double>(one_.batch) / medians.step;
    medians.flops = median_of([](const auto& round) { return round.rates.flops.a_second(); });
    medians.exponentials = median_of([](const auto& round) { return round.rates.exponentials.a_second(); });
    medians.traffic = median_of([](const auto& round) { return round.rates.bytes.a_second(); });
    medians.share.share = median_of([&](const auto& round) { return runtime::roofline_share(one_, round); });
    medians.share.processor_share =
        median_of([&](const auto& round) { return runtime::roofline_share_of_processors(one_, round); });
    medians.share.processors =
        median_of([&](const auto& round) { return processors_of(round.rates.flops.time, one_.threads, host.cores); });
    medians.beyond =
        figures.peak - figures.memory.weights - figures.memory.states - figures.memory.lists - figures.memory.logits;
    return medians;
  }

  BenchReport report(const runtime::HeadFigures& figures, const runtime::Host& host) const {
    const Medians medians = medians_of(figures, host);
    BenchReport report{
        .fields = fields_of(figures, medians, host), .json = json_of(figures, medians, host), .notes = {}};
    if (medians.share.is_loaded()) {
      report.notes.push_back(loaded_note(medians.share));
    }
    if (figures.empty_shards > 0) {
      report.notes.push_back(fmt::format(
          "{} of {} shards own no class: {} classes are {} class blocks, and a shard owns whole ones",
          figures.empty_shards, one_.shards, format_count(one_.classes),
          ClassBlocks{one_.classes, class_block(one_.classes, one_.active > 0 ? one_.active : one_.classes)}.count()));
    }
    return report;
  }

  std::vector<BenchReport::Field> fields_of(const runtime::HeadFigures& figures, const Medians& medians,
                                            const runtime::Host& host) const {
    return {
        {"head", fmt::format("{} classes x {}, batch {}, {} products, {} weights, {}{}{}{}, {}, {}",
                             format_count(one_.classes), one_.dim, one_.batch, args_.dtype, args_.weights,
                             args_.momentum == "none" ? "" : args_.momentum + " momentum, ", classes_text(),
                             one_.form.cosine ? ", cosine" : "",
                             one_.margin.m2 != 0 ? fmt::format(", margin {}", one_.margin.m2) : "",
                             counted(one_.shards, "shard"), counted(one_.threads, "thread"))},
        {"step", fmt::format("{} (least {}, {}): {}forward {}, backward and update {}", step_text(medians.step),
                             step_text(medians.least), counted(std::ssize(figures.rounds), "round"),
                             one_.active > 0 ? "selection " + step_text(medians.selection) + ", " : "",
                             step_text(medians.forward), step_text(medians.backward))},
        {"samples/s",
         medians.samples < 100 ? fmt::format("{:.1f}", medians.samples) : format_count(std::llround(medians.samples))},
        {"memory",
         fmt::format(
             "{} at its peak: {} class weights, {} states, {}{} kept logits, {} beyond ({} of them before the head)",
             format_bytes(figures.peak), format_bytes(figures.memory.weights), format_bytes(figures.memory.states),
             figures.memory.lists > 0 ? format_bytes(figures.memory.lists) + " lists, " : "",
             format_bytes(figures.memory.logits), format_bytes(medians.beyond), format_bytes(figures.before))},
        {"roofline",
         share_text(medians.share, fmt::format("{:.1f} GFLOP/s ({}), {:.2f} billion exponentials/s and {:.1f} GB/s",
                                               medians.flops / 1e9, figures.instruction, medians.exponentials / 1e9,
                                               medians.traffic / 1e9))},
        {"machine", machine_name(host, ops::name_of(figures.isa))},
    };
  }

  nlohmann::ordered_json json_of(const runtime::HeadFigures& figures, const Medians& medians,
                                 const runtime::Host& host) const {
    std::vector<double> steps;
    std::ranges::transform(figures.rounds, std::back_inserter(steps), &runtime::HeadRound::step);
    return {{"v", 1},
            {"benchmark", "head"},
            {"mode", args_.mode},
            {"classes", one_.classes},
            {"active", one_.active > 0 ? one_.active : one_.classes},
            {"neighbours", one_.neighbours},
            {"dim", one_.dim},
            {"batch", one_.batch},
            {"dtype", args_.dtype},
            {"weights", args_.weights},
            {"momentum", args_.momentum},
            {"cosine", one_.form.cosine},
            {"margin", one_.margin.m2},
            {"kept", one_.kept},
            {"shards", one_.shards},
            {"empty_shards", figures.empty_shards},
            {"threads", one_.threads},
            {"cpu", host.cpu},
            {"isa", ops::name_of(figures.isa)},
            {"median_s", medians.step},
            {"min_s", medians.least},
            {"selection_s", medians.selection},
            {"forward_s", medians.forward},
            {"backward_s", medians.backward},
            {"step_s", steps},
            {"samples_per_s", medians.samples},
            {"first_loss", figures.first_loss},
            {"last_loss", figures.last_loss},
            {"peak_bytes", figures.peak},
            {"before_bytes", figures.before},
            {"weights_bytes", figures.memory.weights},
            {"states_bytes", figures.memory.states},
            {"lists_bytes", figures.memory.lists},
            {"logits_bytes", figures.memory.logits},
            {"buffers_bytes", figures.memory.buffers},
            {"beyond_bytes", medians.beyond},
            {"roofline", roofline_of(figures, medians)}};
  }

  nlohmann::ordered_json roofline_of(const runtime::HeadFigures& figures, const Medians& medians) const {
    return {{"share", medians.share.share},
            {"processor_share", medians.share.processor_share},
            {"processors", medians.share.processors},
            {"loaded", medians.share.is_loaded()},
            {"flops_per_s", medians.flops},
            {"exponentials_per_s", medians.exponentials},
            {"bytes_per_s", medians.traffic},
            {"instruction", figures.instruction},
            {"flops", runtime::head_step_flops(one_)},
            {"exponentials", runtime::head_step_exponentials(one_)},
            {"bytes", runtime::head_step_traffic(one_)}};
  }

  std::string classes_text() const {
    if (args_.mode == "full") {
      return args_.mode;
    }
    return format_count(one_.active) +
           (args_.mode == "sample" ? " of them sampled" : fmt::format(" of them by lists of {}", one_.neighbours));
  }

  HeadBenchArgs args_;
  runtime::HeadCase one_;
};

}  // namespace

std::unique_ptr<Benchmark> make_head_benchmark(const HeadBenchArgs& args) {
  return std::make_unique<HeadBenchmark>(args);
}

}  // namespace xrun::cli
