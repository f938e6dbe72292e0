// Steps for ONNX (weights alone: runtime/cli/export/weights_export.h):
//   1. Turn the checked model into ONNX (ops/onnx/convert.h), which fails before anything is computed.
//   2. Open a session with the weights of the checkpoint, in f32.
//   3. Write the file into a temporary folder next to its place; libonnx checks it.
//   4. Compute random rows with the session and in onnxruntime, if that is installed. A large difference is an error.
//   5. Rename the files, the model last.
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "graph/os/temporary_folder.h"
#include "graph/settings/reader_def.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/export/onnx_comparison.h"
#include "runtime/cli/export/weights_export.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/cli/model/plan_session.h"
#include "runtime/cli/model/trained_model.h"
#include "runtime/cli/progress/progress.h"
#include "runtime/cluster/stop_signals.h"
#include "runtime/interchange/exported_rows.h"
#include "runtime/interchange/onnx_module.h"
#include "runtime/interchange/onnxruntime.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A difference above this part of the largest number of an output is no rounding.
constexpr double kLargestDifference = 1e-3;

// An ONNX file of xrun begins with its IR version, of two bytes, and its producer.
constexpr FileKind kOnnxKind{.name = "model of xrun in ONNX", .code = "XG0901", .offset = 2, .magic = "\x12\x04xrun"};

struct Exported {
  ops::OnnxGraph graph;
  runtime::OnnxWritten written;
  OnnxComparison comparison;
};

Status check_differences(const OnnxComparison& comparison) {
  for (const OnnxDifference& one : comparison.differences) {
    const double accepted = kLargestDifference * std::max(1.0, one.scale);
    if (!(one.largest <= accepted)) {
      return content_error("XG0932",
                           {"`{}`: the results of onnxruntime and xrun differ by up to {:.2g}, and {:.2g} is accepted; "
                            "the largest value is {:.2g}",
                            one.output, one.largest, accepted, one.scale},
                           "no file was written; please report this with the model");
    }
  }
  return {};
}

// Makes the stages of the data block nodes of the file.
Status add_data(const Module& module, const runtime::CheckpointInfo& info, ops::ExportOptions& to) {
  if (!module.has_data) {
    return content_error("XG0930", "the file has no `data` block, whose stages `--preprocess` would export",
                         "export without --preprocess");
  }
  to.preprocess = &module.data;
  for (const runtime::InputScale& scale : info.manifest.scales) {
    to.scales[scale.input] = {scale.means, scale.deviations};
  }
  return {};
}

// Names the exported heads whose class rows are in fp8.
Status keep_fp8(const PlannedModel& planned, const ExportArgs& args, ops::HeadForm& to) {
  const planner::Program& program = planned.plan.inference;
  for (const planner::HeadPlan& head : program.heads) {
    const std::string& name = planned.model.file.module.graph.heads[static_cast<size_t>(head.head)].name;
    if (head.weights == RowFormat::kFp8 && std::ranges::find(args.heads, name) != args.heads.end()) {
      to.fp8.insert(name);
    }
  }
  if (to.fp8.empty()) {
    return usage_error("XG0905", "`--fp8-rows` keeps class rows in fp8, but no exported head has such rows",
                       "leave it out, or name such a head: --with-head NAME");
  }
  return {};
}

