// Tests: tests/runtime/bench/calibration/cluster_text_test.cpp
#include "runtime/bench/calibration/cluster_text.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "graph/base/check.h"
#include "lang/format/format.h"

namespace xrun::runtime {
namespace {

std::string rate(double bytes) { return fmt::format("{:.4g}GB/s", bytes / 1e9); }
std::string time(Seconds seconds) { return fmt::format("{:.4g}us", seconds * 1e6); }

// A number of four digits without an exponent, since units follow no exponent.
std::string bytes(double count) { return fmt::format("{:.0f}B", count); }

std::string list(const std::vector<double>& values, std::string (*text)(double)) {
  std::string all;
  for (const double value : values) {
    all += (all.empty() ? "[" : ", ") + text(value);
  }
  return all + "]";
}

void add_calls(std::string_view type, const CallTimes& calls, std::string& text) {
  text += fmt::format("      {} {{\n", type);
  for (const auto& [kind, measured] : calls) {
    std::string rows;
    for (const CallTime& call : measured) {
      rows += fmt::format("{}[{:.4g}, {}, {}]", rows.empty() ? "" : ", ", call.flops, bytes(call.bytes),
                          fmt::format("{:.4f}us", call.time * 1e6));
    }
    text += fmt::format("        {} = [{}]\n", kind, rows);
  }
  text += "      }\n";
}

void add_exchange(std::string_view key, const ExchangeTime& exchange, std::string& text) {
  text += fmt::format("      {} = [{}, {}]\n", key, time(exchange.start), rate(exchange.rate));
}

std::string in_quotes(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  }
  return quoted + "\"";
}

bool is_name(std::string_view name) {
  return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
         std::ranges::all_of(name, [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; });
}

}  // namespace

std::string cluster_text(std::string_view name, std::string_view cpu, int cores, Bytes memory,
                         const Calibration& calibration) {
  std::string text =
      "xgraph 1\n\n## Measured by `xrun bench --calibrate`. Plans that use this cluster have the times of "
      "this machine.\n\n";
  text +=
      fmt::format("cluster {} {{\n  node {{\n    cpu = {}\n    cores = {}\n    memory = {}MiB\n    calibration {{\n",
                  is_name(name) ? name : "here", in_quotes(cpu), cores, memory / kMiB);
  text += fmt::format("      instructions = {}\n", calibration.instructions);
  text += fmt::format("      bandwidth = {}\n", list(calibration.bandwidth, rate));
  text += fmt::format("      slow_down = {}\n",
                      list(calibration.slow_down, [](double factor) { return fmt::format("{:.4g}", factor); }));
  text += fmt::format("      update = {}\n", rate(calibration.update));
  text += fmt::format("      hand_over = {}\n", time(calibration.hand_over.value_or(0)));
  add_exchange("copy", calibration.copy, text);
  add_exchange("all_gather", calibration.all_gather, text);
  add_exchange("reduce_scatter", calibration.reduce_scatter, text);
  text += fmt::format("      decode = {:.4g}ns\n", calibration.decode * 1e9);
  text += fmt::format("      head {{\n        f32 = {:.4g}GFLOPS\n        bf16 = {:.4g}GFLOPS\n      }}\n",
                      calibration.head_f32 / 1e9, calibration.head_bf16 / 1e9);
  add_calls("f32", calibration.f32, text);
  add_calls("bf16", calibration.bf16, text);
  text += "    }\n  }\n}\n";
  SourceMap sources;
  Diagnostics diagnostics;
  const auto formatted = lang::format("here.xgraph", text, sources, diagnostics);
  XRUN_CHECK(formatted.has_value(), "the text of a calibrated cluster has a fault");
  return *formatted;
}

}  // namespace xrun::runtime
