// The door of this room: text to checked Module, and the `test` blocks of a file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "graph/module.h"
#include "graph/run_spec.h"
#include "lang/frontend_options.h"

namespace xrun::lang {

// One `test` block.
struct TestResult {
  std::string name;
  int expectations = 0;
  bool passed = false;  // a failed one has given its diagnostic
};

struct CheckedFile {
  Module module;  // `module.model` is empty when the file has no model: a library of blocks
  RunSpec run;
  std::vector<TestResult> tests;
  // Where the text leaves `norm_rows` open, and its default was another number before it followed from the batch: that
  // number, with which checkpoints of such runs go on. Else 0.
  int64_t earlier_norm_rows = 0;
};

// A setting that decides what is learned and that two files give differently; `then` and `now` are empty for what needs
// more than a line, as the model does.
struct MathDifference {
  std::string what;  // "model", "data.image", "train.epochs"
  std::string then;
  std::string now;
};
std::vector<MathDifference> math_differences(const CheckedFile& then, const CheckedFile& now);

// Reads the file at `path` and what it imports, checks everything, elaborates the chosen model with data and train, and
// runs the tests of the main file. What is checked but cannot be run by this edition is in Module::not_yet; planning
// and training refuse a module in which it is not empty.
// Nothing when there are errors; they are in `diagnostics`, and so are warnings.
std::optional<CheckedFile> load(const std::string& path, SourceMap& sources, Diagnostics& diagnostics,
                                const FrontendOptions& options);

// The same for files that lie in memory, by path: `path` is one of them. "std/..." may be among them; no file is
// opened.
using Texts = std::map<std::string, std::string>;
std::optional<CheckedFile> load_texts(const std::string& path, const Texts& texts, SourceMap& sources,
                                      Diagnostics& diagnostics, const FrontendOptions& options);

// The same for a text that lies in memory. Imports other than "std/..." are not found: no file is opened.
std::optional<CheckedFile> check_text(const std::string& name, std::string text, SourceMap& sources,
                                      Diagnostics& diagnostics, const FrontendOptions& options);

// "--set train.epochs=3" where `key` is a setting of `train` or `schedule`, or else is near to one: what somebody means
// who writes --epochs 3, or --set epochs=3. Empty where it is none.
enum class Nearness { kExact, kNear };
std::string setting_flag(std::string_view key, const std::string& value, Nearness nearness);

}  // namespace xrun::lang
