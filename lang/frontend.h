// The door of this room: text to checked Module, and the `test` blocks of a file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "graph/module.h"
#include "graph/op_def.h"
#include "graph/reader_def.h"

namespace xrun::lang {

struct FrontendOptions {
  const OpRegistry* ops = nullptr;     // required
  const DataRegistry* data = nullptr;  // null: data_registry()
  std::string run;                     // --run NAME; empty: the only one, or one of each kind
  // --set PATH=VALUE, in the order given. "train.lr", "schedule.shard.id.over": a setting of the chosen declaration,
  // which is made when there is none; a plain name: an option of the main file. A value is an expression; of an option
  // that is a string, what does not begin with a quote is the string itself.
  std::vector<std::pair<std::string, std::string>> sets;
  std::string cluster;   // --cluster FILE[:NAME]
  std::string schedule;  // --schedule FILE[:NAME]
  bool strict = false;   // labels on operators with parameters when an unlabelled sibling exists
  // Bounds of an elaboration (R3): nodes of the graph, and steps of evaluation as a whole. More is XG0216.
  int64_t max_nodes = 4'000'000;
  int64_t max_steps = 64'000'000;
};

// One `test` block.
struct TestResult {
  std::string name;
  int expectations = 0;
  bool passed = false;  // a failed one has given its diagnostic
};

struct CheckedFile {
  Module module;  // `module.model` is empty when the file has no model: a library of blocks
  std::vector<TestResult> tests;
};

// Reads the file at `path` and what it imports, checks everything, elaborates the chosen model with data and train, and
// runs the tests of the main file. What is checked but cannot be run by this edition is in Module::not_yet; whoever
// plans or trains refuses a module in which it is not empty.
// Nothing when there are errors; they are in `diagnostics`, and so are warnings.
std::optional<CheckedFile> load(const std::string& path, SourceMap& sources, Diagnostics& diagnostics,
                                const FrontendOptions& options);

// The same for a text that lies in memory. Imports other than "std/..." are not found: no file is opened.
std::optional<CheckedFile> check_text(const std::string& name, std::string text, SourceMap& sources,
                                      Diagnostics& diagnostics, const FrontendOptions& options);

// Source text of a file of the standard library, "std/vision"; nothing when there is none of that name.
std::optional<std::string_view> std_source(std::string_view name);

}  // namespace xrun::lang
