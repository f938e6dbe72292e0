#include "runtime/interchange/import/model_names.h"

#include <algorithm>
#include <limits>

#include "graph/layouts/class_rows.h"
#include "graph/settings/group_rules.h"

namespace xrun::runtime {

ModelForm form_of(const Graph& graph) {
  ModelForm form;
  for (size_t i = 0; i < graph.params.size(); ++i) {
    const Parameter& param = graph.param(ParamId(i));
    if (!graph.is_tied_copy(ParamId(i))) {
      form.tensors.push_back({param.name, graph.value(param.value).type.dims});
    }
  }
  for (const ClassRows& rows : class_rows(graph)) {
    const bool known = std::ranges::find(form.classifiers, rows.part) != form.classifiers.end();
    if (rows.kind != ClassRows::kEmbedding && !known) {
      form.classifiers.push_back(rows.part);
    }
  }
  return form;
}

int64_t elements_of(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(product, dim, &product)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return product;
}

ModelNames::ModelNames(const ModelForm& form) : form_(form) {
  for (size_t i = 0; i < form.tensors.size(); ++i) {
    const std::string_view name = form.tensors[i].name;
    index_[name] = i;
    places_[name].emplace_back("");
    for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
      places_[name.substr(dot + 1)].push_back(name.substr(0, dot));
    }
  }
}

int64_t ModelNames::find(const std::string& name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? -1 : static_cast<int64_t>(at->second);
}

std::span<const std::string_view> ModelNames::places_of(const std::string& name) const {
  const auto at = places_.find(name);
  return at == places_.end() ? std::span<const std::string_view>() : at->second;
}

bool ModelNames::has_path(std::string_view path) const {
  return std::ranges::any_of(form_.tensors, [&](const ModelTensor& tensor) { return is_below(path, tensor.name); });
}

std::string below(std::string_view place, std::string_view name) {
  return place.empty()  ? std::string(name)
         : name.empty() ? std::string(place)
                        : std::string(place) + "." + std::string(name);
}

}  // namespace xrun::runtime
