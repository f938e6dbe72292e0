// Chooses the name table for the tensors of files, and the place of the network in the model.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/interchange/import/model_names.h"
#include "runtime/interchange/names/name_table.h"

namespace xrun::runtime {

struct Choice {
  size_t table = 0;   // index in the given tables
  std::string place;  // the path below which the tensors of the network are; "" : the model itself
};

// Chooses the table that explains most names: whose lines match them. Among equal ones, the table counts under which
// more tensors are in the model. The place is the path below which most of them are.
//   at     the place; nullopt: it is searched
//   files  the names of the files, for messages
// Errors: XG0941 no table matches the names, two tables or two places are equally good, or the model has nothing of it.
Result<Choice> choose_table(std::span<const NameTable> tables, std::span<const ForeignTensor> tensors,
                            const ModelNames& model, const std::optional<std::string>& at, const std::string& files);

}  // namespace xrun::runtime
