// The tables in docs/reference/calls_and_settings.md list everything that can be called. They must agree with the
// registries, and their examples must pass the check.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <map>

#include "graph/settings/gpu_def.h"
#include "graph/settings/reader_def.h"
#include "lang/frontend.h"
#include "lang/lower/curves.h"
#include "lang/lower/setting_def.h"
#include "lang/text/std_library.h"
#include "ops/op.h"
#include "tests/support/golden.h"

namespace xrun {
namespace {

constexpr std::string_view kDocument = "docs/reference/calls_and_settings.md";

struct Row {
  std::string call;   // "conv(x: [N, C, H, W], width: int)"
  std::string gives;  // fields that a reader gives
  std::string doc;
  std::string example;
  Availability availability = Availability::kReady;
};

template <class Def>
Row row_of(const Def& def) {
  std::string doc(def.doc);
  if constexpr (requires { def.bounds; }) {
    doc += def.bounds.empty() ? "" : fmt::format("; {}", def.bounds);
  }
  Row row{.call = fmt::format("{}{}", def.name, def.signature),
          .gives = "",
          .doc = std::move(doc),
          .example = std::string(def.example)};
  if constexpr (requires { def.availability; }) {
    row.availability = def.availability;
  }
  return row;
}

// Returns the fields of a reader. Their names do not depend on the arguments; these are arguments that every reader
// accepts.
std::string fields_of(const ReaderDef& reader) {
  const Attrs arguments{{"fonts", std::vector<std::string>{"uming"}},
                        {"chars", std::vector<int64_t>{0, 2}},
                        {"size", int64_t{32}},
                        {"em", int64_t{26}},
                        {"shape", std::vector<int64_t>{64}},
                        {"classes", int64_t{2}},
                        {"samples", int64_t{2}},
                        {"dim", int64_t{4}},
                        {"noise", 0.5},
                        {"delimiter", std::string(",")},
                        {"labels", std::vector<std::string>{"labels.npy"}},
                        {"layout", std::string("row")}};
  const auto fields = reader.fields(arguments);
  EXPECT_TRUE(fields.ok()) << reader.name;
  std::vector<std::string> names;
  for (const Field& field : fields.ok() ? *fields : std::vector<Field>{}) {
    names.push_back(fmt::format("`{}`{}", field.name, field.encoded ? " (encoded)" : ""));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns the blocks, functions and optimizers of a file of the standard library, each with the `##` lines before it.
std::vector<Row> declarations_of(std::string_view file) {
  std::vector<Row> rows;
  std::string doc;
  std::string head;  // header of the block, up to its brace
  const std::string_view text = lang::std_source(file).value_or("");
  EXPECT_FALSE(text.empty()) << file;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("## ")) {
      doc += (doc.empty() ? "" : " ") + std::string(line.substr(3));
    } else if (line.starts_with("block ") || line.starts_with("pointwise ") || line.starts_with("optimizer ") ||
               !head.empty()) {
      // The lines of a header are joined into one line, without spaces or commas next to its brackets.
      const std::string_view part = line.substr(std::min(line.find_first_not_of(' '), line.size()));
      if (part.starts_with(')') && head.ends_with(',')) {
        head.pop_back();
      } else if (!head.empty() && !head.ends_with('(')) {
        head += ' ';
      }
      head += part;
      const size_t body = line.starts_with("pointwise ") ? head.find(") =") + 1 : head.rfind(" {");
      if (body != std::string::npos) {
        const size_t name = head.find(' ') + 1;
        rows.push_back({.call = head.substr(name, body - name), .gives = "", .doc = doc, .example = ""});
        head.clear();
        doc.clear();
      }
    } else {
      doc.clear();
    }
  }
  return rows;
}

// Returns the rows of all tables of calls, by the name of the table in the document.
std::map<std::string, std::vector<Row>> all_calls() {
  std::map<std::string, std::vector<Row>> tables;
  for (const ops::Op* op : ops::catalog()) {
    if (op->def.is_word()) {
      tables[std::string(op->def.group)].push_back(row_of(op->def));
    }
  }
  for (const ReaderDef* reader : data_registry().readers) {
    tables["readers"].push_back(row_of(*reader));
    tables["readers"].back().gives = fields_of(*reader);
  }
  for (const AugmentDef* stage : data_registry().augments) {
    tables["stages"].push_back(row_of(*stage));
  }
  for (const lang::CurveKind& curve : lang::curve_kinds()) {
    tables["curves"].push_back({.call = fmt::format("{}{}", curve.name, curve.signature),
                                .gives = "",
                                .doc = std::string(curve.doc),
                                .example = std::string(curve.example)});
  }
  for (const std::string file : {"std/vision", "std/nets", "std/pointwise", "std/optimizers"}) {
    tables[file] = declarations_of(file);
  }
  for (auto& [name, rows] : tables) {
    std::stable_partition(rows.begin(), rows.end(),
                          [](const Row& row) { return row.availability == Availability::kReady; });
  }
  return tables;
}

// Returns the table of settings for a kind of declaration. It has other columns than the tables of calls.
std::string settings_table(lang::DeclKind kind) {
  std::string text = "| setting | takes | default | what it is |\n|---|---|---|---|\n";
  for (const lang::SettingDef& def : lang::all_settings()) {
    if (def.kind == kind) {
      EXPECT_EQ((def.path() + fmt::format("{}{}{}", def.type, def.fallback, def.doc)).find_first_of("|\n"),
                std::string::npos)
          << def.path();
      EXPECT_FALSE(def.doc.empty()) << def.path();
      const std::string bounds = def.type.ends_with("size")             ? fmt::format(", {}B to 1_000_000TiB", def.low)
                                 : def.low == 0 && std::isinf(def.high) ? ""
                                 : std::isinf(def.high)                 ? fmt::format(", from {}", def.low)
                                                                        : fmt::format(", {} to {}", def.low, def.high);
      text += fmt::format("| `{}` | `{}`{} | {} | {}{} |\n", def.path(), def.type, bounds, def.fallback,
                          def.later ? "**not yet:** " : "", def.doc);
    }
  }
  return text;
}

// Returns the table of the catalogue of accelerators.
std::string accelerators_table() {
  std::string text =
      "| `gpu` | memory | bandwidth | f32 | bf16 | between two devices | from the host "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const GpuDef& gpu : gpu_defs()) {
    text += fmt::format("| `{}` | {:.0f} GB | {:.0f} GB/s | {:g} TFLOPS | {:g} TFLOPS | {:g} GB/s, {} | {:g} GB/s |\n",
                        gpu.name, static_cast<double>(gpu.memory) / 1e9, gpu.bytes_per_second / 1e9,
                        gpu.flops_per_second_f32 / 1e12, gpu.flops_per_second_bf16 / 1e12, gpu.link_rate / 1e9,
                        link_of_gpu(gpu.name), gpu.host_rate / 1e9);
  }
  return text;
}

// Writes a table. Columns that are empty in every row are left out.
std::string markdown(const std::vector<Row>& rows) {
  const auto any = [&](std::string Row::*cell) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return !(row.*cell).empty(); });
  };
  const bool gives = any(&Row::gives);
  const bool example = any(&Row::example);
  std::string text = fmt::format("| call | what it does |{}{}\n|---|---|{}{}\n", gives ? " fields |" : "",
                                 example ? " example |" : "", gives ? "---|" : "", example ? "---|" : "");
  for (const Row& row : rows) {
    EXPECT_EQ((row.call + row.gives + row.doc + row.example).find_first_of("|\n"), std::string::npos) << row.call;
    EXPECT_FALSE(row.doc.empty()) << row.call;
    text += fmt::format("| `{}` | {}{} |", row.call, row.availability == Availability::kReady ? "" : "**not yet:** ",
                        row.doc);
    text += gives ? fmt::format(" {} |", row.gives) : "";
    text += example ? fmt::format(" `{}` |", row.example) : "";
    text += "\n";
  }
  return text;
}

