// Faults of the user's text, each made together with its fix, and those of one file while it is read: a sink that
// keeps them in the order of the text and ends a flood.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/diagnostic.h"

namespace xrun::lang {

// An error. Nothing in this room makes a diagnostic in another way, so none is without a fix.
//   fix  what to do, {"write it so"}; with an edit where the edit is mechanical (replacement, did_you_mean)
Diagnostic fault(const char* code, Span at, std::string message, std::string label, Fix fix);
Diagnostic warning(const char* code, Span at, std::string message, std::string label, Fix fix);

// A fix that is one replacement; an empty span at a place inserts.
Fix replacement(std::string title, Span span, std::string text, bool sure = false);
// Puts the candidate that is near enough for a typing slip in the place of `name`; where there is none, `otherwise`.
Fix did_you_mean(std::string_view name, const std::vector<std::string>& candidates, Span at, Fix otherwise);

// Collects what lexer and parser find in one file; `flush` hands it on, sorted by place.
class Faults {
 public:
  // After so many errors a file is not read on word by word: what follows is seldom independent of what came before.
  static constexpr int kMaxErrors = 100;

  explicit Faults(Diagnostics& sink) : sink_(sink) {}

  // Keeps the diagnostic and gives it back for notes and further spans. Beyond kMaxErrors errors it is dropped.
  Diagnostic& error(const char* code, Span at, std::string message, std::string label, Fix fix) {
    return add(lang::fault(code, at, std::move(message), std::move(label), std::move(fix)));
  }
  Diagnostic& warning(const char* code, Span at, std::string message, std::string label, Fix fix) {
    return add(lang::warning(code, at, std::move(message), std::move(label), std::move(fix)));
  }
  // Whether errors are dropped from here on; who makes many of them asks before making another.
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
