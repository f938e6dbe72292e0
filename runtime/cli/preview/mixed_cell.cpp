#include "runtime/cli/preview/mixed_cell.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "graph/base/utf8.h"
#include "graph/layouts/mixed_labels.h"

namespace xrun::cli {

void mix_in_order(std::vector<Chosen>& chosen) {
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Chosen& partner = chosen[i == 0 ? chosen.size() - 1 : i - 1];
    chosen[i].partner = partner.sample;
    chosen[i].partner_pass = partner.pass;
  }
}

std::optional<MixedCell> mixed_cell(const runtime::Mix& mix, int64_t partner, std::string name) {
  if (mix.kind == runtime::Mix::kNone) {
    return std::nullopt;
  }
  return MixedCell{.stage = mix.kind == runtime::Mix::kMixup ? "mixup" : "cutmix",
                   .share = mix.share,
                   .partner = partner,
                   .name = std::move(name),
                   .label = {},
                   .number = {}};
}

nlohmann::ordered_json json_of(const MixedCell& mixed) {
  nlohmann::ordered_json json{{"stage", mixed.stage},
                              {"share", mixed.share},
                              {"partner", mixed.partner},
                              {"partner_name", well_formed(mixed.name)}};
  if (mixed.number) {
    json["second_class"] = *mixed.number;
    json["second_label"] = well_formed(mixed.label);
  }
  return json;
}

std::string both_labels(const std::string& label, const MixedCell& mixed) {
  const double larger = 100 * std::max(mixed.share, 1 - mixed.share);
  return fmt::format("{} {:.0f}% + {} {:.0f}%", label, larger, mixed.label, 100 - larger);
}

void add_mixed_inputs(Graph& graph, const DataSpec& data) {
  const DataBinding* mixed = mixed_binding(data);
  if (mixed == nullptr || draws_label(*mixing_stage(*mixed))) {
    return;
  }
  const std::vector<NamedValue> inputs = graph.inputs;
  for (const NamedValue& input : inputs) {
    const TensorType type = graph.value(input.value).type;
    if (type.classes > 0) {
      graph.add_input(partner_label(input.name), type);
    }
  }
  const TensorType shares{.dtype = DType::kF32, .dims = {kBatch}};
  graph.add_input(label_share(mixed->target), shares);
  graph.add_input(partner_share(mixed->target), shares);
}

size_t partner_of(const Graph& graph, size_t label) {
  return runtime::place_of(graph, partner_label(graph.inputs[label].name));
}

std::optional<int64_t> class_at(const Graph& graph, size_t input, const std::vector<std::vector<std::byte>>& memory) {
  int64_t number = 0;
  if (graph.value(graph.inputs[input].value).type.dtype == DType::kI64) {
    std::memcpy(&number, memory[input].data(), sizeof number);
  } else {
    int32_t narrow = 0;
    std::memcpy(&narrow, memory[input].data(), sizeof narrow);
    number = narrow;
  }
  return number < 0 ? std::nullopt : std::optional(number);
}

}  // namespace xrun::cli
