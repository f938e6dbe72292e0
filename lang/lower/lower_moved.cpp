// Reads the `moved` declarations: names that parts of the model had in earlier texts (graph/settings/moved.h).
#include <algorithm>
#include <fmt/format.h>

#include "lang/lower/module_builder.h"

namespace xrun::lang {
namespace {

bool is_path(std::string_view text) {
  return !text.empty() && text.front() != '.' && text.back() != '.' && text.find("..") == std::string_view::npos &&
         text.find(' ') == std::string_view::npos;
}

Diagnostic contradiction(Span at, Text message, Text label, Help help) {
  return fault("XG0226", at, std::move(message), std::move(label), std::move(help));
}

}  // namespace

// Reads the declarations of all files, since blocks and even the model may come from imports.
void ModuleBuilder::read_moved(const std::deque<SourceFile>& files) {
  Diagnostics& faults = ev_.diagnostics();
  for (const SourceFile& file : files) {
    for (const Decl& decl : file.ast.decls) {
      const auto is_string = [&](ExprId id) { return id.valid() && file.ast[id].kind == ExprKind::kString; };
      if (decl.kind != DeclKind::kMoved || !is_string(decl.text) || !is_string(decl.to)) {
        continue;
      }
      const Moved moved{file.ast.text(decl.text), file.ast.text(decl.to), decl.span};
      const Span from = file.ast[decl.text].span;
      const Span to = file.ast[decl.to].span;
      if (!is_path(moved.from) || !is_path(moved.to)) {
        const bool first = !is_path(moved.from);
        faults.add(contradiction(first ? from : to, {"`{}` is not the name of a tensor", first ? moved.from : moved.to},
                                 "not a name",
                                 {"write names with dots: moved \"backbone.conv\" -> \"backbone.stem\""}));
        continue;
      }
      const auto same = [&](std::string Moved::*name) {
        const auto at = std::ranges::find(run_.moved, moved.*name, name);
        return at == run_.moved.end() ? nullptr : &*at;
      };
      if (const Moved* other = same(&Moved::from)) {
        faults.add(contradiction(from, {"`{}` is moved twice", moved.from}, "again",
                                 {other->to == moved.to ? "leave one of the two out"
                                                        : "a later move begins where the one before it ended"})
                       .also(other->span, "moved here first"));
        continue;
      }
      if (const Moved* other = same(&Moved::to)) {
        faults.add(contradiction(to, {"`{}` and `{}` are moved to the same name", other->from, moved.from}, "again",
                                 {"leave one out; or if it had one name after the other, write them as a chain: "
                                  "\"{}\" -> \"{}\", \"{}\" -> \"{}\"",
                                  other->from, moved.from, moved.from, moved.to})
                       .also(other->span, "also moved here"));
        continue;
      }
      run_.moved.push_back(moved);
      if (leads_back(run_.moved, moved.from)) {
        run_.moved.pop_back();
        faults.add(contradiction(to, {"`{}` moves back to itself", moved.from}, "ends where it began",
                                 {"leave these moves out: a part that has its first name again needs no move"}));
      }
    }
  }
}

// Checks the moves, and gives renamed nodes their first names for random numbers. REQUIRES: the graph is built.
void ModuleBuilder::check_moved() {
  if (!choice_.model || ev_.diagnostics().has_errors()) {
    return;
  }
  for (const Moved& one : run_.moved) {
    if (names_a_part(one.from)) {
      ev_.report(contradiction(one.span, {"the model still has `{}`", one.from}, {"says that it is `{}` now", one.to},
                               {"leave the line out, or give the part that has this name today another one"}));
    } else if (one.span.file == main_.file && main_.all(DeclKind::kModel).size() == 1 &&
               !names_a_part(last_name(run_.moved, one.to))) {
      ev_.diagnostics().add(warning(
          "XG0227", one.span, {"nothing is called `{}`", last_name(run_.moved, one.to)}, "names no part of the model",
          {"leave the line out, or name a part: `xrun show FILE --table layers` lists them"}));
    }
  }
  // Random draws depend on the path, so a renamed part draws with its first path.
  for (Node& node : ev_.graph().nodes) {
    if (const std::string first = first_name(run_.moved, node.path); node.op->random && first != node.path) {
      node.attrs.set(std::string(kStreamAttr), first);
    }
  }
}

}  // namespace xrun::lang
