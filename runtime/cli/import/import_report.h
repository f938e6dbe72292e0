// The output of `xrun import`: which tensors fit, which are left over, and which are missing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cli/import/import.h"
#include "runtime/interchange/import/match_tensors.h"
#include "runtime/interchange/weights/weight_file.h"

namespace xrun::cli {

struct Imported {
  std::vector<std::unique_ptr<runtime::WeightFile>> files;
  std::vector<runtime::ForeignTensor> tensors;  // tensors of all files
  runtime::NameTable table;
  std::string place;
  runtime::ModelForm form;
  runtime::MatchedTensors matched;
  std::string model;  // name of the model
  uint64_t seed = 0;  // seed of the initial values
  std::string path;   // the step directory
  int64_t bytes = 0;
};

// A short text, with a few names of each list; with `all`, all names and the reasons.
std::string import_text(const Imported& imported, const ImportArgs& args, bool all);
// One JSON document with all names.
std::string import_json(const Imported& imported, const ImportArgs& args);

// XG0942 with the tensors that do not fit.
Error misfit_error(const Imported& imported, const ImportArgs& args);

}  // namespace xrun::cli