// Returns all tables by their name in the document.
std::map<std::string, std::string> all_tables() {
  std::map<std::string, std::string> tables;
  for (const auto& [name, rows] : all_calls()) {
    tables[name] = markdown(rows);
  }
  for (const lang::DeclKind kind :
       {lang::DeclKind::kData, lang::DeclKind::kTrain, lang::DeclKind::kCluster, lang::DeclKind::kSchedule}) {
    tables[fmt::format("settings of {}", lang::keyword_of(kind))] = settings_table(kind);
  }
  tables["accelerators"] = accelerators_table();
  return tables;
}

// Returns the document with its tables replaced: the lines from `<!-- table: NAME -->` to the next empty line.
std::string with_tables(const std::string& document, std::map<std::string, std::string> tables) {
  constexpr std::string_view kOpen = "<!-- table: ";
  constexpr std::string_view kClose = " -->\n";
  std::string text;
  size_t from = 0;
  for (size_t at = document.find(kOpen); at != std::string::npos; at = document.find(kOpen, from)) {
    const size_t close = document.find(kClose, at);
    const std::string name = document.substr(at + kOpen.size(), close - at - kOpen.size());
    const auto table = tables.extract(name);
    EXPECT_FALSE(table.empty()) << "the registries have no table `" << name << "`, or it stands there twice";
    text += document.substr(from, close + kClose.size() - from);
    text += table.empty() ? "" : table.mapped();
    from = std::min(document.find("\n\n", close) + 1, document.size());
  }
  for (const auto& [name, text_of_table] : tables) {
    ADD_FAILURE() << kDocument << " has no place for the table `" << name << "`: put the line\n"
                  << kOpen << name << kClose << "and an empty one after it where the table belongs";
  }
  return text + document.substr(from);
}

