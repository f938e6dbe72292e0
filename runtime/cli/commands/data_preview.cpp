#include "runtime/cli/commands/data_preview.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "graph/os/durable.h"
#include "graph/settings/pair_fields.h"
#include "runtime/cli/model/load.h"
#include "runtime/cli/preview/contact_sheet.h"
#include "runtime/cli/preview/display.h"
#include "runtime/cli/preview/mixed_cell.h"
#include "runtime/cli/sources/row_range.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/data/loader.h"
#include "runtime/data/sample_rows.h"
#include "runtime/formats/pictures/png.h"

namespace xrun::cli {
namespace {

constexpr std::string_view kTrained = "train";
constexpr int64_t kMostPicks = 1024;  // pictures of a sheet
constexpr FileKind kPng = {.name = "PNG picture", .code = "XG0901", .offset = 0, .magic = "\x89PNG\r\n\x1a\n"};

// One cell of the sheet: a sample, and the sample that it is mixed with if a stage mixes samples.
struct Pick {
  runtime::DrawnSample own;
  runtime::DrawnSample partner;
  int64_t draw = 0;  // 0 to --each minus 1
};

// The result of reading a pick.
struct Shown {
  std::string name;
  std::optional<int64_t> number;  // the class; nullopt: the sample has no label
  std::string label;              // its name or number; of a mixed sample, those of both classes
  std::optional<MixedCell> mixed;
  ShownPicture picture;
  std::optional<Error> fault;  // the sample is broken
};

// The samples of a source, and how they are shown.
struct Subject {
  std::unique_ptr<runtime::SampleRows> rows;
  std::vector<int32_t> classes;    // the class of each sample, for a balanced order
  size_t input = 0;                // position of the pictures in Graph::inputs
  std::optional<size_t> label;     // position of the first label
  std::vector<std::string> names;  // names of its classes; empty: numbers
  bool training = true;
  std::optional<Display> display;
};

// Returns the position of the input to draw. Errors: XG0906.
Result<size_t> input_of(const Graph& graph, const std::string& wanted) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const TensorType& type = graph.value(graph.inputs[i].value).type;
    if (type.rank() == 4 && (wanted.empty() || graph.inputs[i].name == wanted)) {
      return i;
    }
  }
  return wanted.empty()
             ? usage_error("XG0906", "the model has no input with pictures [N, C, H, W], so there is nothing to draw",
                           "`xrun check --data FILE` reads samples of any kind")
             : usage_error("XG0906", {"the model has no input `{}` with pictures [N, C, H, W]", wanted},
                           "name an input of that kind, or leave `--input` out");
}

// The names of the classes of an input; empty for numbers.
std::vector<std::string> class_names(const runtime::ClassTables& tables, const std::string& input) {
  const runtime::ClassTable* table = runtime::find_table(tables, input);
  return table != nullptr && table->named ? table->names : std::vector<std::string>();
}

