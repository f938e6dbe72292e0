// Finds the path of the setting at a place.
#include <algorithm>
#include <fmt/format.h>

#include "runtime/lsp/features.h"

namespace xrun::lsp {
namespace {

bool holds(const Span& span, uint32_t offset) { return span.begin <= offset && offset <= span.end; }

// Whether the offset belongs to this setting. `between`: only groups count whose braces contain the offset.
bool enters(const lang::Ast& ast, const lang::Setting& setting, uint32_t offset, bool between) {
  const bool is_named = setting.kind != lang::SettingKind::kSource && !setting.path.empty();
  const bool is_group = setting.kind == lang::SettingKind::kGroup;
  return is_named && holds(setting.span, offset) &&
         (!between || (is_group && offset > ast[setting.path].back().span.end));
}

std::string path_to(const Analysis& analysis, uint32_t offset, bool between) {
  const lang::Ast& ast = analysis.ast();
  const auto decl = std::ranges::find_if(
      ast.decls, [&](const lang::Decl& one) { return lang::has_settings(one.kind) && holds(one.span, offset); });
  if (decl == ast.decls.end()) {
    return "";
  }
  std::string path(lang::keyword_of(decl->kind));
  std::span<const lang::Setting> settings = ast[decl->settings];
  for (auto at = settings.begin(); at != settings.end();) {
    if (!enters(ast, *at, offset, between)) {
      ++at;
      continue;
    }
    path += fmt::format(".{}", lang::join_path(ast[at->path]));
    path += at->name && offset > at->name.span.end ? fmt::format(".{}", at->name.text) : "";
    settings = ast[at->settings];
    at = settings.begin();
  }
  return path;
}

}  // namespace

std::string setting_path(const Analysis& analysis, uint32_t offset) { return path_to(analysis, offset, false); }

std::string group_path(const Analysis& analysis, uint32_t offset) { return path_to(analysis, offset, true); }

}  // namespace xrun::lsp
