// The diagnostics of a check in the form of the protocol.
// Tests: tests/lsp/features_test.cpp
#include <fmt/format.h>
#include <map>

#include "runtime/lsp/features.h"
#include "runtime/lsp/pages.h"

namespace xrun::lsp {
namespace {

constexpr int kError = 1;
constexpr int kWarning = 2;
constexpr int kInformation = 3;
constexpr int kUnnecessary = 1;  // DiagnosticTag

class Published {
 public:
  Published(const Workspace& workspace, const Document& document)
      : workspace_(workspace), document_(document), analysis_(*document.analysis) {}

  Json all() const {
    Json list = Json::array();
    for (const Diagnostic& one : analysis_.diagnostics().all()) {
      list.push_back(diagnostic(one));
    }
    return list;
  }

 private:
  bool is_here(const Span& span) const { return span.valid() && span.file == analysis_.file().file; }

  // The range of a span. For a fault in another file, it is the range of the import that leads to that file.
  Json range_of(const Span& span) const {
    if (is_here(span)) {
      return analysis_.lines().range(span);
    }
    for (const lang::Decl& decl : analysis_.ast().decls) {
      const bool imports = decl.kind == lang::DeclKind::kImport || decl.kind == lang::DeclKind::kFrom;
      if (imports && span.valid() && decl.text.valid()) {
        return analysis_.lines().range(analysis_.ast()[decl.text].span);
      }
    }
    return analysis_.lines().range(0, 0);
  }

  const LineMap& lines_of(int32_t file) const {
    return lines_.try_emplace(file, analysis_.sources().text(file)).first->second;
  }

  void relate(Json& related, const Span& span, const std::string& text) const {
    if (!span.valid()) {
      return;
    }
    const std::string uri = is_here(span) ? document_.uri : workspace_.uri_of(analysis_.sources().path(span.file));
    if (uri.empty()) {
      return;
    }
    const Json range =
        is_here(span) ? analysis_.lines().range(span) : LineMap(analysis_.sources().text(span.file)).range(span);
    related.push_back({{"location", {{"uri", uri}, {"range", range}}}, {"message", text}});
  }

  Json diagnostic(const Diagnostic& d) const {
    std::string message = d.message;
    if (!d.primary.text.empty()) {
      message += fmt::format("\n{}", d.primary.text);
    }
    for (const std::string& note : d.notes) {
      message += fmt::format("\nnote: {}", note);
    }
    for (size_t i = 0; i < d.fixes.size(); ++i) {
      const Fix& fix = d.fixes[i];
      message += i > 0 && fix.title == d.fixes[i - 1].title ? "" : fmt::format("\nhelp: {}", fix.title);
      for (const std::string& line : fix.lines) {
        message += fmt::format("\n  {}", line);
      }
    }
    Json related = Json::array();
    if (!is_here(d.primary.span)) {
      relate(related, d.primary.span, d.message);
    }
    for (const Label& label : d.secondary) {
      relate(related, label.span, label.text);
    }
    for (const Expansion& step : d.expansion) {
      relate(related, step.call, fmt::format("expanding {}", step.name));
    }
    // The check for an editor has a lower limit of expansion than a command, so reaching it is not a fault of the file.
    Json json{{"range", range_of(d.primary.span)},
              {"severity", d.at_bound                       ? kInformation
                           : d.severity == Severity::kError ? kError
                                                            : kWarning},
              {"code", d.code},
              {"source", "xrun"},
              {"message", d.at_bound ? message + "\nnote: an editor expands less than `xrun check` does" : message}};
    if (const std::string page = code_uri(d.code); !page.empty()) {
      json["codeDescription"] = {{"href", page}};
    }
    if (!related.empty()) {
      json["relatedInformation"] = std::move(related);
    }
    if (d.code == "XG0215") {
      json["tags"] = {kUnnecessary};
    }
    return json;
  }

  const Workspace& workspace_;
  const Document& document_;
  const Analysis& analysis_;
  mutable std::map<int32_t, LineMap> lines_;  // lines of other files
};

}  // namespace

Json diagnostics_of(const Workspace& workspace, const Document& document) {
  Json params{{"uri", document.uri}, {"diagnostics", Published(workspace, document).all()}};
  if (document.version) {
    params["version"] = *document.version;
  }
  return params;
}

}  // namespace xrun::lsp