// Opens the source with the classes of training. Errors: those of SampleRows::open, XG0906.
Result<Subject> open_subject(const Module& module, const PreviewArgs& args) {
  Subject subject;
  const Graph& graph = module.graph;
  XRUN_ASSIGN(subject.input, input_of(graph, args.input));
  const bool pairs = has_pairs(module.data, args.source);
  const std::vector<std::string> picture{graph.inputs[subject.input].name};  // pairs have no labels
  XRUN_ASSIGN(subject.rows,
              runtime::SampleRows::open(module.data, args.source, graph, nullptr, pairs ? &picture : nullptr));
  const bool is_trained = args.source == kTrained;
  subject.training = is_trained && !args.no_augment;
  runtime::ClassTables classes = subject.rows->classes();
  const auto measured = measured_sources(module);
  runtime::InputScales scales;
  std::vector<Error> unvaried;  // columns of one value, which `train` reports
  if (is_trained) {
    XRUN_ASSIGN(subject.classes, use_classes(*subject.rows, module, classes));
  } else if (std::ranges::find(measured, args.source) != measured.end()) {
    XRUN_ASSIGN(const auto trained, runtime::SampleRows::open(module.data, kTrained, graph));
    classes = trained->classes();
    XRUN_TRY(subject.rows->number_by(classes));
    XRUN_ASSIGN(scales, trained->settle_scales({}, unvaried));
  }
  XRUN_ASSIGN(scales, subject.rows->settle_scales(scales, unvaried));
  for (size_t i = 0; i < graph.inputs.size() && !subject.label && !pairs; ++i) {
    const TensorType& type = graph.value(graph.inputs[i].value).type;
    if (type.classes > 0 && type.rank() == 1) {
      subject.label = i;
      subject.names = class_names(classes, graph.inputs[i].name);
    }
  }
  const std::string& input = graph.inputs[subject.input].name;
  const auto bound = std::ranges::find(module.data.bindings, input, &DataBinding::target);
  const DataBinding binding =
      bound != module.data.bindings.end() ? *bound : DataBinding{.target = input, .field = input, .stages = {}};
  const runtime::Reader& reader = subject.rows->reader();
  const Field& field = reader.fields()[static_cast<size_t>(bound_field(reader.fields(), binding))];
  subject.display.emplace(binding, field, graph.value(graph.inputs[subject.input].value).type);
  return subject;
}

// Chooses the samples. Errors: XG0902.
Result<std::vector<Pick>> picks_of(const Module& module, const Subject& subject, const PreviewArgs& args) {
  const int64_t samples = subject.rows->samples();
  const bool is_trained = args.source == kTrained;
  const uint64_t seed = args.seed >= 0 ? static_cast<uint64_t>(args.seed) : module.train.seed;
  std::vector<Chosen> chosen;
  if (!args.rows.empty() || !is_trained) {
    XRUN_ASSIGN(const RowRange range, parse_rows(args.rows, samples));
    const int64_t end = args.rows.empty() ? std::min(range.end, range.begin + args.samples) : range.end;
    const std::vector<int64_t> listing = subject.rows->reader().listing();
    for (int64_t row = range.begin; row < std::min(end, range.begin + kMostPicks); ++row) {
      chosen.push_back({listing.empty() ? row : listing[static_cast<size_t>(row)], args.epoch - 1});
    }
    mix_in_order(chosen);
  } else {
    const runtime::SampleSequence order(module.train.order, samples, seed, subject.classes);
    const int64_t batch = module.train.unit() > 0 ? module.train.unit() : samples;
    for (int64_t i = 0; i < std::min(args.samples, samples); ++i) {
      const int64_t position = (args.epoch - 1) * samples + i;
      const int64_t row = position % batch;
      const runtime::SamplePlace place = order.at(position);
      const runtime::SamplePlace partner = order.at(position - row + runtime::partner_row(row, batch));
      chosen.push_back({place.sample, place.pass, partner.sample, partner.pass});
    }
  }
  std::vector<Pick> picks;
  const auto drawn = [&](int64_t sample, int64_t pass) {
    return runtime::DrawnSample{sample,
                                {seed, static_cast<uint64_t>(pass), static_cast<uint64_t>(sample), subject.training}};
  };
  for (const Chosen& one : chosen) {
    for (int64_t draw = 0; draw < args.each; ++draw) {
      picks.push_back({drawn(one.sample, one.pass + draw), drawn(one.partner, one.partner_pass + draw), draw});
    }
  }
  return picks;
}

// Reads the row of a pick into the memory of `view`, and mixes it as a training does.
Status read_pick(const Subject& subject, const Pick& pick, runtime::AugmentScratch& scratch,
                 const runtime::BatchView& view, Shown& shown) {
  XRUN_TRY(subject.rows->fill(pick.own.number, pick.own.key, scratch, view, 0));
  if (subject.rows->mixes()) {
    XRUN_ASSIGN(const runtime::Mix mix, subject.rows->mix(pick.own, pick.partner, scratch, view, 0));
    const std::string partner = subject.rows->reader().sample_name(pick.partner.number);
    shown.mixed = mixed_cell(mix, pick.partner.number, partner);
  }
  return {};
}

