#include "runtime/cli/predict/roc_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "graph/os/durable.h"
#include "runtime/cli/progress/verified_text.h"

namespace xrun::cli {
namespace {

using runtime::RocPoint;
using runtime::VerifiedPairs;

constexpr std::string_view kJsonBegin = "{\"v\":1,\"roc\":";
constexpr std::string_view kSvgBegin = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"xrun-roc\"";
constexpr FileKind kJson{.name = "ROC curve", .code = "XG0901", .magic = kJsonBegin, .flag = "--roc"};
constexpr FileKind kSvg{.name = "picture of ROC curves", .code = "XG0901", .magic = kSvgBegin, .flag = "--roc"};

bool is_svg(const std::string& path) { return path.ends_with(".svg"); }

std::string json_of(const std::vector<VerifiedPairs>& verified) {
  auto curves = nlohmann::ordered_json::object();
  for (const VerifiedPairs& one : verified) {
    auto& curve = curves[well_formed(one.key)];
    curve = verified_json(one);
    for (const auto& [name, part] :
         {std::pair("thresholds", &RocPoint::threshold), {"far", &RocPoint::far}, {"tar", &RocPoint::tar}}) {
      curve[name] = nlohmann::ordered_json::array();
      for (const RocPoint& point : one.roc) {
        curve[name].push_back(point.*part);
      }
    }
  }
  return std::string(kJsonBegin) + curves.dump() + "}\n";
}

// The picture: a frame of 480 x 360 in which TAR grows upwards from 0 to 1, and log10(FAR) to the right up to 0.
constexpr double kLeft = 60;
constexpr double kTop = 20;
constexpr double kWidth = 480;
constexpr double kHeight = 360;
// Colours that people with colour blindness can tell apart: Okabe and Ito, "Color Universal Design", 2008.
constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"};

struct Frame {
  int decades;  // the axis of FARs begins at 10^-decades
  double x(double far) const {
    return kLeft + kWidth * (1 + std::log10(std::max(far, std::pow(10, -decades))) / decades);
  }
  static double y(double tar) { return kTop + kHeight * (1 - tar); }
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable_line(text)) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

std::string line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x1, y1, x2,
                     y2);
}

std::string text(double x, double y, std::string_view anchor, std::string_view words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, words);
}

std::string grid(const Frame& frame) {
  std::string out;
  for (int decade = -frame.decades; decade <= 0; ++decade) {
    const double x = frame.x(std::pow(10, decade));
    out += line(x, kTop, x, kTop + kHeight);
    out += text(x, kTop + kHeight + 16, "middle", decade == 0 ? "1" : fmt::format("1e{}", decade));
  }
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double y = Frame::y(tenth / 10.0);
    out += line(kLeft, y, kLeft + kWidth, y);
    out += text(kLeft - 6, y + 4, "end", fmt::format("{} %", 10 * tenth));
  }
  out += text(kLeft + kWidth / 2, kTop + kHeight + 36, "middle", "FAR: accepted pairs of different classes");
  out +=
      fmt::format("<text transform=\"translate(14 {:.0f}) rotate(-90)\" text-anchor=\"middle\">", kTop + kHeight / 2);
  return out + "TAR: accepted pairs of one class</text>\n";
}

std::string curve(const VerifiedPairs& verified, const Frame& frame, std::string_view colour) {
  std::string points;
  std::string last;
  for (const RocPoint& point : verified.roc) {
    std::string now = fmt::format("{:.1f},{:.1f}", frame.x(point.far), Frame::y(point.tar));
    if (now != last) {
      points += (points.empty() ? "" : " ") + now;
      last = std::move(now);
    }
  }
  return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n", colour, points);
}

std::string svg_of(const std::vector<VerifiedPairs>& verified) {
  const auto most = std::ranges::max_element(verified, {}, &VerifiedPairs::different)->different;
  const Frame frame{
      std::max(1, static_cast<int>(std::ceil(std::log10(static_cast<double>(std::max<int64_t>(most, 1))))))};
  std::string out = fmt::format(
      "{} width=\"560\" height=\"430\" viewBox=\"0 0 560 430\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"560\" height=\"430\" fill=\"#fff\"/>\n",
      kSvgBegin);
  out += grid(frame);
  for (size_t i = 0; i < verified.size(); ++i) {
    const std::string_view colour = kColours[i % kColours.size()];
    const double y = kTop + kHeight - 14 - 18 * static_cast<double>(verified.size() - 1 - i);
    out += curve(verified[i], frame, colour);
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"4\" fill=\"{}\"/>\n",
                       kLeft + kWidth - 200, y - 6, colour);
    out += text(kLeft + kWidth - 182, y, "start",
                fmt::format("{} {:.2f} %", escaped(verified[i].key), 100 * verified[i].accuracy));
  }
  return out + "</svg>\n";
}

}  // namespace

Status check_roc_path(const std::string& path) {
  if (path.empty()) {
    return {};
  }
  if (!is_svg(path) && !path.ends_with(".json")) {
    return usage_error("XG0906", {"`--roc {}` is neither a .json nor a .svg file", path},
                       "name one: --roc roc.json for the points, --roc roc.svg for a picture");
  }
  return check_place(path, is_svg(path) ? kSvg : kJson);
}

Status write_roc(const std::string& path, const std::vector<VerifiedPairs>& verified) {
  const std::string content = is_svg(path) ? svg_of(verified) : json_of(verified);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(content))};
  return replace_file(path, pieces, is_svg(path) ? kSvg : kJson);
}

}  // namespace xrun::cli
