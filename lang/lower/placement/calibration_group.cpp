// Lowers `calibration { ... }`, the rates that `xrun bench --calibrate` has measured on a node.
// Tests: tests/lang/lower/placement/calibration_group_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/lower/module_builder.h"
#include "lang/lower/placement/figure.h"

namespace xrun::lang {
namespace {

const std::vector<std::string> kKeys{"all_gather", "bandwidth", "bf16", "copy",         "decode",
                                     "f32",        "hand_over", "head", "instructions", "reduce_scatter",
                                     "slow_down",  "update"};

// The most measured calls of a kind, and the most threads of a list.
constexpr size_t kMostItems = 4096;

}  // namespace

// Returns the items of a list, or of one of its rows with `width` items; reports anything else.
const std::vector<Datum>* ModuleBuilder::figures_of(const Datum& value, std::string_view what, size_t width,
                                                    std::string_view example) {
  const bool is_list = value.kind == DatumKind::kList;
  if (!is_list || (width > 0 ? value.items->size() != width : value.items->empty()) ||
      value.items->size() > kMostItems) {
    ev_.refuse("XG0205", value.span, {"`{}` expects a list of figures, but gets {}", what, kind_text(value)}, "",
               {"write {} = {}", what, example});
    return nullptr;
  }
  return value.items.get();
}

void ModuleBuilder::lower_list(const SettingNode& node, Scope& scope, const SettingDef& def, const Figure& wanted,
                               std::vector<double>& list) {
  const auto value = value_of(node, scope, def);
  const auto* items =
      value ? figures_of(*value, node.key, 0, node.key == "slow_down" ? "[1, 1.2]" : "[10GB/s, 18GB/s]") : nullptr;
  for (size_t i = 0; items != nullptr && i < items->size(); ++i) {
    const auto number = figure((*items)[i], node.key, wanted);
    if (!number) {
      return;
    }
    list.push_back(*number);
  }
}

void ModuleBuilder::lower_exchange(const SettingNode& node, Scope& scope, const SettingDef& def, ExchangeTime& time) {
  const auto value = value_of(node, scope, def);
  const auto* items = value ? figures_of(*value, node.key, 2, "[8us, 12GB/s]") : nullptr;
  if (items != nullptr) {
    time.start = figure((*items)[0], node.key, kTimeFigure).value_or(0);
    time.rate = figure((*items)[1], node.key, kRateFigure).value_or(0);
  }
}

// Lowers a group of measured calls: `conv = [[1.2e6, 40_960B, 31us]]`, operations, bytes and time of each.
void ModuleBuilder::lower_calls(const SettingNode& node, const Scope& scope, const SettingDef& def, CallTimes& calls) {
  if (node.has_value()) {
    ev_.refuse("XG0205", node.key_span, {"`{}` is a group", node.key}, "has a value here",
               {"write {} {{ conv = [[1.2e6, 40960B, 31us]] }}", node.key});
    return;
  }
  for (const SettingNode& kind : node.children) {
    Scope own = scope_of(kind, scope);
    const auto value = value_of(kind, own, def);
    const auto* rows = value ? figures_of(*value, kind.key, 0, "[[1.2e6, 40960B, 31us]]") : nullptr;
    for (size_t i = 0; rows != nullptr && i < rows->size(); ++i) {
      const auto* row = figures_of((*rows)[i], kind.key, 3, "[[1.2e6, 40960B, 31us]]");
      if (row == nullptr) {
        return;
      }
      const auto flops = figure((*row)[0], kind.key, kFlopsFigure);
      const auto bytes = figure((*row)[1], kind.key, kBytesFigure);
      const auto time = figure((*row)[2], kind.key, kCallFigure);
      if (!flops || !bytes || !time) {
        return;
      }
      calls[kind.key].push_back({*flops, *bytes, *time});
    }
  }
}

void ModuleBuilder::lower_calibrated(const SettingNode& node, Scope& scope, const SettingDef& def,
                                     Calibration& calibration) {
  const auto read = [&](const Figure& wanted) { return figure(node, scope, def, wanted).value_or(0); };
  if (node.key == "instructions") {
    const std::string name = symbol(node);
    calibration.instructions = name.empty() ? text(node, scope, def).value_or("") : name;
  } else if (node.key == "f32" || node.key == "bf16") {
    lower_calls(node, scope, def, node.key == "f32" ? calibration.f32 : calibration.bf16);
  } else if (node.key == "head" && !node.has_value()) {
    for (const SettingNode& child : node.children) {
      Scope own = scope_of(child, scope);
      if (child.key == "f32" || child.key == "bf16") {
        (child.key == "f32" ? calibration.head_f32 : calibration.head_bf16) =
            figure(child, own, def, kComputeFigure).value_or(0);
      } else {
        refuse_figure(child, "head", {"bf16", "f32"});
      }
    }
  } else if (node.key == "update") {
    calibration.update = read(kRateFigure);
  } else if (node.key == "bandwidth" || node.key == "slow_down") {
    const bool is_rate = node.key == "bandwidth";
    lower_list(node, scope, def, is_rate ? kRateFigure : kFactorFigure,
               is_rate ? calibration.bandwidth : calibration.slow_down);
  } else if (node.key == "copy" || node.key == "all_gather" || node.key == "reduce_scatter") {
    lower_exchange(node, scope, def,
                   node.key == "copy"         ? calibration.copy
                   : node.key == "all_gather" ? calibration.all_gather
                                              : calibration.reduce_scatter);
  } else if (node.key == "hand_over") {
    calibration.hand_over = read(kTimeFigure);
  } else if (node.key == "decode") {
    calibration.decode = read(kPixelFigure);
  } else {
    refuse_figure(node, "calibration", kKeys);
  }
}

void ModuleBuilder::lower_calibration(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (node.has_value()) {
    refuse_value(node, def);
    return;
  }
  Calibration calibration;
  for (const SettingNode& child : node.children) {
    Scope own = scope_of(child, scope);
    lower_calibrated(child, own, def, calibration);
  }
  if (calibration.instructions.empty()) {
    ev_.refuse("XG0501", node.key_span, {"`calibration` has no `instructions`"},
               "its times are those of an instruction set", {"write instructions = avx512"});
    return;
  }
  run_.figures.calibration = std::move(calibration);
}

}  // namespace xrun::lang