// Reads the rows of the picks. Errors other than broken samples end the command.
Result<std::vector<Shown>> read_picks(const Graph& graph, const Subject& subject, const std::vector<Pick>& picks) {
  std::vector<std::vector<std::byte>> memory;
  runtime::BatchView view;
  for (const NamedValue& input : graph.inputs) {
    memory.emplace_back(static_cast<size_t>(graph.value(input.value).type.bytes(1, 1)));
    view.inputs.push_back(memory.back().data());
  }
  const auto name_of = [&](const std::optional<int64_t>& number) {
    const bool named = number && *number < std::ssize(subject.names);
    return !number ? "no label" : named ? subject.names[static_cast<size_t>(*number)] : fmt::format("{}", *number);
  };
  runtime::AugmentScratch scratch;
  std::vector<Shown> shown;
  for (const Pick& pick : picks) {
    Shown one{.name = subject.rows->reader().sample_name(pick.own.number)};
    Status done = read_pick(subject, pick, scratch, view, one);
    if (!done.ok()) {
      if (!runtime::is_broken_sample(done.error())) {
        return std::move(done).error();
      }
      one.fault = std::move(done).error();
      one.label = "broken";
      shown.push_back(std::move(one));
      continue;
    }
    if (subject.label) {
      one.number = class_at(graph, *subject.label, memory);
      one.label = name_of(one.number);
      const size_t partner = partner_of(graph, *subject.label);
      if (one.mixed && partner < memory.size()) {
        one.mixed->number = class_at(graph, partner, memory);
        one.mixed->label = name_of(one.mixed->number);
        one.label = both_labels(one.label, *one.mixed);
      }
    }
    one.picture = subject.display->show(memory[subject.input].data());
    shown.push_back(std::move(one));
  }
  return shown;
}

// The columns of the sheet: about eight, or sixteen of many cells; the draws of a sample are in one row.
int columns_of(size_t cells, int64_t each) {
  constexpr int64_t kFew = 64;
  const auto all = static_cast<int64_t>(cells);
  const int64_t wanted = all > kFew ? 16 : 8;
  return static_cast<int>(std::min(all, each > 1 ? each * std::max<int64_t>(1, wanted / each) : wanted));
}

// Prints a line for each sample, or with --format json an object for each cell.
void print_samples(const Console& console, const std::vector<Pick>& picks, const std::vector<Shown>& shown) {
  size_t widest = 0;
  for (const Shown& one : shown) {
    widest = std::max(widest, std::min<size_t>(one.label.size(), 40));
  }
  for (size_t i = 0; i < shown.size(); ++i) {
    const Shown& one = shown[i];
    if (console.json()) {
      nlohmann::ordered_json line{
          {"v", 1}, {"cell", i + 1}, {"sample", picks[i].own.number}, {"name", well_formed(one.name)}};
      line["draw"] = picks[i].draw;
      line["class"] = one.number ? nlohmann::ordered_json(*one.number) : nlohmann::ordered_json();
      line["label"] = well_formed(one.label);
      if (one.mixed) {
        line["mixed"] = json_of(*one.mixed);
      }
      if (one.fault) {
        line["fault"] = well_formed(one.fault->message);
      }
      console.out(json_line(line));
    } else if (picks[i].draw == 0) {
      const std::string with = one.mixed ? " + " + one.mixed->name : "";
      console.out(fmt::format("  {:>4}  {:<{}}  {}\n", i + 1, printable_line(one.label), widest,
                              printable_line(one.name + with)));
    }
  }
}

