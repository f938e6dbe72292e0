#include "planner/report/page/html_page.h"

#include <nlohmann/json.hpp>

#include "graph/base/check.h"
#include "planner/report/page/page_json.h"

namespace xrun::planner {
namespace {

// Returns JSON that can stand in a script element: no text in it ends the element or begins a comment.
std::string script_json(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    safe += c == '<' ? "\\u003c" : std::string(1, c);
  }
  return safe;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

// Appends the frame up to `mark`, which is left out, and `text`.
void append(std::string& page, std::string_view& frame, std::string_view mark, const std::string& text) {
  const size_t at = frame.find(mark);
  XRUN_CHECK(at != std::string_view::npos, "the page has no place for " + std::string(mark));
  page += std::string(frame.substr(0, at)) + text;
  frame.remove_prefix(at + mark.size());
}

}  // namespace

PageParts page_parts() {
  PageParts parts;
  for (const PageText& part : page_texts()) {
    if (part.name == "frame") {
      parts.frame = part.text;
    } else if (part.name == "markup") {
      parts.markup = part.text;
    } else {
      (part.name == "style" ? parts.style : parts.scripts) += part.text;
    }
  }
  return parts;
}

std::string join_page(const PageParts& parts, const std::string& title, const nlohmann::ordered_json& data) {
  std::string_view frame = parts.frame;
  std::string page;
  append(page, frame, "<!-- title -->", escaped(title));
  append(page, frame, "/* style */", parts.style);
  append(page, frame, "<!-- body -->\n", std::string(parts.markup));
  append(page, frame, "\"data\"", script_json(data));
  append(page, frame, "/* scripts */", parts.scripts);
  page += frame;
  return page;
}

std::string html_page(const Plan& plan, const Module& module, const MeasuredTimes* measured) {
  return join_page(page_parts(), plan.model + ", plan " + plan.id, page_json(plan, module, measured));
}

}  // namespace xrun::planner
