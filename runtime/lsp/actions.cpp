// Code actions: the fixes of diagnostics, and one action that applies all sure fixes.
#include <map>
#include <optional>

#include "runtime/lsp/features.h"
#include "runtime/lsp/repairs.h"

namespace xrun::lsp {
namespace {

// {uri: [edits]}; nullopt if an edit would change a text that an editor cannot change.
std::optional<Json> changes_of(const Context& context, const std::vector<Edit>& edits) {
  const SourceMap& sources = context.analysis().sources();
  Json changes = Json::object();
  for (const Edit& edit : edits) {
    const bool is_here = edit.span.file == context.analysis().file().file;
    const std::string path = edit.span.valid() ? sources.path(edit.span.file) : "";
    const std::string uri = is_here                 ? context.document.uri
                            : path.starts_with('/') ? context.workspace.uri_of(path)
                                                    : "";
    if (uri.empty()) {
      return std::nullopt;
    }
    const Json range =
        is_here ? context.analysis().lines().range(edit.span) : LineMap(sources.text(edit.span.file)).range(edit.span);
    changes[uri].push_back({{"range", range}, {"newText", edit.text}});
  }
  return changes;
}

// Whether the client asks for actions of this kind. A request for "quickfix" includes "quickfix.x".
bool wants(const Json& params, const std::string& kind) {
  const Json& about = field(params, "context");
  const auto only = about.is_object() ? about.find("only") : about.end();
  if (!about.is_object() || only == about.end() || !only->is_array()) {
    return true;
  }
  for (const Json& one : *only) {
    const std::string wanted = one.is_string() ? one.get<std::string>() : "";
    if (kind == wanted || kind.starts_with(wanted + ".")) {
      return true;
    }
  }
  return false;
}

}  // namespace

Json code_actions(const Context& context, const Json& params) {
  const Analysis& analysis = context.analysis();
  const Json& range = field(params, "range");
  const uint32_t begin = analysis.lines().offset(field(range, "start"));
  const uint32_t end = analysis.lines().offset(field(range, "end"));
  const Json published = diagnostics_of(context.workspace, context.document)["diagnostics"];
  Json actions = Json::array();
  const std::vector<Diagnostic>& all = analysis.diagnostics().all();
  for (size_t i = 0; i < all.size() && wants(params, "quickfix"); ++i) {
    const Span& span = all[i].primary.span;
    const bool is_here = span.file == analysis.file().file;
    if ((is_here && (span.begin > end || span.end < begin)) || (!is_here && begin > 0)) {
      continue;
    }
    for (const Fix& fix : all[i].fixes) {
      const auto changes = fix.edits.empty() ? std::nullopt : changes_of(context, fix.edits);
      if (changes) {
        actions.push_back({{"title", fix.numbered && !fix.lines.empty() ? fix.lines[0] : fix.title},
                           {"kind", "quickfix"},
                           {"diagnostics", {published[i]}},
                           {"isPreferred", fix.sure},
                           {"edit", {{"changes", *changes}}}});
      }
    }
  }
  if (wants(params, "source.fixAll.xrun")) {
    std::vector<Edit> edits;
    for (const Repair& repair : sure_repairs(analysis.diagnostics(), analysis.sources(), analysis.file().path)) {
      edits.insert(edits.end(), repair.edits.begin(), repair.edits.end());
    }
    if (const auto changes = edits.empty() ? std::nullopt : changes_of(context, edits)) {
      actions.push_back({{"title", "apply all fixes that are sure"},
                         {"kind", "source.fixAll.xrun"},
                         {"edit", {{"changes", *changes}}}});
    }
  }
  return actions;
}

}  // namespace xrun::lsp
