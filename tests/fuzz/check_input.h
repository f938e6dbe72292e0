// Checks of the language's fuzz target for every input; the ordinary test binary also runs them over the corpus.
#pragma once

#include <set>
#include <string>

#include "lang/frontend.h"

namespace xrun::lang {

// Checks a text that no file belongs to. Empty, or what the front end did wrong: it has to end, to say why it refuses
// and what fixes it, and to be able to show what it says.
inline std::string fault_of_check(const std::string& name, std::string text, const OpRegistry& ops) {
  // A user's file may expand to 4 M nodes; here an input that uses its bounds up costs milliseconds.
  const FrontendOptions options{.ops = &ops, .max_nodes = 1'000, .max_steps = 10'000};
  SourceMap sources;
  Diagnostics diagnostics;
  const auto checked = check_text(name, std::move(text), sources, diagnostics, options);
  // One of each code is shown: a hundred like it take longer than what found them.
  std::set<std::string> shown;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    if (diagnostic.fixes.empty() || diagnostic.fixes[0].title.empty()) {
      return "a diagnostic says no fix: " + diagnostic.code + " " + diagnostic.message;
    }
    if (shown.insert(diagnostic.code).second && render(diagnostic, sources).empty()) {
      return "a diagnostic cannot be shown: " + diagnostic.code;
    }
  }
  for (const Diagnostic& later : checked ? checked->module.not_yet : std::vector<Diagnostic>()) {
    if (later.fixes.empty()) {
      return "a diagnostic says no fix: " + later.message;
    }
  }
  if (checked.has_value() == diagnostics.has_errors()) {
    return checked.has_value() ? "a text with errors passed" : "a text was refused without an error";
  }
  return {};
}

}  // namespace xrun::lang
