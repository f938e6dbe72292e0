#include "runtime/cli/predict/class_lines.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/utf8.h"

namespace xrun::cli {

namespace {

std::string line_of(const std::string& input, const RankedClasses& ranked, bool is_named, int64_t row,
                    const std::string& scores, bool json) {
  const std::vector<float>& values = scores == "logits" ? ranked.best.logits : ranked.best.probabilities;
  nlohmann::ordered_json object{
      {"input", input}, {"head", ranked.ranking}, {"scores", scores}, {"classes", nlohmann::ordered_json::array()}};
  std::string line =
      fmt::format("{}   {}{}", printable_line(input), is_named ? printable_line(ranked.ranking) + "   " : "", scores);
  for (int64_t i = 0; i < ranked.k; ++i) {
    const auto at = static_cast<size_t>(row * ranked.best.k + i);
    const std::string name = ranked.names.of(ranked.best.classes[at]);
    line += fmt::format("   {} {:.4f}", printable_line(name), values[at]);
    object["classes"].push_back({{"class", ranked.best.classes[at]}, {"name", name}, {"score", values[at]}});
  }
  return json ? json_line(object) : line + "\n";
}

}  // namespace

std::string class_lines(const Subject& subject, const std::vector<RankedClasses>& ranked, const std::string& scores,
                        bool json) {
  std::string out;
  for (int64_t row = 0; row < subject.count(); ++row) {
    const std::string input = subject.name(row);
    if (const std::string* fault = subject.fault_of(row)) {
      out += json ? json_line({{"input", input}, {"broken", *fault}}) : "";
      continue;
    }
    for (const RankedClasses& one : ranked) {
      out += line_of(input, one, ranked.size() > 1, row, scores, json);
    }
  }
  return out;
}

}  // namespace xrun::cli
