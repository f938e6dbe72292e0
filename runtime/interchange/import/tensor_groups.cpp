// Tests: tests/runtime/interchange/import/match_tensors_test.cpp
#include "runtime/interchange/import/tensor_groups.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

using How = NameRule::How;

// The dimensions without those of one element, which change no order.
std::vector<int64_t> without_ones(std::span<const int64_t> dims) {
  std::vector<int64_t> rest;
  std::ranges::copy_if(dims, std::back_inserter(rest), [](int64_t dim) { return dim != 1; });
  return rest;
}

std::string text_of(std::span<const int64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

Error misfit(const ForeignTensor& from, const ModelTensor& to, const std::string& why) {
  return content_error("",
                       {"`{}` is {}, but `{}` of the model is {}{}{}", from.name, text_of(from.dims), to.name,
                        text_of(to.dims), why.empty() ? "" : ": ", why},
                       "");
}

int64_t rows_of(const std::vector<int64_t>& dims) { return dims.empty() ? 1 : dims[0]; }

// Whether rows of both tensors have the same form.
bool same_rows(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const auto row = [](const std::vector<int64_t>& dims) {
    return without_ones(std::span(dims).subspan(dims.empty() ? 0 : 1));
  };
  return row(a) == row(b);
}

Result<std::vector<Fit>> fit_one(How how, size_t tensor, size_t target, std::span<const ForeignTensor> tensors,
                                 const ModelForm& form) {
  const ForeignTensor& from = tensors[tensor];
  const ModelTensor& to = form.tensors[target];
  std::vector<int64_t> given = without_ones(from.dims);
  const std::vector<int64_t> wanted = without_ones(to.dims);
  if (how == How::kTransposed) {
    if (given.size() != 2) {
      return misfit(from, to, "only a matrix can be `transposed`");
    }
    std::ranges::reverse(given);
  }
  const bool same_count = elements_of(from.dims) == elements_of(to.dims);
  if (how == How::kReshaped ? !same_count : given != wanted) {
    return misfit(from, to,
                  how != How::kAsIs || !same_count ? ""
                  : std::ranges::equal(given, std::vector(wanted.rbegin(), wanted.rend()))
                      ? "if it is stored by columns, its line in a name table ends in `transposed`"
                      : "if its elements have the right order, its line in a name table ends in `reshaped`");
  }
  return std::vector<Fit>{{.to = target, .from = {tensor}, .first = 0, .transposed = how == How::kTransposed}};
}

// Checks that the tensors of several ranks have the rows that Partial FC gives to each.
Status check_ranks(std::span<const size_t> from, std::span<const ForeignTensor> tensors, const ModelTensor& to) {
  for (size_t rank = 0; rank < from.size(); ++rank) {
    const ForeignTensor& tensor = tensors[from[rank]];
    const int64_t rows = rows_of_rank(rows_of(to.dims), static_cast<int64_t>(from.size()), static_cast<int64_t>(rank));
    if (rows_of(tensor.dims) != rows) {
      return misfit(
          tensor, to,
          fmt::format("rank {} of {} should have {} of the {} rows; name the files of all ranks in their order", rank,
                      from.size(), rows, rows_of(to.dims)));
    }
  }
  return {};
}

Result<std::vector<Fit>> join(const std::vector<size_t>& from, size_t target, std::span<const ForeignTensor> tensors,
                              const ModelForm& form) {
  const ModelTensor& to = form.tensors[target];
  int64_t rows = 0;
  for (const size_t one : from) {
    if (!same_rows(tensors[one].dims, to.dims)) {
      return misfit(tensors[one], to, "the rows differ");
    }
    rows += rows_of(tensors[one].dims);
  }
  if (rows != rows_of(to.dims)) {
    return misfit(tensors[from[0]], to,
                  from.size() == 1 ? "" : fmt::format("the {} tensors have {} rows together", from.size(), rows));
  }
  return std::vector<Fit>{{.to = target, .from = from}};
}

Result<std::vector<Fit>> divide(size_t tensor, const std::vector<size_t>& targets,
                                std::span<const ForeignTensor> tensors, const ModelForm& form) {
  std::vector<Fit> fits;
  int64_t rows = 0;
  int64_t elements = 0;
  for (const size_t target : targets) {
    const ModelTensor& to = form.tensors[target];
    if (!same_rows(tensors[tensor].dims, to.dims)) {
      return misfit(tensors[tensor], to, "the rows differ");
    }
    fits.push_back({.to = target, .from = {tensor}, .first = elements});
    rows += rows_of(to.dims);
    elements += elements_of(to.dims);
  }
  if (rows != rows_of(tensors[tensor].dims)) {
    return misfit(tensors[tensor], form.tensors[targets[0]],
                  fmt::format("the {} tensors of the model have {} rows together", targets.size(), rows));
  }
  return fits;
}

}  // namespace

int64_t rows_of_rank(int64_t classes, int64_t ranks, int64_t rank) {
  return classes / ranks + (rank < classes % ranks ? 1 : 0);
}

Result<std::vector<Fit>> fit(const TensorGroup& group, std::span<const ForeignTensor> tensors, const ModelForm& form) {
  const NameRule& rule = *group.rule;
  std::vector<size_t> from;
  for (size_t i = 0; i < group.sources.size(); ++i) {
    if (group.sources[i].empty()) {
      const std::vector<size_t>& other = group.sources[i == 0 ? 1 : 0];
      const std::string& target = form.tensors[group.targets[0]].name;
      return content_error(
          "",
          other.empty()
              ? Text("`{}` of the model is joined from several tensors, but the file has none that `{}` matches",
                     target, to_text(rule.from[i]))
              : Text("`{}` and another tensor become `{}` of the model, but the file has none that `{}` matches",
                     tensors[other[0]].name, target, to_text(rule.from[i])),
          "");
    }
    from.insert(from.end(), group.sources[i].begin(), group.sources[i].end());
  }
  if (group.targets.size() > 1) {
    return divide(from[0], group.targets, tensors, form);
  }
  if (from.size() == 1 && rule.how != How::kByRank) {
    return fit_one(rule.how, from[0], group.targets[0], tensors, form);
  }
  XRUN_ASSIGN(auto fits, join(from, group.targets[0], tensors, form));
  if (rule.how == How::kByRank) {
    XRUN_TRY(check_ranks(from, tensors, form.tensors[group.targets[0]]));
  }
  return fits;
}

}  // namespace xrun::runtime
