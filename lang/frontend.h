// The frontend: turns text into a checked Module and runs the `test` blocks of a file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "graph/module.h"
#include "graph/settings/run_spec.h"
#include "lang/elaborate/frontend_options.h"
#include "lang/elaborate/test_result.h"

namespace xrun::lang {

struct CheckedFile {
  Module module;  // `module.model` is empty if the file has no model: a library of blocks
  RunSpec run;
  std::vector<TestResult> tests;
  // The default `norm_rows` that earlier versions chose for this text, if the text leaves it open. Checkpoints of such
  // runs are continued with it. 0 if today's default is equal, if the earlier one does not divide the batch, or if the
  // text sets `norm_rows`.
  int64_t earlier_norm_rows = 0;
};

// A difference between two files that changes the math digest: a setting, or the model. `then` and `now` are the values
// in the two files; both are empty for the model, which does not fit on a line.
struct MathDifference {
  std::string what;  // "model", "data.image", "train.epochs"
  std::string then;
  std::string now;
  bool is_class_count = false;  // only numbers of classes differ: those of a head, of dense logits, of labels
};
std::vector<MathDifference> math_differences(const CheckedFile& then, const CheckedFile& now);

// The math digest that earlier versions computed for the text. They counted the times `at` of a curve `steps` from the
// start of that curve. The digest equals today's if no curve precedes `steps`
// (docs/decisions/0028-changes-before-the-first-release.md).
std::string earlier_math_digest(const CheckedFile& file);

// Reads the file at `path` and its imports, checks everything, elaborates the chosen model with data and train, and
// runs the tests of the main file if there are no errors so far. Module::not_yet lists the features that are checked
// but that this edition cannot run; planning and training reject a module that has such features. Returns nullopt if
// there are errors; they are in `diagnostics`, and so are warnings.
std::optional<CheckedFile> load(const std::string& path, SourceMap& sources, Diagnostics& diagnostics,
                                const FrontendOptions& options);

// Loads texts in memory: `path` is one of them, and "std/..." may be among them. Imports open no file; a file of
// `--cluster` or `--schedule` is opened if it is not among the texts.
std::optional<CheckedFile> load_texts(const std::string& path, const Texts& texts, SourceMap& sources,
                                      Diagnostics& diagnostics, const FrontendOptions& options);

// Checks one text in memory. Imports other than "std/..." are not found, since imports open no file here.
std::optional<CheckedFile> check_text(const std::string& name, std::string text, SourceMap& sources,
                                      Diagnostics& diagnostics, const FrontendOptions& options);

// The flag that was probably meant by --epochs 3 or --set epochs=3: "--set train.epochs=3". With kExact, `key` has to
// be a setting of `train` or `schedule`; with kNear, it has to be similar to one. Otherwise the result is empty.
enum class Nearness { kExact, kNear };
std::string setting_flag(std::string_view key, const std::string& value, Nearness nearness);

}  // namespace xrun::lang
