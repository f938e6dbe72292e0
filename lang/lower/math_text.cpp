// The text that the math digest is taken over: what is learned, without machine, schedule and reports.
#include <fmt/format.h>

#include "graph/print.h"
#include "lang/lower/module_builder.h"

namespace xrun::lang {
namespace {

// Files count by their names and not by the directories that they lie in.
std::string last_part(const std::string& text) { return text.substr(text.rfind('/') + 1); }

Attrs without_directories(const Attrs& attrs) {
  Attrs result;
  for (const auto& [name, value] : attrs.all()) {
    AttrValue kept = value;
    if (auto* text = std::get_if<std::string>(&kept)) {
      *text = last_part(*text);
    } else if (auto* list = std::get_if<std::vector<std::string>>(&kept)) {
      for (std::string& text_of_list : *list) {
        text_of_list = last_part(text_of_list);
      }
    }
    result.set(name, std::move(kept));
  }
  return result;
}

std::string span_text(const TrainSpan& span) {
  constexpr std::string_view kUnits[] = {"steps", "epochs", "samples"};
  return fmt::format("{} {}", to_text(AttrValue(span.amount)), kUnits[span.unit]);
}

std::string call_text(const CallSpec& call) { return fmt::format("{}({})", call.name, to_text(call.args)); }

// The graph as far as the loss needs it: metrics hang on it and are left out.
Graph without_metrics(const Graph& graph) {
  Graph kept = graph;
  kept.metrics.clear();
  kept.bindings.clear();
  kept.outputs.clear();
  std::vector<bool> wanted(graph.nodes.size(), false);
  std::vector<bool> metric(graph.nodes.size(), false);
  for (const ValueId id : graph.metrics) {
    if (graph.value(id).producer.valid()) {
      metric[static_cast<size_t>(graph.value(id).producer.index)] = true;
    }
  }
  const auto consumers = consumers_of(graph);
  // Backwards: a node is left out when it is a metric, or when all that it gives goes to such nodes.
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    bool used = false;
    bool read = false;
    for (const ValueId output : graph.nodes[i].outputs) {
      used = used || output == graph.loss;
      for (const NodeId reader : consumers[static_cast<size_t>(output.index)]) {
        read = true;
        used = used || wanted[static_cast<size_t>(reader.index)];
      }
    }
    wanted[i] = used || (!metric[i] && !read);
  }
  kept.nodes.clear();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (wanted[i]) {
      kept.nodes.push_back(graph.nodes[i]);
    }
  }
  return kept;
}

}  // namespace

std::string math_text(const Module& module) {
  std::string out = "xrun math 1\n";
  Graph graph = without_metrics(module.graph);
  graph.heads.clear();  // named by their nodes' paths
  out += print(graph);
  if (module.has_data) {
    for (const SourceSpec& source : module.data.sources) {
      if (source.name == "train") {
        out += fmt::format("source {}({})\n", source.reader.name, to_text(without_directories(source.reader.args)));
      }
    }
    for (const DataBinding& binding : module.data.bindings) {
      out += fmt::format("data {} = {}", binding.target, binding.field);
      for (const CallSpec& stage : binding.stages) {
        out += " -> " + call_text(stage);
      }
      out += "\n";
    }
  }
  if (!module.has_train) {
    return out;
  }
  const TrainSpec& train = module.train;
  out += fmt::format("batch {}\nduration {}\nreduce {}\noptimizer {}\n", train.batch, span_text(train.duration),
                     train.reduce_sum ? "sum" : "mean", call_text(train.optimizer));
  for (const CurveSpec& curve : train.lr) {
    out += fmt::format("rate {} {} {} {}", curve.kind, to_text(AttrValue(curve.from)), to_text(AttrValue(curve.to)),
                       curve.span ? span_text(*curve.span) : "rest");
    out += fmt::format(" power {} by {}", to_text(AttrValue(curve.power)), to_text(AttrValue(curve.by)));
    for (const TrainSpan& at : curve.at) {
      out += " at " + span_text(at);
    }
    out += "\n";
  }
  for (const GroupSpec& group : train.groups) {
    out += fmt::format("group {} lr {} decay {}\n", group.path, to_text(AttrValue(group.lr.value_or(1))),
                       group.weight_decay ? to_text(AttrValue(*group.weight_decay)) : "-");
  }
  for (const std::string& path : train.freeze) {
    out += "freeze " + path + "\n";
  }
  constexpr std::string_view kClips[] = {"none", "norm", "value"};
  out += fmt::format("precision {}\nseed {}\nnorm_rows {}\nlanes 4\ngrad_accumulation {}\nclip {} {} {}\n",
                     train.precision == PrecisionMode::kF32 ? "f32" : "mixed_bf16", train.seed, train.norm_rows,
                     train.grad_accumulation, kClips[train.clip.kind], to_text(AttrValue(train.clip.limit)),
                     train.clip.heads);
  out += fmt::format("init {}\norder {}\n", train.init_checkpoint.empty() ? "seed" : last_part(train.init_checkpoint),
                     train.shuffled ? "shuffled" : "sequential");
  return out;
}

}  // namespace xrun::lang
