// Tests: tests/runtime/cli/model/trained_model_test.cpp
#include "runtime/cli/model/model_form.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "graph/settings/reader_def.h"

namespace xrun::cli {
namespace {

// Whether the stage changes samples only during training.
bool is_only_trained(const CallSpec& stage) {
  const AugmentDef* def = data_registry().find_augment(stage.name);
  return def != nullptr && def->only_training;
}

std::string stage_text(const CallSpec& stage) {
  if (stage.name == "random_crop") {  // outside training it crops the middle, so it matters
    return fmt::format("random_crop({})", stage.args.integer("size"));
  }
  return stage.args.all().empty() ? stage.name : fmt::format("{}({})", stage.name, to_text(stage.args));
}

std::string preprocessing(const Module& module, const NamedValue& input) {
  std::string text = fmt::format("{}: {} = ", input.name, to_text(module.graph.value(input.value).type));
  const auto& bindings = module.data.bindings;
  const auto binding = std::ranges::find(bindings, input.name, &DataBinding::target);
  if (binding == bindings.end()) {
    return text + input.name;
  }
  text += binding->field;
  for (const CallSpec& stage : binding->stages) {
    text += is_only_trained(stage) ? "" : " -> " + stage_text(stage);
  }
  return text;
}

// The first part of the path of the loss, if `train` made it: "loss", or "loss_2" if a part of the model has that name.
// Empty otherwise.
std::string group_of_loss(const Graph& graph) {
  const NodeId producer = graph.loss.empty() ? NodeId() : graph.value(graph.loss[0].rows).producer;
  const std::string path = producer.valid() ? graph.node(producer).path : "";
  const std::string first = path.substr(0, path.find('.'));
  return first.starts_with("loss") ? first : "";
}

// Marks those operators of the model itself on which the loss depends.
IdVector<NodeId, bool> model_nodes(const Graph& graph) {
  IdVector<NodeId, bool> wanted(graph.nodes.size(), false);
  const std::string loss = group_of_loss(graph);
  for (const LossTerm& term : graph.loss) {
    if (const NodeId producer = graph.value(term.rows).producer; producer.valid()) {
      wanted[producer] = true;
    }
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    for (const ValueId input : graph.nodes[i].inputs) {
      if (wanted[i] && graph.value(input).producer.valid()) {
        wanted[graph.value(input).producer] = true;
      }
    }
  }
  for (size_t i = 0; i < graph.nodes.size() && !loss.empty(); ++i) {
    const std::string& path = graph.nodes[i].path;
    wanted[i] = wanted[i] && path.substr(0, path.find('.')) != loss;
  }
  return wanted;
}

}  // namespace

std::vector<FormLine> inference_form(const Module& module) {
  const Graph& graph = module.graph;
  const auto wanted = model_nodes(graph);
  std::vector<FormLine> lines;
  for (const NamedValue& input : graph.inputs) {
    bool read = false;
    for (size_t i = 0; i < graph.nodes.size() && !read; ++i) {
      const std::vector<ValueId>& inputs = graph.nodes[i].inputs;
      read = wanted[i] && std::ranges::find(inputs, input.value) != inputs.end();
    }
    if (read && graph.value(input.value).type.classes == 0) {
      lines.push_back({preprocessing(module, input), preprocessing(module, input)});
    }
  }
  std::vector<size_t> place(graph.nodes.size());  // for each node, the index of its line
  const auto readers = consumers_of(graph);
  std::map<ParamId, size_t> tied;  // weights that several operators read, numbered as they appear
  const auto weight_text = [&](const Value& value, ValueId id) {
    const bool is_tied = readers[id].size() > 1;
    return to_text(value.type) +
           (is_tied ? fmt::format("#{}", tied.try_emplace(value.param, tied.size()).first->second) : "");
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!wanted[i]) {
      continue;
    }
    const Node& node = graph.nodes[i];
    place[i] = lines.size();
    std::string call = std::string(node.op->name);
    std::string attrs;
    for (const auto& [name, value] : node.attrs.all()) {
      if (name != kStreamAttr) {  // only training draws random numbers, and the name of their stream does not matter
        attrs += fmt::format("{}{}={}", attrs.empty() ? "" : ", ", name, to_text(value));
      }
    }
    call += attrs.empty() ? "" : fmt::format(" {{{}}}", attrs);
    std::string inputs;
    for (const ValueId id : node.inputs) {
      const Value& value = graph.value(id);
      const bool is_param = value.param.valid();
      inputs += is_param ? " " + weight_text(value, id)
                : value.producer.valid()
                    ? fmt::format(" -{}.{}", lines.size() - place[value.producer.index], value.output)
                    : " " + value.name;
    }
    const std::string type = to_text(graph.value(node.outputs[0]).type);
    lines.push_back(
        {fmt::format("{}{} -> {}", call, inputs, type), fmt::format("{}: {} -> {}", node.path, call, type)});
  }
  return lines;
}

std::vector<std::string> tensor_names(const Module& module, std::span<const Moved> moved) {
  std::vector<std::string> names;
  for (const Parameter& parameter : module.graph.params) {
    names.push_back(
        fmt::format("{} {}", last_name(moved, parameter.name), to_text(module.graph.value(parameter.value).type)));
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> differences(const std::vector<FormLine>& then, const std::vector<FormLine>& now, size_t most) {
  // Finds the lines outside a longest common subsequence by dynamic programming. The table has a cell for each pair of
  // lines, so equal lines at both ends are skipped first. If the rest is still too large, all of its lines count as
  // different.
  size_t begin = 0;
  const size_t shorter = std::min(then.size(), now.size());
  while (begin < shorter && then[begin].same == now[begin].same) {
    ++begin;
  }
  size_t end = 0;
  while (end < shorter - begin && then[then.size() - 1 - end].same == now[now.size() - 1 - end].same) {
    ++end;
  }
  const size_t rows = then.size() - begin - end;
  const size_t columns = now.size() - begin - end;
  std::vector<std::string> lines;
  const auto add = [&](std::string_view whose, const FormLine& line) {
    if (lines.size() < most) {
      lines.push_back(fmt::format("{}  {}", whose, line.shown));
    }
  };
  constexpr size_t kMostCells = 16'000'000;
  const bool aligned = rows * columns <= kMostCells;
  // common[i][j]: the length of a longest common subsequence of then[begin + i ..] and now[begin + j ..].
  std::vector<uint32_t> common(aligned ? (rows + 1) * (columns + 1) : 0, 0);
  const auto cell = [&](size_t i, size_t j) -> uint32_t& { return common[i * (columns + 1) + j]; };
  for (size_t i = rows; aligned && i-- > 0;) {
    for (size_t j = columns; j-- > 0;) {
      cell(i, j) = then[begin + i].same == now[begin + j].same ? cell(i + 1, j + 1) + 1
                                                               : std::max(cell(i + 1, j), cell(i, j + 1));
    }
  }
  for (size_t i = 0, j = 0; i < rows || j < columns;) {
    const bool same = aligned && i < rows && j < columns && then[begin + i].same == now[begin + j].same;
    if (same) {
      ++i, ++j;
    } else if (i < rows && (j == columns || !aligned || cell(i + 1, j) >= cell(i, j + 1))) {
      add("checkpoint:", then[begin + i++]);
    } else {
      add("here:      ", now[begin + j++]);
    }
  }
  return lines;
}

}  // namespace xrun::cli