TEST(Reference, TablesOfTheDocumentMatchTheRegistries) {
  const std::string document = test::read_source_file(std::string(kDocument));
  EXPECT_TRUE(test::matches_golden(with_tables(document, all_tables()), fmt::format("../../{}", kDocument)));
}

TEST(Reference, OnlyOperatorsThatPassesInsertAreInternal) {
  std::vector<std::string_view> left_out;
  for (const OpDef* op : ops::registry().all()) {
    if (op->internal) {
      left_out.push_back(op->name);
    }
    EXPECT_EQ(op->is_word(), !op->example.empty()) << op->name << " needs an example if the language knows it";
  }
  EXPECT_EQ(left_out, (std::vector<std::string_view>{"cast", "fill", "map", "reorder"}));
}

// ---- examples --------------------------------------------------------------------------------------------------

// Returns the faults of a file. Empty if it passes the check and needs no feature of a later version.
std::string faults_of(const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const auto file =
      lang::check_text("example.xgraph", "xgraph 1\n" + text, sources, diagnostics, {.ops = &ops::registry()});
  std::string faults;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    faults += diagnostic.severity == Severity::kError ? render(diagnostic, sources) : "";
  }
  for (const Diagnostic& diagnostic : file ? file->module.not_yet : std::vector<Diagnostic>{}) {
    faults += render(diagnostic, sources);
  }
  return faults;
}

// Returns the faults in the text that suits the example best. Empty if the example is valid in any of the texts.
std::string faults_of_best(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    const std::string faults = faults_of(text);
    if (faults.empty()) {
      return {};
    }
    all += faults;
  }
  return all;
}

