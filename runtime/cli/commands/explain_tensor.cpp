// Follows the operators from the tensor back to an input of the model, always along the first tensor that an operator
// takes. Up to kMostLines operators get a line each. A longer way is shown by the parts of the model: consecutive
// operators whose paths begin with the same names share a line.
// Tests: tests/runtime/cli/commands/text_commands_test.cpp
#include "runtime/cli/commands/explain_tensor.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "lang/text/nearest.h"

namespace xrun::cli {
namespace {

constexpr size_t kMostLines = 24;  // the most operators to show; if there are more, parts of the model are shown

// The value that a name stands for: a binding, an input, or the result of the last operator at or below a path.
std::optional<ValueId> find_value(const Graph& graph, const std::string& name) {
  for (const auto* named : {&graph.bindings, &graph.outputs, &graph.inputs}) {
    const auto found = std::ranges::find(*named, name, &NamedValue::name);
    if (found != named->end()) {
      return found->value;
    }
  }
  std::optional<ValueId> last;
  for (const Node& node : graph.nodes) {
    if ((node.path == name || node.path.starts_with(name + ".")) && !node.outputs.empty()) {
      last = node.outputs[0];
    }
  }
  return last;
}

// The operators that lead from an input to the value, in order. If an operator takes several tensors, the first one is
// followed.
std::vector<NodeId> way_to(const Graph& graph, ValueId value) {
  std::vector<NodeId> way;
  while (graph.value(value).producer.valid()) {
    const NodeId id = graph.value(value).producer;
    way.push_back(id);
    const auto& inputs = graph.node(id).inputs;
    const auto tensor = std::ranges::find_if(inputs, [&](ValueId input) { return !graph.value(input).param.valid(); });
    if (tensor == inputs.end()) {
      break;
    }
    value = *tensor;
  }
  std::ranges::reverse(way);
  return way;
}

struct Line {
  std::string name;
  std::string type;
  std::string what;
};

class Way {
 public:
  // The parts of the model are those whose paths have as many names as `name`.
  Way(const LoadedModel& model, ValueId value, const std::string& name)
      : model_(model), graph_(model.file.module.graph), depth_(1 + std::ranges::count(name, '.')) {
    const std::vector<NodeId> way = way_to(graph_, value);
    if (way.empty() || !graph_.node(way[0]).inputs.empty()) {
      input_line(way.empty() ? value : graph_.node(way[0]).inputs[0]);
    }
    for (size_t i = 0; i < way.size();) {
      size_t end = i + 1;
      while (way.size() > kMostLines && end < way.size() && part_of(way[end]) == part_of(way[i])) {
        ++end;
      }
      end == i + 1 ? operator_line(way[i]) : part_line(way[i], way[end - 1]);
      i = end;
    }
  }

  std::string text() const {
    size_t name = 0;
    size_t type = 0;
    for (const Line& line : lines_) {
      name = std::max(name, line.name.size());
      type = std::max(type, line.type.size());
    }
    std::string text;
    for (const Line& line : lines_) {
      text += fmt::format("  {:<{}}  {:<{}}  {}\n", line.name, name, line.type, type, line.what);
    }
    return text;
  }

 private:
  std::string part_of(NodeId id) const {
    const std::string& path = graph_.node(id).path;
    size_t end = path.find('.');
    for (auto names = depth_; names > 1 && end != std::string::npos; --names) {
      end = path.find('.', end + 1);
    }
    return path.substr(0, end);
  }

  std::string place_of(const Span& span) const {
    const std::string place = model_.sources.place(span);
    return place.substr(0, place.rfind(':'));  // drops the column, since the line is enough
  }

  void input_line(ValueId value) {
    const Value& input = graph_.value(value);
    if (input.is_input) {
      lines_.push_back({input.name, to_text(input.type), "input"});
    }
  }

  void operator_line(NodeId id) {
    const Node& node = graph_.node(id);
    const std::string_view call = model_.sources.text(node.span);
    std::string what =
        node.span.valid() && call.find('\n') == call.npos ? std::string(call) : std::string(node.op->name);
    add(what, count_parameters(node.path), place_of(node.span));
    if (node.op->rows == RowProperty::kRowCoupled) {
      const TrainSpec& train = model_.file.module.train;
      what += train.norm_rows > 0
                  ? fmt::format("; statistics over groups of {} samples (train.norm_rows)", train.norm_rows)
                  : "; statistics over groups of samples";
    }
    lines_.push_back({node.path, to_text(graph_.value(node.outputs[0]).type), std::move(what)});
  }

  void part_line(NodeId first, NodeId last) {
    std::string what = fmt::format("{} operators", last.index - first.index + 1);
    add(what, count_parameters(part_of(first)), place_of(graph_.node(first).span));
    const Value& value = graph_.value(graph_.node(last).outputs[0]);
    lines_.push_back({part_of(first), to_text(value.type), std::move(what)});
  }

  static void add(std::string& what, int64_t parameters, const std::string& place) {
    what += parameters > 0 ? fmt::format(", {} parameters", format_count(parameters)) : "";
    what += place.empty() ? "" : ", " + place;
  }

  int64_t count_parameters(const std::string& path) const {
    int64_t count = 0;
    for (const Parameter& parameter : graph_.params) {
      if (parameter.trained && parameter.name.starts_with(path + ".")) {
        count += graph_.value(parameter.value).type.elements(1, 1);
      }
    }
    return count;
  }

  const LoadedModel& model_;
  const Graph& graph_;
  std::ptrdiff_t depth_;
  std::vector<Line> lines_;
};

}  // namespace

Result<std::string> explain_tensor(const LoadedModel& model, const std::string& name) {
  const Graph& graph = model.file.module.graph;
  const auto value = find_value(graph, name);
  if (!value) {
    std::vector<std::string> known = lang::names_of(graph.bindings, &NamedValue::name);
    for (const Node& node : graph.nodes) {
      known.push_back(node.path);
    }
    const std::string near = nearest(name, known);
    return content_error("XG0201", {"the model has no tensor `{}`", name},
                         near.empty()
                             ? Text("name a binding of the model, or a path of `xrun show FILE --table layers`")
                             : Text("did you mean `{}`?", near));
  }
  return fmt::format("{}: {}\n", name, to_text(graph.value(*value).type)) + Way(model, *value, name).text();
}

}  // namespace xrun::cli
