// Writes the text from which the math digest is computed, in parts:
//   1. the graph without metrics, with the first names of renamed parts
//   2. the reader of the training source, and the bindings of the data
//   3. the lines of each setting of `train` on which learned weights depend (SettingDef::is_learned)
// The functions for single lines keep the form of earlier versions. Directories of paths, the place of rows and the
// spans of the text are left out, since they do not change what is learned.
// Tests: tests/lang/check_test.cpp
#include "lang/lower/math_text.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/sha256.h"
#include "graph/print.h"
#include "graph/settings/group_rules.h"
#include "graph/settings/known_update.h"
#include "lang/lower/setting_def.h"

namespace xrun::lang {
namespace {

Attrs without_directories(const Attrs& attrs) {
  Attrs result;
  for (const auto& [name, value] : attrs.all()) {
    AttrValue kept = value;
    if (auto* text = std::get_if<std::string>(&kept)) {
      *text = without_directory(*text);
    } else if (auto* list = std::get_if<TextList>(&kept)) {
      for (std::string& text_of_list : *list) {
        text_of_list = without_directory(text_of_list);
      }
    }
    result.set(name, std::move(kept));
  }
  return result;
}

// Marks all nodes except metrics and the nodes that only metrics read.
IdVector<NodeId, bool> without_metrics(const Graph& graph) {
  IdVector<NodeId, bool> wanted(graph.nodes.size(), false);
  IdVector<NodeId, bool> metric(graph.nodes.size(), false);
  for (const ValueId id : graph.metrics) {
    if (graph.value(id).producer.valid()) {
      metric[graph.value(id).producer] = true;
    }
  }
  const auto consumers = consumers_of(graph);
  // In reverse order, so that the readers of a node are known. A node is not marked if all its readers are not marked,
  // or if it is a metric without marked readers.
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    bool used = false;
    bool read = false;
    for (const ValueId output : graph.nodes[i].outputs) {
      used = used || std::ranges::find(graph.loss, output, &LossTerm::rows) != graph.loss.end();
      for (const NodeId reader : consumers[output]) {
        read = true;
        used = used || wanted[reader];
      }
    }
    wanted[i] = used || (!metric[i] && !read);
  }
  return wanted;
}

}  // namespace

std::string exact(double number) { return to_text(AttrValue(number)); }

std::string exact(const TrainSpan& span) {
  constexpr std::string_view kUnits[] = {"steps", "epochs", "samples"};
  return fmt::format("{} {}", exact(span.amount), kUnits[span.unit]);
}

std::string exact(const CallSpec& call) { return fmt::format("{}({})", call.name, to_text(call.args)); }

std::string optimizer_line(const TrainSpec& train) {
  CallSpec shown = train.optimizer;
  const std::vector<std::string> states = states_of_rule(shown.args);
  const KnownUpdate known = known_update(shown);
  const double decay = shown.args.real("weight_decay", 0);
  using Names = std::vector<std::string>;
  if (known.kind == KnownUpdate::kSgd && states == (known.momentum == 0 ? Names{} : Names{"velocity"})) {
    shown = {.name = "sgd",
             .args = {{"momentum", known.momentum}, {"nesterov", known.nesterov}, {"weight_decay", decay}},
             .span = {}};
  } else if (known.kind == KnownUpdate::kAdamw && states == Names{"m", "v"}) {
    shown = {.name = "adamw",
             .args = {{"beta1", known.beta1}, {"beta2", known.beta2}, {"eps", known.eps}, {"weight_decay", decay}},
             .span = {}};
  }
  return fmt::format("optimizer {}\n", exact(shown));
}