// Returns models with a picture, a sequence, a row and indices, under each of the names that examples use.
std::vector<std::string> models_with(std::string_view example) {
  std::vector<std::string> texts;
  for (const std::string_view type : {"f32[N, 64, 32, 32]", "f32[N, 96, 96]", "f32[N, 64]", "index(10)[N, 8]"}) {
    for (const std::string_view way : {"x -> {}", "{}", "head", "parts"}) {
      const bool head = way == "head";
      const bool parts = way == "parts";  // a tuple of two
      const std::string call = head    ? std::string(example)
                               : parts ? fmt::format("x -> {}", example)
                                       : fmt::format(fmt::runtime(way), example);
      texts.push_back(
          fmt::format("model m {{\n  input x: {}\n  y = x\n  a = x\n  b = x\n  c = x\n  logits = x\n"
                      "  feature = x\n  {} = {}\n  output {}\n}}\n",
                      type,
                      head    ? "head id"
                      : parts ? "(made, rest)"
                              : "made",
                      call, head ? "feature" : "made"));
    }
  }
  texts.push_back(
      fmt::format("model m {{\n  input x: f32[N, 64]\n  head id = classifier(x, 10)\n  made = {}\n"
                  "  output made\n}}\n",
                  example));
  return texts;
}

// Returns a run over rows, with or without a head. Lines of `train` that are not in `given` have their usual values.
std::string run_with(bool head, const std::map<std::string, std::string>& given) {
  std::map<std::string, std::string> train{{"batch", "64"},
                                           {"epochs", "10"},
                                           {"loss", head ? "softmax_ce(id, label)" : "softmax_ce(logits, label)"},
                                           {"lr", "0.1"},
                                           {"optimizer", "sgd"}};
  for (const auto& [key, value] : given) {
    train[key] = value;
  }
  std::string text = fmt::format(
      "model m {{\n  input x: f32[N, 64]\n  logits = x -> linear(64)\n  y = logits\n  feature = logits\n"
      "  output logits\n{}}}\n",
      head ? "  head id = cosine_classifier(logits, 64)\n" : "");
  text += "data d {\n  source train = synthetic([64], 64, 1000)\n  x = pixels\n  target = pixels\n}\ntrain t {\n";
  for (const auto& [key, value] : train) {
    text += fmt::format("  {} = {}\n", key, value);
  }
  return text + "}\n";
}

// Returns a model with one input and a source for it; %s stands for the example.
std::string data_with(std::string_view input, std::string_view source, std::string_view binding) {
  return fmt::format("model m {{\n  input x: {0}\n  output x\n}}\ndata d {{\n  source train = {1}\n  x = {2}\n}}\n",
                     input, source, binding);
}

TEST(Reference, ExamplesOfOperatorsPassTheCheck) {
  for (const ops::Op* op : ops::catalog()) {
    const OpDef& def = op->def;
    if (!def.is_word() || def.availability != Availability::kReady) {
      continue;
    }
    std::vector<std::string> texts = models_with(def.example);
    for (const bool head : {true, false}) {
      texts.push_back(
          run_with(head, {{def.group == "losses" ? "loss" : "metrics",
                           fmt::format(fmt::runtime(def.group == "losses" ? "{}" : "[{}]"), def.example)}}));
    }
    EXPECT_EQ(faults_of_best(texts), "") << def.name;
  }
  EXPECT_NE(faults_of_best(models_with("conv(64, 3, stripe=2)")), "");
}

TEST(Reference, ExamplesOfReadersPassTheCheck) {
  const auto places = [](std::string_view example) {
    return std::vector<std::string>{data_with("f32[N, 1, 32, 32]", example, "pixels"),
                                    data_with("f32[N, 3, 32, 32]", example, "file -> decode(32)"),
                                    data_with("f32[N, 3, 32, 32]", example, "jpeg -> decode(32)"),
                                    data_with("f32[N, 3, 32, 32]", example, "image -> decode(32)"),
                                    data_with("f32[N, 64]", example, "columns(0..64)"),
                                    data_with("f32[N, 64]", example, "pixels"),
                                    data_with("f32[N, 64]", example, "value"),
                                    data_with("f32[N, 4096]", example, "features"),
                                    data_with("index(64)[N, 8]", example, "text -> ngrams(64, 8, chars=3)")};
  };
  for (const ReaderDef* reader : data_registry().readers) {
    if (reader->availability == Availability::kReady) {
      EXPECT_EQ(faults_of_best(places(reader->example)), "") << reader->name;
    }
  }
  EXPECT_NE(faults_of_best(places("folder()")), "");
}

