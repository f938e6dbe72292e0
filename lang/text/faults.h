// Makes diagnostics for faults in the user's text, each with its fix, and collects those of one file in a sink that
// sorts them by place and bounds their number.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/errors.h"

namespace xrun::lang {

// The fix of a fault, made from a title or from a fix with edits.
struct Help {
  Help(Fix made) : fix(std::move(made)) {}
  Help(const char* title) : fix{title} {}
  Help(std::string title) : fix{std::move(title)} {}
  template <class... Args>
  requires(sizeof...(Args) > 0) Help(fmt::format_string<Args...> form, Args&&... args)
      : fix{fmt::format(form, std::forward<Args>(args)...)} {}

  Fix fix;
};

// Makes an error. All diagnostics of lang/ are made by these two functions, so that each has a fix. Labels and notes
// are added to the result: fault(...).also(span, "declared here").note("...").
Diagnostic fault(const char* code, Span at, Text message, Text label, Help help);
Diagnostic warning(const char* code, Span at, Text message, Text label, Help help);

// Makes a fix of one replacement; an empty span inserts.
Fix replacement(Text title, Span span, Text text, bool sure = false);
// Makes a fix that replaces `name` by the nearest candidate if it is near enough to be a typing slip; otherwise returns
// `otherwise`.
Fix did_you_mean(std::string_view name, const std::vector<std::string>& candidates, Span at, Help otherwise);

// Collects the faults that lexer and parser find in one file; `flush` passes them on, sorted by place.
class Faults {
 public:
  // After this many errors the rest of a file is skipped, since later errors seldom have causes of their own.
  static constexpr int kMaxErrors = 100;

  explicit Faults(Diagnostics& sink) : sink_(sink) {}

  // Keeps the diagnostic and returns it, so that notes and spans can be added. At most kMaxErrors errors and, counted
  // separately, at most that many warnings are kept, so that no number of warnings hides an error.
  Diagnostic& error(const char* code, Span at, Text message, Text label, Help help) {
    return add(lang::fault(code, at, std::move(message), std::move(label), std::move(help)));
  }
  Diagnostic& warning(const char* code, Span at, Text message, Text label, Help help) {
    return add(lang::warning(code, at, std::move(message), std::move(label), std::move(help)));
  }
  // Whether kMaxErrors errors were found; loops that report errors then stop.
  bool full() const { return errors_ >= kMaxErrors; }
  bool full_of_warnings() const { return static_cast<int>(found_.size()) - errors_ >= kMaxErrors; }
  void flush();

 private:
  Diagnostic& add(Diagnostic diagnostic);

  Diagnostics& sink_;
  std::deque<Diagnostic> found_;
  Diagnostic dropped_;
  int errors_ = 0;
};

}  // namespace xrun::lang