Result<Exported> export_model(const PlannedModel& planned, const ExportArgs& args, const runtime::CheckpointInfo& info,
                              runtime::EventSink& events) {
  ops::ExportOptions options{.outputs = args.outputs};
  for (const std::string& head : args.heads) {
    options.heads.push_back({head, args.topk});
  }
  const Module& module = planned.model.file.module;
  if (args.preprocess) {
    XRUN_TRY(add_data(module, info, options));
  }
  if (args.fp8_rows) {
    XRUN_TRY(keep_fp8(planned, args, options.form));
  }
  Exported exported;
  XRUN_ASSIGN(exported.graph, ops::to_onnx(module.model, module.graph, options));
  XRUN_TRY(runtime::check_data_place(exported.graph, args.output));
  exported.graph.metadata = {{"xrun.checkpoint_step", std::to_string(info.manifest.step)}};
  XRUN_ASSIGN(const auto devices, start_devices(planned, planned.plan.inference));
  XRUN_ASSIGN(const auto session, open_session(planned, *devices, info, events));
  XRUN_ASSIGN(const auto folder, TemporaryFolder::next_to(args.output, kOnnxKind.code));
  const std::string name = fs::path(args.output).filename();
  const runtime::OnnxFile file{
      .path = folder->path() + "/" + name, .data_name = name + ".data", .stop = &StopSignals::requested()};
  const auto values = [&](const ops::OnnxTensor& constant, std::byte* out) {
    runtime::read_exported(module.graph, session->state(), constant, out);
  };
  XRUN_ASSIGN(exported.written, runtime::write_onnx(exported.graph, values, file));
  XRUN_ASSIGN(exported.comparison,
              compare_with_onnxruntime(planned, *session, exported.graph, options, file.path, folder->path(),
                                       args.python.empty() ? "python3" : args.python));
  XRUN_TRY(check_differences(exported.comparison));
  XRUN_TRY(check_stop(&StopSignals::requested()));
  if (exported.written.data_bytes > 0) {
    XRUN_TRY(folder->release(file.data_name, args.output + ".data", kOnnxKind.code));
  }
  XRUN_TRY(folder->release(name, args.output, kOnnxKind.code));
  return exported;
}

std::string type_text(const ops::OnnxValue& value) {
  std::vector<std::string> dims;
  for (const int64_t dim : value.dims) {
    dims.push_back(dim == kBatch ? "N" : dim == ops::kAnySide ? (dims.size() == 1 ? "H" : "W") : std::to_string(dim));
  }
  return fmt::format("{}[{}]", value.name, fmt::join(dims, ","));
}

std::string list_of(const std::vector<ops::OnnxValue>& values, const char* one) {
  std::vector<std::string> texts;
  std::ranges::transform(values, std::back_inserter(texts), type_text);
  return fmt::format("{}{} {}", one, texts.size() == 1 ? "" : "s", fmt::join(texts, " "));
}

// An input whose stages are in the file, and the values that it takes.
std::string preprocessed(const ops::OnnxPreprocessing& one) {
  std::vector<std::string_view> names;
  for (const CallSpec& stage : one.stages) {
    if (!data_registry().find_augment(stage.name)->only_training) {
      names.push_back(stage.name);
    }
  }
  return fmt::format(
      "{} takes {} {}: {}", one.input, name_of(one.field.type.dtype),
      one.field.type.rank() == 4 && one.field.type.dtype == DType::kU8 ? "pictures as decoded" : "numbers",
      names.empty() ? std::string("no stage follows") : fmt::format("{}", fmt::join(names, " -> ")));
}

std::string compared(const OnnxComparison& comparison) {
  if (!comparison.why.empty()) {
    return "not run in onnxruntime: " + comparison.why;
  }
  std::string text =
      fmt::format("compared on {} random inputs with onnxruntime {}:", kComparedRows, comparison.version);
  for (const OnnxDifference& one : comparison.differences) {
    text += fmt::format(" {} differs by at most {:.1e}, with numbers up to {:.1e}", one.output, one.largest, one.scale);
    text += one.classes < 0 ? "" : fmt::format(", {} of {} first classes are equal", one.classes, kComparedRows);
    text += &one == &comparison.differences.back() ? "" : ";";
  }
  return text;
}

std::string as_text(const Exported& exported, const Graph& graph, const ExportArgs& args) {
  const std::string name = fs::path(args.output).filename();
  std::string text =
      fmt::format("{}   opset {}, IR {}, {}, {}, {}   {}\n", name, exported.graph.opset, exported.graph.ir_version(),
                  counted(std::ssize(exported.graph.nodes), "node"), list_of(exported.graph.inputs, "input"),
                  list_of(exported.graph.outputs, "output"), format_bytes(exported.written.bytes));
  if (exported.written.data_bytes > 0) {
    text += fmt::format("  weights in {}.data   {}\n", name, format_bytes(exported.written.data_bytes));
  }
  for (const ops::OnnxPreprocessing& one : exported.graph.preprocessing) {
    text += fmt::format("  {}\n", preprocessed(one));
  }
  for (const std::string& line : left_out_heads(graph, args)) {
    text += "  " + line + "\n";
  }
  return text + "  " + compared(exported.comparison) + "\n";
}

