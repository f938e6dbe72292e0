// Decides which tensors of files become which tensors of a model. Nothing is guessed: the name table decides by name,
// and a tensor of another shape is an error.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/interchange/import/choose_table.h"
#include "runtime/interchange/import/model_names.h"
#include "runtime/interchange/names/name_table.h"

namespace xrun::runtime {

// A tensor of the model with its values: the elements of the tensors `from`, one after another, from element `first` of
// them on. Transposed ones are read by columns.
struct Fit {
  size_t to = 0;             // index in ModelForm::tensors
  std::vector<size_t> from;  // indices of the given tensors
  int64_t first = 0;
  bool transposed = false;
};

// A tensor of a file with a text that says why it was not used.
struct LeftOver {
  size_t tensor = 0;
  std::string why;
};

struct MatchedTensors {
  std::vector<Fit> fits;            // in the order of ModelForm::tensors
  std::vector<LeftOver> left_over;  // nothing takes them
  std::vector<size_t> ignored;      // the table ignores them
  std::vector<size_t> repeated;     // an earlier file has a tensor with the same name, which is used
  std::vector<size_t> skipped;      // they belong to paths that are skipped
  std::vector<size_t> missing;      // tensors of the model, as indices, that nothing gives
  // Tensors that have a place in the model and do not fit there, each with the reason: an error.
  std::vector<std::string> misfits;
};

//   skip  paths of the model whose tensors are left out
MatchedTensors match_tensors(const NameTable& table, const std::string& place, std::span<const ForeignTensor> tensors,
                             const ModelForm& form, const ModelNames& names, const std::vector<std::string>& skip);

}  // namespace xrun::runtime
