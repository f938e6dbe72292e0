#include "runtime/lsp/repairs.h"

#include <algorithm>
#include <utility>

namespace xrun {
namespace {

bool touch(const Edit& a, const Edit& b) {
  return a.span.begin <= b.span.end && b.span.begin <= a.span.end;  // includes two insertions at one place
}

bool meet(const Repair& a, const Repair& b) {
  return std::ranges::any_of(a.edits, [&](const Edit& edit) {
    return std::ranges::any_of(b.edits, [&](const Edit& other) { return touch(edit, other); });
  });
}

}  // namespace

std::vector<Repair> sure_repairs(const Diagnostics& diagnostics, const SourceMap& sources, std::string_view path) {
  const auto is_here = [&](const Edit& edit) { return edit.span.valid() && sources.path(edit.span.file) == path; };
  std::vector<Repair> repairs;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    const auto fix = std::ranges::find_if(diagnostic.fixes, [&](const Fix& one) {
      return one.sure && !one.edits.empty() && std::ranges::all_of(one.edits, is_here);
    });
    if (fix == diagnostic.fixes.end()) {
      continue;
    }
    Repair repair{diagnostic.code, fix->title, diagnostic.primary.span, fix->edits};
    if (std::ranges::none_of(repairs, [&](const Repair& kept) { return meet(kept, repair); })) {
      repairs.push_back(std::move(repair));
    }
  }
  return repairs;
}

std::string repaired(std::string text, const std::vector<Repair>& repairs) {
  std::vector<Edit> edits;
  for (const Repair& repair : repairs) {
    edits.insert(edits.end(), repair.edits.begin(), repair.edits.end());
  }
  std::ranges::sort(edits, [](const Edit& a, const Edit& b) { return a.span.begin > b.span.begin; });
  for (const Edit& edit : edits) {
    text.replace(edit.span.begin, edit.span.end - edit.span.begin, edit.text);
  }
  return text;
}

}  // namespace xrun
