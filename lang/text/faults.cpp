#include "lang/text/faults.h"

#include <algorithm>
#include <utility>

#include "graph/base/alike.h"
#include "lang/text/nearest.h"

namespace xrun::lang {

Diagnostic fault(const char* code, Span at, Text message, Text label, Help help) {
  Diagnostic made{.code = code, .message = std::move(message.text), .primary = {at, std::move(label.text)}};
  made.fixes.push_back(std::move(help.fix));
  return made;
}

Diagnostic warning(const char* code, Span at, Text message, Text label, Help help) {
  Diagnostic made = fault(code, at, std::move(message), std::move(label), std::move(help));
  made.severity = Severity::kWarning;
  return made;
}

Fix replacement(Text title, Span span, Text text, bool sure) {
  return {.title = std::move(title.text), .edits = {{span, std::move(text.text)}}, .sure = sure};
}

Fix did_you_mean(std::string_view name, const std::vector<std::string>& candidates, Span at, Help otherwise) {
  // A name in a string may look like a known name and still have other characters.
  for (const std::string& known : candidates) {
    if (const std::string difference = difference_of_alikes(name, known); !difference.empty()) {
      return replacement({"write `{}`, which looks the same: {}", known, difference}, at, known);
    }
  }
  const std::string near = nearest(name, candidates);
  return near.empty() ? std::move(otherwise.fix) : replacement({"did you mean `{}`?", near}, at, near);
}

Diagnostic& Faults::add(Diagnostic diagnostic) {
  const Severity severity = diagnostic.severity;
  // The number of errors and of warnings is bounded, so that a hostile file cannot fill the memory.
  if (severity == Severity::kError ? full() : full_of_warnings()) {
    dropped_ = std::move(diagnostic);
    return dropped_;
  }
  if (severity == Severity::kError && ++errors_ == kMaxErrors) {
    diagnostic.notes.push_back(
        fmt::format("this is fault number {} of the file; further ones are not shown", kMaxErrors));
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

}  // namespace xrun::lang