// Prints where the sheet is, and its size.
void print_sheet(const Console& console, const Module& module, const PreviewArgs& args, const Subject& subject,
                 const ShownPicture& sheet, size_t cells) {
  const auto generated = synthetic_sources(module.data);
  const bool is_synthetic = std::ranges::find(generated, args.source) != generated.end();
  if (console.json()) {
    nlohmann::ordered_json line{{"v", 1},
                                {"output", args.output},
                                {"source", args.source},
                                {"cells", cells},
                                {"width", sheet.width},
                                {"height", sheet.height},
                                {"augmented", subject.training},
                                {"stretched", subject.display->is_stretched()},
                                {"synthetic", is_synthetic}};
    console.out(json_line(line));
    return;
  }
  console.out(fmt::format("  wrote {}   {} of source `{}`{}, {} x {} pixels{}\n", printable_line(args.output),
                          counted(static_cast<int64_t>(cells), "picture"), printable_line(args.source),
                          is_synthetic ? " (generated data)" : "", sheet.width, sheet.height,
                          subject.training ? "" : ", not augmented"));
  if (subject.display->is_stretched()) {
    console.note(
        "note: pixels are shown from the smallest to the largest value of each picture, since their range is "
        "unknown\n");
  }
}

}  // namespace

Outcome<int> run_data_preview(const GlobalOptions& options, const PreviewArgs& args) {
  const Console console(options);
  XRUN_ASSIGN(const LoadedModel model, load_model(args.file, options, console, false));
  Module module = model.file.module;
  add_mixed_inputs(module.graph, module.data);
  if (module.data.sources.empty()) {
    return usage_error("XG0906", {"{} has no `data`, so there are no samples to draw", args.file},
                       "name a file with `data`");
  }
  const auto at_source = [&](Error error) { return Failure(std::move(error), model.sources); };
  XRUN_TRY(check_place(args.output, kPng));
  auto subject = open_subject(module, args);
  if (!subject.ok()) {
    return at_source(std::move(subject).error());
  }
  console.report(as_warnings(subject->rows->warnings()), model.sources);
  XRUN_ASSIGN(const std::vector<Pick> picks, picks_of(module, *subject, args));
  if (std::ssize(picks) > kMostPicks) {
    return usage_error("XG0906", {"a sheet has at most {} pictures, but {} are asked for", kMostPicks, picks.size()},
                       "ask for fewer: --samples, --rows, --each");
  }
  auto shown = read_picks(module.graph, *subject, picks);
  if (!shown.ok()) {
    return at_source(std::move(shown).error());
  }
  std::vector<Error> faults;
  std::vector<SheetCell> cells;
  for (Shown& one : *shown) {
    if (one.fault) {
      faults.push_back(*one.fault);
    }
    cells.push_back({std::move(one.picture), one.label});
  }
  if (faults.size() == cells.size()) {
    return at_source(std::move(faults[0]));
  }
  console.report(as_warnings(faults), model.sources);
  const ShownPicture sheet = draw_sheet(cells, columns_of(cells.size(), args.each));
  XRUN_ASSIGN(const std::vector<std::byte> file, runtime::encode_png(sheet.pixels, sheet.height, sheet.width));
  const std::span<const std::byte> bytes(file);
  XRUN_TRY(replace_file(args.output, std::span(&bytes, 1), kPng));
  print_samples(console, picks, *shown);
  print_sheet(console, module, args, *subject, sheet, cells.size());
  return 0;
}

void add_preview_flags(CLI::App& command, PreviewArgs& args) {
  command.add_option("file", args.file, "model file")->required()->type_name("FILE");
  command.add_option("-o,--output", args.output, "the PNG file to write (default: samples.png)")->type_name("FILE");
  command.add_option("--source", args.source, "the source (default: train); others are not augmented")
      ->type_name("NAME");
  command.add_option("--samples", args.samples, "number of samples (32)")->check(CLI::Range(int64_t{1}, kMostPicks));
  command.add_option("--rows", args.rows, "show the samples a..b of the source instead of the first ones of the epoch")
      ->type_name("A..B");
  command.add_option("--each", args.each, "show each sample N times, as in the epochs that follow")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  command.add_option("--epoch", args.epoch, "the epoch, whose order and random draws are shown (1)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command.add_option("--seed", args.seed, "another seed than that of `train`")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 62));
  command.add_option("--input", args.input, "the input of the model to show (default: the first one with pictures)")
      ->type_name("NAME");
  command.add_flag("--no-augment", args.no_augment, "show the samples of `train` as an evaluation reads them");
}

}  // namespace xrun::cli
