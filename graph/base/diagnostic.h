// Diagnostics: what is wrong with the user's text, where, and how to fix it (docs/reference/language.md, "Mistakes").
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/source.h"

namespace xrun {

enum class Severity { kError, kWarning };

// One way to fix the fault: a title and, if the edit is mechanical, the edits. Adjacent fixes with equal titles are
// alternatives; the title is shown once.
struct Fix {
  std::string title;
  std::vector<Edit> edits;
  std::vector<std::string> lines;  // shown below the title when there is no edit; "$ ..." is a command
  bool sure = false;               // the edits can be applied without asking the user
  bool numbered = false;           // `lines` are alternatives, which are numbered
};

// One step in the chain of expansions that a diagnostic prints: "expanding face > backbone (resnet50) > layer1
// (stage)".
struct Expansion {
  std::string name;  // "layer1 (stage)"
  Span call;
};

// An error or a warning with its labels, notes and fixes. A note may have several lines; the first is its title.
struct Diagnostic {
  Severity severity = Severity::kError;
  std::string code;     // "XG0301"
  std::string message;  // lower case, no full stop, code in backticks
  Label primary;
  std::vector<Label> secondary;
  std::vector<std::string> notes;
  std::vector<Expansion> expansion;
  std::vector<Fix> fixes;
  bool at_bound = false;  // an elaboration reached a bound of lang/elaborate/frontend_options.h

  // These functions add a label at another place, and a note.
  Diagnostic& also(Span at, std::string text) & { return secondary.push_back({at, std::move(text)}), *this; }
  Diagnostic& note(std::string text) & { return notes.push_back(std::move(text)), *this; }
  Diagnostic&& also(Span at, std::string text) && { return std::move(also(at, std::move(text))); }
  Diagnostic&& note(std::string text) && { return std::move(note(std::move(text))); }
};

// Collects the diagnostics of a command in order. A second diagnostic with the same cause is dropped.
class Diagnostics {
 public:
  // Keeps the first 500 errors and the first 500 warnings. Further diagnostics are only counted.
  void add(Diagnostic diagnostic);
  bool has_errors() const { return errors_ > 0; }
  int error_count() const { return errors_; }
  const std::vector<Diagnostic>& all() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
  int errors_ = 0;
  int warnings_ = 0;
};

struct RenderOptions {
  bool color = false;
};

// Converts an Error to a Diagnostic. The result has a span only if the error concerns the model text.
Diagnostic diagnostic_of(const Error& error);

// The text of a diagnostic, as docs/reference/language.md, "Mistakes" describes it. It ends in a newline.
std::string render(const Diagnostic& diagnostic, const SourceMap& sources, const RenderOptions& options = {});
std::string render(const Error& error, const SourceMap& sources, const RenderOptions& options = {});

}  // namespace xrun
