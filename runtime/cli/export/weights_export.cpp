// Tests: tests/runtime/cli/commands/export_test.cpp
#include "runtime/cli/export/weights_export.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "graph/os/durable.h"
#include "graph/os/temporary_folder.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/model/plan_session.h"
#include "runtime/cluster/stop_signals.h"
#include "runtime/interchange/exported_weights.h"

namespace xrun::cli {
namespace {

constexpr std::string_view kCode = "XG0901";

Status check_heads(const Graph& graph, const ExportArgs& args) {
  std::vector<std::string> names;
  std::ranges::transform(graph.heads, std::back_inserter(names), &Head::name);
  for (const std::string& head : args.heads) {
    if (std::ranges::find(names, head) == names.end()) {
      return content_error("XG0930", {"the model has no head `{}`", head},
                           names.empty() ? std::string("leave --with-head out") : nearest_names(head, names));
    }
  }
  return {};
}

// The weights and running statistics that the state of an inference lacks, since only the loss reads them. Those of
// heads that are left out anyway do not count.
std::vector<std::string> only_in_training(const Graph& graph, const runtime::TrainState& state,
                                          const ExportArgs& args) {
  std::set<ValueId> left_out;
  for (const Head& head : graph.heads) {
    if (std::ranges::find(args.heads, head.name) == args.heads.end()) {
      const std::vector<ValueId>& inputs = graph.node(head.node).inputs;
      left_out.insert(inputs.begin() + 1, inputs.end());
    }
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.params.size(); ++i) {
    const Parameter& param = graph.param(ParamId(i));
    if (!graph.is_tied_copy(ParamId(i)) && !left_out.contains(param.value) && state.find(param.name) == nullptr) {
      names.push_back(param.name);
    }
  }
  return names;
}

}  // namespace

Status check_weights_flags(const ExportArgs& args) {
  if (!args.python.empty()) {
    return usage_error("XG0905",
                       {"`--python` names the Python that runs an ONNX file, but {} holds only weights", args.output},
                       "leave it out, or name a file that ends in .onnx");
  }
  if (!args.outputs.empty() || args.topk > 0 || args.fp8_rows || args.preprocess) {
    return usage_error("XG0905",
                       {"`{}` selects what an ONNX file computes, but {} holds only weights",
                        !args.outputs.empty() ? "--only"
                        : args.topk > 0       ? "--topk"
                        : args.fp8_rows       ? "--fp8-rows"
                                              : "--preprocess",
                        args.output},
                       "leave it out, or name a file that ends in .onnx");
  }
  const std::string start = fmt::format("{{\"__metadata__\":{{\"{}\":\"xrun", runtime::kWeightsKey);
  return check_place(
      args.output,
      {.name = "file of weights that xrun exported", .code = kCode, .offset = sizeof(uint64_t), .magic = start});
}

Result<std::string> export_weights(const PlannedModel& planned, const ExportArgs& args,
                                   const runtime::CheckpointInfo& info, runtime::EventSink& events, bool json) {
  const Graph& graph = planned.model.file.module.graph;
  XRUN_TRY(check_heads(graph, args));
  XRUN_ASSIGN(const auto devices, start_devices(planned, planned.plan.inference));
  XRUN_ASSIGN(const auto session, open_session(planned, *devices, info, events));
  XRUN_ASSIGN(const auto folder, TemporaryFolder::next_to(args.output, kCode));
  const std::string name = std::filesystem::path(args.output).filename();
  const std::map<std::string, std::string> metadata{{"format", "pt"},
                                                    {"xrun.checkpoint_step", std::to_string(info.manifest.step)},
                                                    {"xrun.model", planned.model.file.module.model}};
  XRUN_ASSIGN(const runtime::WeightsWritten written,
              runtime::write_weights(session->state(), args.heads, metadata, folder->path() + "/" + name,
                                     &StopSignals::requested()));
  XRUN_TRY(check_stop(&StopSignals::requested()));
  XRUN_TRY(folder->release(name, args.output, kCode));
  const std::vector<std::string> lacking = only_in_training(graph, session->state(), args);
  if (json) {
    return json_line({{"v", 1},
                      {"file", args.output},
                      {"tensors", written.tensors},
                      {"bytes", written.bytes},
                      {"only_in_training", lacking}});
  }
  std::string text =
      fmt::format("{}   {}, f32   {}\n", name, counted(written.tensors, "tensor"), format_bytes(written.bytes));
  for (const std::string& line : left_out_heads(graph, args)) {
    text += "  " + line + "\n";
  }
  if (!lacking.empty()) {
    text += fmt::format("  {} that only training uses {} left out: {}\n", counted(std::ssize(lacking), "tensor"),
                        lacking.size() == 1 ? "is" : "are", fmt::join(lacking, ", "));
  }
  return text;
}

std::vector<std::string> left_out_heads(const Graph& graph, const ExportArgs& args) {
  std::vector<std::string> lines;
  for (const Head& head : graph.heads) {
    if (std::ranges::find(args.heads, head.name) == args.heads.end()) {
      const Node& node = graph.node(head.node);
      Bytes bytes = 0;  // size of its weight and its bias
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        bytes += graph.value(node.inputs[i]).type.bytes(1, 1);
      }
      lines.push_back(fmt::format("head `{0}` is left out; with it, the file has {1} more: --with-head {0}", head.name,
                                  format_bytes(bytes)));
    }
  }
  return lines;
}

}  // namespace xrun::cli
