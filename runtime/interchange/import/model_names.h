// The tensors of files and of a model between which `xrun import` finds pairs, and the names of the latter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace xrun::runtime {

// A tensor of a file of weights. `file` counts the files of the command, `index` the tensors of the file.
struct ForeignTensor {
  std::string name;
  std::vector<int64_t> dims;
  size_t file = 0;
  size_t index = 0;
};

struct ModelTensor {
  std::string name;
  std::vector<int64_t> dims;
};

struct ModelForm {
  std::vector<ModelTensor> tensors;      // weights and running statistics
  std::vector<std::string> classifiers;  // paths of heads and of layers that make dense logits
};

// The form of a checked model.
ModelForm form_of(const Graph& graph);

// The product of dims; the largest number if it is larger.
int64_t elements_of(std::span<const int64_t> dims);

// Finds tensors by name, and the paths below which a name is found. REQUIRES: the form outlives it.
class ModelNames {
 public:
  explicit ModelNames(const ModelForm& form);

  bool has(const std::string& name) const { return index_.contains(name); }
  // The number of the tensor; -1: there is none.
  int64_t find(const std::string& name) const;
  // The paths P for which the model has the tensor P.name; "" if `name` itself is one.
  std::span<const std::string_view> places_of(const std::string& name) const;
  bool has_path(std::string_view path) const;  // whether a tensor is at or below it

 private:
  const ModelForm& form_;
  std::unordered_map<std::string_view, size_t> index_;
  std::unordered_map<std::string_view, std::vector<std::string_view>> places_;  // key: the end of a name
};

// A name below a place: "backbone" and "stem.weight" give "backbone.stem.weight".
std::string below(std::string_view place, std::string_view name);

}  // namespace xrun::runtime
