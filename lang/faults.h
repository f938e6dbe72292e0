// The faults of one file while it is read: a sink that keeps them in the order of the text and ends a flood.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "graph/base/diagnostic.h"

namespace xrun::lang {

// Collects what lexer and parser find in one file; `flush` hands it on, sorted by place.
class Faults {
 public:
  // After so many errors a file is not read on word by word: what follows is seldom independent of what came before.
  static constexpr int kMaxErrors = 100;

  explicit Faults(Diagnostics& sink) : sink_(sink) {}

  // Keeps the diagnostic and gives it back for notes and fixes. Beyond kMaxErrors errors it is dropped.
  Diagnostic& error(const char* code, Span at, std::string message, std::string label = {});
  Diagnostic& warning(const char* code, Span at, std::string message, std::string label = {});
  // Whether errors are dropped from here on; who makes many of them asks before making another.
  bool full() const { return errors_ >= kMaxErrors; }
  bool full_of_warnings() const { return found_.size() >= 2 * kMaxErrors; }
  void flush();

 private:
  Diagnostic& add(Severity severity, const char* code, Span at, std::string message, std::string label);

  Diagnostics& sink_;
  std::deque<Diagnostic> found_;
  Diagnostic dropped_;
  int errors_ = 0;
};

// A fix that is one replacement; an empty span at a place inserts.
Fix replacement(std::string title, Span span, std::string text, bool sure);

}  // namespace xrun::lang