Json as_json(const std::vector<ops::OnnxValue>& values) {
  Json list = Json::array();
  for (const ops::OnnxValue& value : values) {
    std::vector<int64_t> shape = value.dims;
    std::ranges::replace(shape, ops::kAnySide, int64_t{-1});
    list.push_back({{"name", value.name}, {"shape", std::move(shape)}});
  }
  return list;
}

std::string as_json(const Exported& exported, const ExportArgs& args) {
  Json compared = nullptr;
  if (exported.comparison.why.empty()) {
    compared = {{"onnxruntime", exported.comparison.version}, {"rows", kComparedRows}, {"outputs", Json::array()}};
    for (const OnnxDifference& one : exported.comparison.differences) {
      compared["outputs"].push_back({{"name", one.output}, {"largest_difference", one.largest}, {"scale", one.scale}});
      if (one.classes >= 0) {
        compared["outputs"].back()["equal_first_classes"] = one.classes;
      }
    }
  }
  return json_line({{"v", 1},
                    {"file", args.output},
                    {"opset", exported.graph.opset},
                    {"ir", exported.graph.ir_version()},
                    {"nodes", exported.graph.nodes.size()},
                    {"inputs", as_json(exported.graph.inputs)},
                    {"outputs", as_json(exported.graph.outputs)},
                    {"bytes", exported.written.bytes},
                    {"data_bytes", exported.written.data_bytes},
                    {"compared", std::move(compared)}});
}

bool is_weights(const ExportArgs& args) { return args.output.ends_with(".safetensors"); }

Status check_arguments(const ExportArgs& args) {
  if (is_plan_file(args.file)) {
    return usage_error(
        "XG0620", {"`{}` is a plan, which fixes the precision, but an export computes in f32", args.file},
        {"give the model file instead, or only the checkpoint, which holds its model: xrun export {} -o {}",
         args.checkpoint, args.output});
  }
  if (is_weights(args)) {
    return check_weights_flags(args);
  }
  if (!args.output.ends_with(".onnx")) {
    return usage_error("XG0905", {"`-o {}` ends neither in .onnx nor in .safetensors", args.output},
                       "name the file: -o model.onnx, or -o model.safetensors for the weights alone");
  }
  if (args.topk > 0 && args.heads.empty()) {
    return usage_error("XG0905", "`--topk` selects the classes of a head, but no head is exported",
                       "name it: --with-head NAME");
  }
  XRUN_TRY(check_place(args.output, kOnnxKind));
  return args.python.empty() ? Status() : runtime::check_onnxruntime(args.python);
}

}  // namespace

Outcome<int> run_export(const GlobalOptions& options, const ExportArgs& args) {
  const Console console(options);
  XRUN_TRY(check_arguments(args));
  const auto info = runtime::open_checkpoint(args.checkpoint);
  // The file computes in f32, and so does the model with which it is compared.
  GlobalOptions exact = options;
  exact.sets.push_back({"train.precision", "f32", ""});
  exact.f32_inputs = true;
  XRUN_ASSIGN(const PlannedModel planned, plan_for(info, args.file, exact, console));
  XRUN_TRY(check_checkpoint(planned, args.file, args.anyway, info, exact.f32_inputs));
  const StopSignals signals([] {});
  const auto progress = make_progress(options.progress, console);
  if (is_weights(args)) {
    auto text = export_weights(planned, args, *info, *progress, console.json());
    progress->on(runtime::WorkEvent{});
    XRUN_ASSIGN(const std::string written, with_sources(std::move(text), planned.model.sources));
    console.out(written);
    return 0;
  }
  auto result = export_model(planned, args, *info, *progress);
  progress->on(runtime::WorkEvent{});
  XRUN_ASSIGN(const Exported exported, with_sources(std::move(result), planned.model.sources));
  console.out(console.json() ? as_json(exported, args) : as_text(exported, planned.model.file.module.graph, args));
  return 0;
}

}  // namespace xrun::cli
