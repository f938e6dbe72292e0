// Checks of the language's fuzz target for every input; the ordinary test binary also runs them over the corpus.
#pragma once

#include <set>
#include <string>

#include "lang/frontend.h"

namespace xrun::lang {

// Checks a text in memory and returns a description of the front end's fault, or an empty string. The front end must
// end, give a reason and a fix for each error, and be able to print its diagnostics.
inline std::string fault_of_check(const std::string& name, std::string text, const OpRegistry& ops) {
  // A user's file may expand to 4 million nodes. The limits here are smaller, so that an input that reaches them takes
  // milliseconds.
  const FrontendOptions options{.ops = &ops, .max_nodes = 1'000, .max_steps = 10'000};
  SourceMap sources;
  Diagnostics diagnostics;
  const auto checked = check_text(name, std::move(text), sources, diagnostics, options);
  // Prints one diagnostic of each code only: printing a hundred similar ones takes longer than the check.
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