std::string without_directory(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string clip_line(const TrainSpec& train) {
  constexpr std::string_view kKinds[] = {"none", "norm", "value"};
  return fmt::format("clip {} {} {}\n", kKinds[train.clip.kind], exact(train.clip.limit), train.clip.heads);
}

std::string batch_line(const TrainSpec& train) {
  if (!train.growth) {
    return fmt::format("batch {}\n", train.batch);
  }
  return fmt::format("batch grow {} {} over {} after {}\n", train.growth->first, train.batch, exact(train.growth->over),
                     exact(train.growth->after));
}

namespace {

// A time at which a curve `steps` changes the rate, as text. It is counted from the start of the curve, because the
// first versions counted so and the math text of a rate must not change. If this is impossible because units differ,
// the time is counted from the start of the run, and the text marks this.
std::string time_line(const TrainSpec& train, const CurveSpec& curve, TrainSpan at) {
  const bool is_comparable =
      std::all_of(train.lr.data(), &curve, [&](const CurveSpec& one) { return one.span && one.span->unit == at.unit; });
  for (const CurveSpec* before = train.lr.data(); is_comparable && before != &curve; ++before) {
    at.amount -= before->span->amount;
  }
  return exact(at) + (is_comparable ? "" : " of the run");
}

std::string rate_lines(const TrainSpec& train, bool as_written) {
  std::string out;
  for (const CurveSpec& curve : train.lr) {
    out += fmt::format("rate {} {} {} {} power {} by {}", curve.kind, exact(curve.from), exact(curve.to),
                       curve.span ? exact(*curve.span) : "rest", exact(curve.power), exact(curve.by));
    for (const TrainSpan& at : curve.at) {
      out += " at " + (as_written ? exact(at) : time_line(train, curve, at));
    }
    out += "\n";
  }
  return out;
}

}  // namespace

std::string rate_lines(const TrainSpec& train) { return rate_lines(train, false); }

std::string group_lines(const TrainSpec& train) {
  std::string out;
  for (const GroupSpec& group : train.groups) {
    if (!group.lr && !group.weight_decay && !group.weights && !group.states && !group.untouched) {
      continue;  // where rows are stored does not affect the result
    }
    out += fmt::format("group {} lr {} decay {}", group.path, exact(group.lr.value_or(1)),
                       group.weight_decay ? exact(*group.weight_decay) : "-");
    out += group.weights ? fmt::format(" weights {}", name_of(*group.weights)) : "";
    out += group.states ? fmt::format(" states {}", name_of(*group.states)) : "";
    out += group.untouched ? fmt::format(" untouched {}", name_of(*group.untouched)) : "";
    out += "\n";
  }
  return out;
}

std::string class_weight_line(const TrainSpec& train) {
  const ClassWeightsSpec& weights = train.class_weights;
  return weights.kind == ClassWeightsSpec::kNone ? ""
         : weights.kind == ClassWeightsSpec::kCsv
             ? fmt::format("class_weights csv {}\n", without_directory(weights.path))
             : "class_weights inverse_frequency\n";
}

std::string active_line(const TrainSpec& train) {
  const ActiveSpec& active = train.active_classes;
  constexpr std::string_view kKinds[] = {"all", "sample", "knn"};
  if (active.kind == ActiveSpec::kAll) {
    return "";
  }
  std::string line =
      fmt::format("active_classes {} {}{}", kKinds[active.kind], exact(active.amount), active.log_q ? " log_q" : "");
  if (active.kind == ActiveSpec::kKnn) {
    line += fmt::format(" neighbours {} rebuild {}{}", active.neighbours, exact(active.rebuild),
                        active.exact ? "" : " approximate");
    line += active.probes == kUsualProbes ? "" : fmt::format(" probes {}", active.probes);
  }
  return line + "\n";
}

std::string compress_line(const TrainSpec& train) {
  const CompressSpec& compress = train.compress;
  if (!compress.is_on()) {
    return "";
  }
  std::string line = fmt::format("compress topk {}", exact(compress.density));
  for (const std::string& path : compress.on) {
    line += " on " + path;
  }
  line += compress.warmup ? " warmup " + exact(*compress.warmup) : "";
  line += compress.per_node ? " per_node" : "";
  return line + "\n";
}

std::string freeze_lines(const TrainSpec& train) {
  std::string out;
  for (const std::string& path : train.freeze) {
    out += "freeze " + path + "\n";
  }
  return out;
}

// Renamed parts get their first names, so that the digest of a run stays when the text declares the move of a name.
Module with_first_names(const Module& module, std::span<const Moved> moved) {
  Module first = module;
  for (Node& node : first.graph.nodes) {
    node.path = first_name(moved, node.path);
    Attrs attrs;
    for (const auto& [name, value] : node.attrs.all()) {
      if (name != kStreamAttr) {
        attrs.set(name, value);
      }
    }
    node.attrs = std::move(attrs);
  }
  for (Parameter& parameter : first.graph.params) {
    parameter.name = first_name(moved, parameter.name);
  }
  for (GroupSpec& group : first.train.groups) {
    group.path = first_name(moved, group.path);
  }
  for (std::vector<std::string>* paths : {&first.train.freeze, &first.train.compress.on}) {
    for (std::string& path : *paths) {
      path = first_name(moved, path);
    }
  }
  return first;
}

std::vector<MathPart> math_parts(const Module& given, const RunSpec& run) {
  const Module renamed = run.moved.empty() ? Module() : with_first_names(given, run.moved);
  const Module& module = run.moved.empty() ? given : renamed;
  const auto shown = without_metrics(module.graph);
  std::vector<MathPart> parts{{"model", print(module.graph, &shown)}};
  if (module.has_data) {
    for (const SourceSpec& source : module.data.sources) {
      if (source.name == "train") {
        parts.push_back({"data.train", fmt::format("source {}({})\n", source.reader.name,
                                                   to_text(without_directories(source.reader.args)))});
      }
    }
    for (const DataBinding& binding : module.data.bindings) {
      std::string line = fmt::format("data {} = {}", binding.target, binding.field);
      for (const CallSpec& stage : binding.stages) {
        line += " -> " + exact(stage);
      }
      parts.push_back({"data." + binding.target, line + "\n"});
    }
  }
  for (const SettingDef& def : all_settings()) {
    if (module.has_train && def.is_learned) {
      const bool in_steps = def.key == "epochs" && module.train.duration.unit == TrainSpan::kSteps;
      parts.push_back(
          {"train." + (in_steps ? "steps" : def.path()),
           def.math != nullptr ? def.math(module.train) : fmt::format("{} {}\n", def.key, def.text({module, run}))});
      for (const std::string& path : def.key == "init" ? run.init_skip : std::vector<std::string>()) {
        parts.back().text += "skip " + first_name(run.moved, path) + "\n";
      }
    }
  }
  return parts;
}

namespace {

std::string joined(const std::vector<MathPart>& parts) {
  std::string out = "xrun math 1\n";
  for (const MathPart& part : parts) {
    out += part.text;
  }
  return out;
}

}  // namespace

std::string earlier_math_text(const Module& module, const RunSpec& run) {
  auto parts = math_parts(module, run);
  for (MathPart& part : parts) {
    if (part.what == "train.lr") {
      part.text = rate_lines(module.train, true);
    }
  }
  return joined(parts);
}

std::string math_text(const Module& module, const RunSpec& run) { return joined(math_parts(module, run)); }

}  // namespace xrun::lang
