#include "lang/faults.h"

#include <algorithm>
#include <vector>

namespace xrun::lang {

Diagnostic& Faults::error(const char* code, Span at, std::string message, std::string label) {
  return add(Severity::kError, code, at, std::move(message), std::move(label));
}

Diagnostic& Faults::warning(const char* code, Span at, std::string message, std::string label) {
  return add(Severity::kWarning, code, at, std::move(message), std::move(label));
}

Diagnostic& Faults::add(Severity severity, const char* code, Span at, std::string message, std::string label) {
  Diagnostic diagnostic;
  diagnostic.severity = severity;
  diagnostic.code = code;
  diagnostic.message = std::move(message);
  diagnostic.primary = {at, std::move(label)};
  // Warnings count towards the same bound so that a hostile file cannot fill the memory with them.
  if (full_of_warnings() || (severity == Severity::kError && errors_ == kMaxErrors)) {
    dropped_ = std::move(diagnostic);
    return dropped_;
  }
  if (severity == Severity::kError && ++errors_ == kMaxErrors) {
    diagnostic.notes.push_back("this is fault number " + std::to_string(kMaxErrors) +
                               " of the file; further ones are not shown");
  }
  found_.push_back(std::move(diagnostic));
  return found_.back();
}

void Faults::flush() {
  std::vector<Diagnostic*> order;
  for (Diagnostic& diagnostic : found_) {
    order.push_back(&diagnostic);
  }
  std::stable_sort(order.begin(), order.end(), [](const Diagnostic* a, const Diagnostic* b) {
    return a->primary.span.begin < b->primary.span.begin;
  });
  for (Diagnostic* diagnostic : order) {
    sink_.add(std::move(*diagnostic));
  }
  found_.clear();
}

Fix replacement(std::string title, Span span, std::string text, bool sure) {
  Fix fix;
  fix.title = std::move(title);
  fix.edits.push_back({span, std::move(text)});
  fix.sure = sure;
  return fix;
}

}  // namespace xrun::lang
