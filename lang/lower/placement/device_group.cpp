// Lowers `device { memory, bandwidth, flops { f32, bf16 }, link, host }`: devices of a node whose figures the text
// states, in place of a kind of the catalogue.
// Tests: tests/lang/lower/placement/device_group_test.cpp
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/settings/gpu_def.h"
#include "lang/lower/module_builder.h"
#include "lang/lower/placement/figure.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// A figure of a device and the member that has it.
template <typename T>
struct DeviceKey {
  std::string_view key;
  T GpuDef::*member;
  Figure figure;
};

constexpr DeviceKey<double> kRates[] = {
    {"bandwidth", &GpuDef::bytes_per_second, kRateFigure},
    {"link", &GpuDef::link_rate, kRateFigure},
    {"host", &GpuDef::host_rate, kRateFigure},
};
constexpr DeviceKey<Flops> kFlops[] = {
    {"f32", &GpuDef::flops_per_second_f32, kComputeFigure},
    {"bf16", &GpuDef::flops_per_second_bf16, kComputeFigure},
};

}  // namespace

std::optional<double> ModuleBuilder::figure(const Datum& value, std::string_view what, const Figure& figure) {
  std::optional<double> number;
  if (figure.dimension != Dimension::kPlain) {
    number = quantity(value, what, value.span, figure.dimension);
  } else if (value.plain_number()) {
    number = value.as_double();
  } else {
    ev_.refuse("XG0205", value.span, {"`{}` expects a number without a unit, but gets {}", what, kind_text(value)}, "",
               {"write a number of {}", figure.range});
  }
  if (number && !(*number >= figure.low && *number <= figure.high)) {
    return ev_.refuse("XG0214", value.span, {"`{}` cannot be {}", what, to_text(value)}, "",
                      {"write {}", figure.range});
  }
  return number;
}

std::optional<double> ModuleBuilder::figure(const SettingNode& node, Scope& scope, const SettingDef& def,
                                            const Figure& wanted) {
  const auto value = value_of(node, scope, def);
  return value ? figure(*value, node.key, wanted) : std::nullopt;
}

void ModuleBuilder::refuse_figure(const SettingNode& node, std::string_view group,
                                  const std::vector<std::string>& known) {
  ev_.report(fault("XG0210", node.key_span, {"unknown setting `{}` in `{}`", node.key, group},
                   {"not a setting of {}", group},
                   did_you_mean(node.key, known, node.key_span,
                                {"leave it out, or write a setting of `{}`: {}", group, fmt::join(known, ", ")}))
                 .note("an unknown setting is always an error: no setting is ignored"));
}

void ModuleBuilder::lower_device(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (node.has_value()) {
    refuse_value(node, def);
    return;
  }
  GpuDef device{.name = std::string(kStatedDevice),
                .launch = kUsualLaunch,
                .link_rate = kUsualLinkRate,
                .host_rate = kUsualLinkRate};
  for (const SettingNode& child : node.children) {
    Scope own = scope_of(child, scope);
    if (child.key == "memory") {
      device.memory = static_cast<Bytes>(figure(child, own, def, kMemoryFigure).value_or(0));
    } else if (child.key == "flops" && !child.has_value()) {
      lower_flops(child, own, def, device);
    } else if (child.key == "flops") {
      ev_.refuse("XG0205", child.key_span, {"`flops` is a group"}, "has a value here",
                 {"write flops { f32 = 60TFLOPS }"});
    } else if (const auto* rate = std::ranges::find(kRates, child.key, &DeviceKey<double>::key);
               rate != std::end(kRates)) {
      device.*rate->member = figure(child, own, def, rate->figure).value_or(0);
    } else {
      refuse_figure(child, "device", {"bandwidth", "flops", "host", "link", "memory"});
    }
  }
  const SettingNode* flops = node.find("flops");
  const std::string_view missing = node.find("memory") == nullptr                         ? "memory"
                                   : node.find("bandwidth") == nullptr                    ? "bandwidth"
                                   : flops == nullptr                                     ? "flops"
                                   : !flops->has_value() && flops->find("f32") == nullptr ? "flops.f32"
                                                                                          : "";
  if (!missing.empty()) {
    ev_.refuse("XG0501", node.key_span, {"`device` has no `{}`", missing}, "a plan depends on it",
               {"write device { memory = 80GB, bandwidth = 2TB/s, flops { f32 = 60TFLOPS } }"});
    return;
  }
  if (device.flops_per_second_bf16 == 0) {
    device.flops_per_second_bf16 = device.flops_per_second_f32;
  }
  run_.figures.device = std::move(device);
}

void ModuleBuilder::lower_flops(const SettingNode& node, const Scope& scope, const SettingDef& def, GpuDef& device) {
  for (const SettingNode& child : node.children) {
    Scope own = scope_of(child, scope);
    if (const auto* rate = std::ranges::find(kFlops, child.key, &DeviceKey<Flops>::key); rate != std::end(kFlops)) {
      device.*rate->member = figure(child, own, def, rate->figure).value_or(0);
    } else {
      refuse_figure(child, "flops", {"bf16", "f32"});
    }
  }
}

}  // namespace xrun::lang