TEST(Reference, ExamplesOfStagesPassTheCheck) {
  const auto places = [](std::string_view example) {
    std::vector<std::string> texts;
    for (const std::string_view input : {"f32[N, 1, 32, 32]", "f32[N, 3, 32, 32]", "f32[N, 3, 64, 64]"}) {
      for (const std::string_view before : {"file", "file -> decode(32)", "file -> decode(64)"}) {
        texts.push_back(data_with(input, "folder(\"pictures\")", fmt::format("{} -> {}", before, example)));
      }
    }
    texts.push_back(data_with("f32[N, 64]", "csv(\"rows.csv\")", example));
    texts.push_back(data_with("f32[N]", "csv(\"rows.csv\")", example));
    texts.push_back(data_with("index(10)[N]", "csv(\"rows.csv\")", fmt::format("column(64) -> {}", example)));
    texts.push_back(data_with("index(65_536)[N, 64]", "text(\"lines.tsv\")", fmt::format("text -> {}", example)));
    // The example is a stage of labels, which only losses and metrics may read.
    texts.push_back(
        fmt::format("model m {{\n  input x: f32[N, 64]\n  y = x -> linear(10)\n  output y\n}}\n"
                    "data d {{\n  source train = csv(\"rows.csv\")\n  x = columns(0..64)\n"
                    "  label = column(64) -> {} -> as_index(10)\n}}\n"
                    "train t {{\n  batch = 8\n  epochs = 1\n  loss = softmax_ce(y, label)\n"
                    "  optimizer = sgd\n  lr = 0.1\n}}\n",
                    example));
    return texts;
  };
  for (const AugmentDef* stage : data_registry().augments) {
    if (stage->availability == Availability::kReady) {
      EXPECT_EQ(faults_of_best(places(stage->example)), "") << stage->name;
    }
  }
  EXPECT_NE(faults_of_best(places("resize(32, 32)")), "");
}

// Checks the calls in the comments of std/optimizers.
TEST(Reference, ExamplesOfOptimizersPassTheCheck) {
  int calls = 0;
  for (const Row& row : declarations_of("std/optimizers")) {
    for (size_t at = row.doc.find("(", 0); at != std::string::npos; at = row.doc.find("(", at + 1)) {
      const size_t begin = row.doc.rfind('`', at) + 1;
      const size_t end = row.doc.find('`', at);
      const std::string name = row.call.substr(0, row.call.find('('));
      if (end != std::string::npos && row.doc.substr(begin, at - begin) == name) {
        EXPECT_EQ(faults_of(run_with(false, {{"optimizer", row.doc.substr(begin, end - begin)}})), "") << name;
        ++calls;
      }
    }
  }
  EXPECT_EQ(calls, 4);
}

TEST(Reference, ExamplesOfCurvesPassTheCheck) {
  for (const lang::CurveKind& curve : lang::curve_kinds()) {
    std::map<std::string, std::string> settings{{"lr", std::string(curve.example)}};
    if (curve.name == "fccs") {
      settings["batch"] = "grow(64 .. 256, over=1 epoch)";
    }
    EXPECT_EQ(faults_of(run_with(false, settings)), "") << curve.name;
  }
  EXPECT_NE(faults_of(run_with(false, {{"lr", "warmup(0 .. 0.1, 2 epochs)"}})), "") << "the rest of the run is missing";
}

TEST(Reference, TheWholeExampleFilePassesTheCheck) {
  constexpr std::string_view kBlock = "```xgraph\nxgraph 1\n";
  const std::string document = test::read_source_file(std::string(kDocument));
  const size_t at = document.find(kBlock) + kBlock.size();
  ASSERT_GE(at, kBlock.size()) << "no example";
  EXPECT_EQ(faults_of(document.substr(at, document.find("\n```", at) + 1 - at)), "");
}

}  // namespace
}  // namespace xrun
