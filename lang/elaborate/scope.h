// Names in reach while a body is elaborated, and the names that tensors get from the structure of the text
// (docs/language.md, "Models and blocks").
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

// An `if` stage without `else` that was not taken: its value is what flowed in.
struct SkippedIf {
  Span condition;
  Span pipe;          // of the stages that were skipped
  std::string input;  // the name of what flowed in; empty when it has none
  explicit operator bool() const { return condition.valid(); }
};

struct Local {
  Datum value;
  Span span;
  bool used = false;
  bool warns = false;   // a binding that is not used gets a warning
  bool output = false;  // of the model
  SkippedIf skipped;
};

// One level of names. The keys are views of the source text.
struct Scope {
  Scope* parent = nullptr;
  const SourceFile* file = nullptr;  // whose options, lets, blocks and imports are in reach
  std::map<std::string_view, Local> locals;
  // Further names of this level that are made when they are asked for: fields of the data.
  std::function<std::optional<Datum>(std::string_view, Span)> resolve;
  std::vector<std::string> resolvable;  // for suggestions

  Local* find(std::string_view name) {
    for (Scope* scope = this; scope != nullptr; scope = scope->parent) {
      if (const auto at = scope->locals.find(name); at != scope->locals.end()) {
        return &at->second;
      }
    }
    return nullptr;
  }
};

// The stack of tensor-name scopes: "blocks.7.attention".
class TensorNames {
 public:
  // The path of a leaf: `label` where there is one, else `name`, `name_2`, `name_3` in source order.
  // Nothing when the label is in use in this scope.
  std::optional<std::string> leaf(std::string_view name, std::string_view label);
  void enter(std::string path) { scopes_.push_back({std::move(path), {}, {}}); }
  void leave() { scopes_.pop_back(); }
  // How many unlabelled leaves of this name the scope has.
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
