// The names visible while a body is elaborated, and the names that tensors get from the structure of the text
// (docs/reference/language.md, "Models and blocks").
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/source.h"
#include "lang/elaborate/datum.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

// An `if` stage without `else` whose condition was false, so that its input passed through unchanged.
struct SkippedIf {
  Span condition;
  Span pipe;          // the stages that were skipped
  std::string input;  // name with which the pipeline starts; empty if it starts with another expression
  explicit operator bool() const { return condition.valid(); }
};

struct Local {
  Datum value;
  Span span;
  bool used = false;
  bool warns = false;   // the binding gets a warning if it is not used
  bool output = false;  // the binding is an output of the model
  bool is_state = false;
  Span assigned;  // place of the assignment, for a state
  SkippedIf skipped;
};

// One level of visible names. The keys are views of the source text.
struct Scope {
  Scope* parent = nullptr;
  const SourceFile* file = nullptr;  // its options, lets, blocks and imports are visible
  std::map<std::string_view, Local> locals;
  // Looks up further names of this level on demand, such as fields of the data.
  std::function<std::optional<Datum>(std::string_view, Span)> resolve;
  std::vector<std::string> resolvable;  // names that `resolve` finds, for suggestions

  Local* find(std::string_view name) {
    for (Scope* scope = this; scope != nullptr; scope = scope->parent) {
      if (const auto at = scope->locals.find(name); at != scope->locals.end()) {
        return &at->second;
      }
    }
    return nullptr;
  }
};

// The nested scopes of tensor names. The path of the innermost one is a text such as "blocks.7.attention".
class TensorNames {
 public:
  // The path of a new tensor in this scope. Its last part is `label` or, without a label, `name`, `name_2`, `name_3`,
  // ... in source order. Nullopt if the label is already in use in this scope.
  std::optional<std::string> leaf(std::string_view name, std::string_view label);
  void enter(std::string path) { scopes_.push_back({std::move(path), {}, {}}); }
  void leave() { scopes_.pop_back(); }
  // The number of the last unlabelled leaf with this name in the scope; 0 if there is no such leaf.
  int count(std::string_view name) const;
  const std::string& path() const { return scopes_.back().path; }

 private:
  struct Level {
    std::string path;
    std::map<std::string, int, std::less<>> counts;
    std::set<std::string, std::less<>> taken;
  };
  std::vector<Level> scopes_{{}};
};

}  // namespace xrun::lang
