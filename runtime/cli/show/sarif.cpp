#include "runtime/cli/show/sarif.h"

#include <algorithm>

#include "graph/base/codes.h"
#include "runtime/lsp/workspace.h"

namespace xrun::cli {
namespace {

using Json = nlohmann::ordered_json;

// The path of a file as it was given on the command line; an absolute path becomes a file URI.
std::string uri_of(const std::string& path) {
  const std::string uri = lsp::file_uri(path);
  return path.starts_with('/') ? uri : uri.substr(std::string_view("file://").size());
}

Json region_of(const Span& span, const SourceMap& sources) {
  const Position begin = sources.position(span.file, span.begin);
  const Position end = sources.position(span.file, span.end);
  return {{"startLine", begin.line}, {"startColumn", begin.column}, {"endLine", end.line},
          {"endColumn", end.column}, {"byteOffset", span.begin},    {"byteLength", span.end - span.begin}};
}

Json location_of(const Span& span, const SourceMap& sources) {
  return {{"physicalLocation",
           {{"artifactLocation", {{"uri", uri_of(sources.path(span.file))}}}, {"region", region_of(span, sources)}}}};
}

Json related(const Span& span, const std::string& text, const SourceMap& sources, size_t id) {
  Json location{{"id", id}};
  location.update(location_of(span, sources));
  location["message"] = {{"text", text}};
  return location;
}

// A fix with edits, as the replacements in each file.
Json fix_of(const Fix& fix, const SourceMap& sources) {
  Json changes = Json::array();
  for (const Edit& edit : fix.edits) {
    const std::string uri = uri_of(sources.path(edit.span.file));
    const auto known =
        std::ranges::find_if(changes, [&](const Json& one) { return one["artifactLocation"]["uri"] == uri; });
    Json& change =
        known != changes.end()
            ? *known
            : changes.emplace_back(Json{{"artifactLocation", {{"uri", uri}}}, {"replacements", Json::array()}});
    change["replacements"].push_back(
        {{"deletedRegion", region_of(edit.span, sources)}, {"insertedContent", {{"text", edit.text}}}});
  }
  return {{"description", {{"text", fix.title}}}, {"artifactChanges", changes}};
}

// The message of a diagnostic, with the lines that follow it in the text output.
std::string message_of(const Diagnostic& diagnostic) {
  std::string text = diagnostic.message;
  text += diagnostic.primary.text.empty() ? "" : ": " + diagnostic.primary.text;
  for (const std::string& note : diagnostic.notes) {
    text += "\nnote: " + note;
  }
  for (const Fix& fix : diagnostic.fixes) {
    text += "\nhelp: " + fix.title;
    for (const std::string& line : fix.lines) {
      text += "\n  " + line;
    }
  }
  return text;
}

}  // namespace

size_t SarifLog::rule_of(const std::string& code) {
  const auto known = std::ranges::find(codes_, code);
  if (known == codes_.end()) {
    codes_.push_back(code);
    return codes_.size() - 1;
  }
  return static_cast<size_t>(known - codes_.begin());
}

void SarifLog::add(const Diagnostic& diagnostic, const SourceMap& sources) {
  Json result{{"ruleId", diagnostic.code},
              {"ruleIndex", rule_of(diagnostic.code)},
              {"level", diagnostic.severity == Severity::kError ? "error" : "warning"},
              {"message", {{"text", message_of(diagnostic)}}}};
  if (diagnostic.primary.span.valid()) {
    result["locations"] = Json::array({location_of(diagnostic.primary.span, sources)});
  }
  Json places = Json::array();
  for (const Label& label : diagnostic.secondary) {
    if (label.span.valid()) {
      places.push_back(related(label.span, label.text, sources, places.size()));
    }
  }
  for (const Expansion& step : diagnostic.expansion) {
    if (step.call.valid()) {
      places.push_back(related(step.call, "expanding " + step.name, sources, places.size()));
    }
  }
  if (!places.empty()) {
    result["relatedLocations"] = std::move(places);
  }
  Json fixes = Json::array();
  for (const Fix& fix : diagnostic.fixes) {
    const bool is_placed = std::ranges::all_of(fix.edits, [](const Edit& edit) { return edit.span.valid(); });
    if (!fix.edits.empty() && is_placed) {
      fixes.push_back(fix_of(fix, sources));
    }
  }
  if (!fixes.empty()) {
    result["fixes"] = std::move(fixes);
  }
  results_.push_back(std::move(result));
}

std::string SarifLog::text(const std::string& version) const {
  Json rules = Json::array();
  for (const std::string& code : codes_) {
    Json rule{{"id", code}};
    if (const auto page = find_code(code)) {
      rule["shortDescription"] = {{"text", page->title}};
      rule["fullDescription"] = {{"text", page->text}};
    }
    rules.push_back(std::move(rule));
  }
  const Json run{{"tool", {{"driver", {{"name", "xrun"}, {"semanticVersion", version}, {"rules", std::move(rules)}}}}},
                 {"columnKind", "unicodeCodePoints"},
                 {"results", results_}};
  const Json log{
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
  return log.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace xrun::cli
