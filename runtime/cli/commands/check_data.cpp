#include "runtime/cli/commands/check_data.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "graph/base/utf8.h"
#include "runtime/cli/model/planned.h"
#include "runtime/cli/model/trained_model.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/data/loader.h"
#include "runtime/data/sample_rows.h"
#include "runtime/train/clock/large_batch.h"

namespace xrun::cli {
namespace {

// If a source has more samples than this, at least this many and fewer than twice as many of them are decoded, evenly
// spaced.
constexpr int64_t kLooks = 1000;
// Decoding of a source stops after this many broken samples.
constexpr size_t kMostBroken = 20;
constexpr std::string_view kTrained = "train";

// The findings about a source.
struct Findings {
  std::string holds;
  int64_t samples = 0;
  int64_t stride = 1;  // every sample whose number is a multiple of this was decoded
  int64_t decoded = 0;
  std::vector<Error> broken;
  std::vector<Error> warnings;
  std::vector<runtime::LabelCount> labels;  // for each label that samples may lack: its count in the decoded samples
};

// The classes, means and deviations of the source `train`, which other sources are compared with or use.
struct Trained {
  runtime::ClassTables classes;
  runtime::InputScales scales;
};

// Decodes samples of a source. Faults of samples become findings; a fault of the source is an error. `trained` is set
// by the call for the source `train`, and read by later calls.
Result<Findings> look_into(const Module& module, const SourceSpec& source, Trained& trained) {
  const auto measured = measured_sources(module);
  const bool is_measured = std::ranges::find(measured, source.name) != measured.end();
  const std::vector<std::string> needed = inputs_of_measures(module, source.name);
  XRUN_ASSIGN(auto rows, runtime::SampleRows::open(module.data, source.name, module.graph, nullptr,
                                                   is_measured && source.name != kTrained ? &needed : nullptr));
  XRUN_TRY(check_measures(*rows, module));
  if (source.name == kTrained) {
    trained.classes = rows->classes();
    XRUN_TRY(use_classes(*rows, module, trained.classes));
  }
  if (is_measured) {
    XRUN_TRY(rows->number_by(trained.classes));
  }
  Findings found{.holds = rows->reader().describe(), .samples = rows->samples(), .warnings = rows->warnings()};
  // A source is measured by itself if `train` could not be opened.
  XRUN_ASSIGN(auto scales, rows->settle_scales(trained.scales, found.warnings));
  if (source.name == kTrained) {
    trained.scales = std::move(scales);
  }
  if (source.name == kTrained) {
    std::ranges::move(rows->spare_classes(), std::back_inserter(found.warnings));
  }
  if (source.name == kTrained && !module.train.name.empty()) {
    if (auto large = runtime::warn_of_large_batch(module.train, found.samples)) {
      found.warnings.push_back(std::move(*large));
    }
  }
  found.stride = std::max<int64_t>(1, found.samples / kLooks);
  // Memory for one row of every input.
  std::vector<std::vector<std::byte>> memory;
  runtime::BatchView view;
  for (const NamedValue& input : module.graph.inputs) {
    memory.emplace_back(static_cast<size_t>(module.graph.value(input.value).type.bytes(1, 1)));
    view.inputs.push_back(memory.back().data());
  }
  runtime::AugmentScratch scratch;
  std::vector<runtime::RowLabel> labels(rows->partial_labels().size());
  for (const runtime::PartialLabel& label : rows->partial_labels()) {
    found.labels.push_back({.input = label.input, .positions = label.positions > 1});
  }
  for (int64_t sample = 0; sample < found.samples && found.broken.size() < kMostBroken; sample += found.stride) {
    ++found.decoded;
    if (Status done = rows->fill(sample, {}, scratch, view, 0, labels); !done.ok()) {
      if (done.error().kind != ErrorKind::kContent) {
        return std::move(done).error();
      }
      found.broken.push_back(std::move(done).error());
      continue;
    }
    for (size_t i = 0; i < labels.size(); ++i) {
      found.labels[i].labels += labels[i].labels;
      found.labels[i].all += rows->partial_labels()[i].positions;
    }
  }
  // Tables are counted completely, since their cells are in memory.
  if (auto broken = rows->broken_cells(); broken && found.decoded < found.samples) {
    found.warnings.push_back(std::move(*broken));
  }
  if (auto cut = rows->cut_texts()) {
    found.warnings.push_back(std::move(*cut));
  }
  return found;
}

std::string_view ordinal_ending(int64_t n) {
  constexpr std::string_view kEndings[] = {"th", "st", "nd", "rd"};
  return n % 100 / 10 == 1 || n % 10 > 3 ? kEndings[0] : kEndings[n % 10];
}

// "1 015 of 24 345 samples decoded (every 24th)".
std::string decoded_text(const Findings& found) {
  std::string text = found.decoded == found.samples
                         ? fmt::format("{} decoded", counted(found.decoded, "sample"))
                         : fmt::format("{} decoded", counted_of(found.decoded, found.samples, "sample"));
  text += found.stride > 1 ? fmt::format(" (every {}{})", found.stride, ordinal_ending(found.stride)) : "";
  if (!found.broken.empty()) {
    text +=
        fmt::format(", {} broken{}", found.broken.size(),
                    found.broken.size() == kMostBroken ? ": the check of the source stopped at the last of these" : "");
  }
  for (const runtime::LabelCount& label : found.labels) {
    text += fmt::format("; {} of {} {} have a `{}`", format_count(label.labels), format_count(label.all),
                        label.positions ? "positions" : "rows", label.input);
  }
  return text;
}

std::string line_of(const SourceSpec& source, const Findings& found, bool json) {
  if (json) {
    nlohmann::ordered_json line{{"v", 1},
                                {"source", source.name},
                                {"holds", found.holds},
                                {"samples", found.samples},
                                {"decoded", found.decoded},
                                {"every", found.stride},
                                {"broken", found.broken.size()}};
    for (const runtime::LabelCount& label : found.labels) {
      line["labelled"][label.input] = {{"labels", label.labels}, {"of", label.all}};
    }
    return json_line(line);
  }
  return fmt::format("  {:<5}{:<10} {}   {}\n", found.broken.empty() ? "ok" : "bad", source.name,
                     printable_line(found.holds), decoded_text(found));
}

}  // namespace

int check_data(const LoadedModel& model, const Console& console) {
  const Module& module = model.file.module;
  int exit = 0;
  if (const Status init = check_init(model.file); !init.ok()) {
    exit = console.fail(Failure(init.error(), model.sources));
  }
  // `train` comes first, since other sources are compared with its classes.
  std::vector<const SourceSpec*> sources;
  for (const SourceSpec& source : module.data.sources) {
    sources.insert(source.name == kTrained ? sources.begin() : sources.end(), &source);
  }
  Trained trained;
  for (const SourceSpec* source : sources) {
    const auto found = look_into(module, *source, trained);
    if (!found.ok()) {
      const int code = console.fail(Failure(found.error(), model.sources));
      exit = exit == 0 ? code : exit;
      continue;
    }
    for (const Error& fault : found->broken) {
      exit = std::max(exit, console.fail(Failure(fault, model.sources)));
    }
    console.report(as_warnings(found->warnings), model.sources);
    console.out(line_of(*source, *found, console.json()));
  }
  return exit;
}

}  // namespace xrun::cli
