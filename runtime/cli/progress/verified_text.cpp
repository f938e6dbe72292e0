#include "runtime/cli/progress/verified_text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "graph/base/units.h"

namespace xrun::cli {
namespace {

using runtime::TarAtFar;
using runtime::VerifiedPairs;

// A FAR: "=1e-3"; "<3.3e-4" if no pair of different classes is accepted.
std::string far_text(double far, int64_t different) {
  if (far > 0) {
    return fmt::format("=1e{}", std::lround(std::log10(far)));
  }
  const double most = 1 / static_cast<double>(different);
  int exponent = 0;
  for (double rest = most; rest < 0.9995; rest *= 10) {
    --exponent;
  }
  return fmt::format("<{:.1f}e{}", most * std::pow(10, -exponent), exponent);
}

std::string tar_text(const TarAtFar& one, int64_t different) {
  return fmt::format("TAR@FAR{} {:.2f} %", far_text(one.far, different), 100 * one.tar);
}

// The TAR at the smallest FAR that the number of pairs can measure. REQUIRES: there is a TAR.
const TarAtFar& smallest(const VerifiedPairs& verified) {
  const auto& all = verified.tar_at_far;
  return all.size() > 1 ? all[all.size() - 2] : all.back();
}

}  // namespace

std::string verified_line(const VerifiedPairs& verified, bool unicode) {
  std::string line = fmt::format("{}   {}   accuracy {:.2f} {} {:.2f} %   threshold {:.2f}", verified.key,
                                 counted(verified.pairs, "pair"), 100 * verified.accuracy, unicode ? "±" : "+-",
                                 100 * verified.deviation, verified.threshold);
  line += verified.tar_at_far.empty() ? "" : "   " + tar_text(smallest(verified), verified.different);
  line += verified.left_out > 0 ? fmt::format("   {} broken left out", counted(verified.left_out, "pair")) : "";
  return line + "   " + format_seconds(verified.seconds);
}

std::string tar_line(const VerifiedPairs& verified) {
  std::string line;
  for (const TarAtFar& one : verified.tar_at_far) {
    line += tar_text(one, verified.different) + "   ";
  }
  return line.empty() ? "" : line + counted(verified.different, "pair") + " of different classes";
}

std::string verified_fields(const VerifiedPairs& verified) {
  std::string fields = fmt::format(" {0}.pairs={1} {0}.deviation={2:.4f} {0}.threshold={3:.2f}", verified.key,
                                   verified.pairs, verified.deviation, verified.threshold);
  if (!verified.tar_at_far.empty()) {
    const TarAtFar& one = smallest(verified);
    const std::string far = far_text(one.far, verified.different);
    fields += fmt::format(" {}.tar@{}={:.4f}", verified.key, one.far > 0 ? far.substr(1) : far, one.tar);
  }
  return fields;
}

nlohmann::ordered_json verified_json(const VerifiedPairs& verified) {
  nlohmann::ordered_json json{{"pairs", verified.pairs},         {"different", verified.different},
                              {"left_out", verified.left_out},   {"folds", verified.folds},
                              {"accuracy", verified.accuracy},   {"deviation", verified.deviation},
                              {"threshold", verified.threshold}, {"tar_at_far", nlohmann::ordered_json::array()}};
  for (const TarAtFar& one : verified.tar_at_far) {
    nlohmann::ordered_json tar{
        {"far", one.far}, {"tar", one.tar}, {"deviation", one.deviation}, {"measured_far", one.measured}};
    if (one.far == 0) {
      tar["far_below"] = 1 / static_cast<double>(verified.different);
    }
    json["tar_at_far"].push_back(std::move(tar));
  }
  return json;
}

}  // namespace xrun::cli
