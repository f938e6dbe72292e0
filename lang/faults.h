// Faults of the user's text, each made together with its fix; and those of one file while it is read: a sink that keeps
// them in the order of the text and ends a flood.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/errors.h"

namespace xrun::lang {

// The way out of a fault: a fix with its edits, or only its title, as words.
struct Help {
  Help(Fix made) : fix(std::move(made)) {}
  Help(const char* title) : fix{title} {}
  Help(std::string title) : fix{std::move(title)} {}
  template <class... Args>
  requires(sizeof...(Args) > 0) Help(fmt::format_string<Args...> form, Args&&... args)
      : fix{fmt::format(form, std::forward<Args>(args)...)} {}

  Fix fix;
};

// An error. Nothing in this room makes a diagnostic in another way, so that none is without a fix. Further labels and
// notes are put behind it: fault(...).also(span, "declared here").note("...").
Diagnostic fault(const char* code, Span at, Text message, Text label, Help help);
Diagnostic warning(const char* code, Span at, Text message, Text label, Help help);

// A fix that is one replacement; an empty span at a place inserts.
Fix replacement(Text title, Span span, Text text, bool sure = false);
// Puts the candidate that is near enough for a typing slip in the place of `name`; where there is none, `otherwise`.
Fix did_you_mean(std::string_view name, const std::vector<std::string>& candidates, Span at, Help otherwise);

// Collects what lexer and parser find in one file; `flush` hands it on, sorted by place.
class Faults {
 public:
  // After so many errors the rest of a file is skipped: later errors seldom have causes of their own.
  static constexpr int kMaxErrors = 100;

  explicit Faults(Diagnostics& sink) : sink_(sink) {}

  // Keeps the diagnostic and gives it back for notes and further spans. Beyond kMaxErrors errors it is dropped.
  Diagnostic& error(const char* code, Span at, Text message, Text label, Help help) {
    return add(lang::fault(code, at, std::move(message), std::move(label), std::move(help)));
  }
  Diagnostic& warning(const char* code, Span at, Text message, Text label, Help help) {
    return add(lang::warning(code, at, std::move(message), std::move(label), std::move(help)));
  }
  // Whether errors are dropped from here on; loops that report ask before each report.
  bool full() const { return errors_ >= kMaxErrors; }
  bool full_of_warnings() const { return found_.size() >= 2 * kMaxErrors; }
  void flush();

 private:
  Diagnostic& add(Diagnostic diagnostic);

  Diagnostics& sink_;
  std::deque<Diagnostic> found_;
  Diagnostic dropped_;
  int errors_ = 0;
};

}  // namespace xrun::lang
