#include "runtime/cli/class_lines.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/utf8.h"

namespace xrun::cli {

std::string class_lines(const Subject& subject, const runtime::BestClasses& best, const ClassNames& names, int64_t k,
                        const std::string& scores, bool json) {
  const std::vector<float>& values = scores == "logits" ? best.logits : best.probabilities;
  std::string out;
  for (int64_t row = 0; row < subject.count(); ++row) {
    const std::string input = subject.name(row);
    if (const std::string* fault = subject.fault_of(row)) {
      out += json ? json_line({{"input", input}, {"broken", *fault}}) : "";
      continue;
    }
    nlohmann::ordered_json object{{"input", input}, {"scores", scores}, {"classes", nlohmann::ordered_json::array()}};
    std::string line = printable_line(input) + "   " + scores;
    for (int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<size_t>(row * best.k + i);
      const std::string name = names.of(best.classes[at]);
      line += fmt::format("   {} {:.4f}", printable_line(name), values[at]);
      object["classes"].push_back({{"class", best.classes[at]}, {"name", name}, {"score", values[at]}});
    }
    out += json ? json_line(object) : line + "\n";
  }
  return out;
}

}  // namespace xrun::cli
