#include "runtime/checkpoint/mismatch.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t dot = std::min(name.find('.', begin), name.size());
    parts.push_back(name.substr(begin, dot - begin));
    begin = dot + 1;
  }
  return parts;
}

// The number of parts in which two names differ; all of them if the names have different numbers of parts.
size_t distance(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  size_t count = a.size() == b.size() ? 0 : std::max(a.size(), b.size());
  for (size_t i = 0; a.size() == b.size() && i < a.size(); ++i) {
    count += a[i] == b[i] ? 0 : 1;
  }
  return count;
}

// The stored tensor that the model does not use and whose name is nearest, with the same shape and last part; null:
// none.
const StoredTensor* find_old(const std::vector<StoredTensor>& stored, const TrainState& state,
                             const StateTensor& tensor) {
  const auto parts = parts_of(tensor.name);
  const StoredTensor* best = nullptr;
  size_t least = SIZE_MAX;
  for (const StoredTensor& one : stored) {
    const auto others = parts_of(one.name);
    if (one.shape != tensor.type.dims || others.back() != parts.back() || state.find(one.name) != nullptr) {
      continue;
    }
    if (const size_t away = distance(parts, others); away < least) {
      best = &one;
      least = away;
    }
  }
  return best;
}

// Proposes the old name if one part of it has changed: as an edit if that is the call's own label, as help if it is
// another one above it.
void propose(Error& error, const Parameter& parameter, std::string_view now, std::string_view old) {
  const auto parts = parts_of(now);
  const auto others = parts_of(old);
  error.help = "if it was renamed, give it its old name again: `moved` is not available yet";
  if (distance(parts, others) != 1) {
    return;
  }
  const auto differs = std::mismatch(parts.begin(), parts.end(), others.begin());
  const bool own = differs.first + 2 == parts.end();
  if (own && parameter.span.valid() && !parameter.head) {
    const Span& span = parameter.span;
    error.edits = {parameter.labelled ? Edit{span, std::string(*differs.second)}
                                      : Edit{{span.file, span.end, span.end}, fmt::format(" as {}", *differs.second)}};
  } else {
    error.help = fmt::format("if `{}` was `{}`, call it so again, `as {}`: `moved` is not available yet",
                             *differs.first, *differs.second, *differs.second);
  }
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

Error other_form(const TrainState& state, const StateTensor& tensor, std::string message, std::string help) {
  Error error{.kind = ErrorKind::kContent,
              .code = "XG0702",
              .message = std::move(message),
              .help = help.empty() ? "take the checkpoint of this model, or the model of this checkpoint" : help,
              .span = state.parameter(tensor).span};
  error.label = "needs " + shape_text(tensor.type.dims);
  return error;
}

Error other_model(const std::string& file, const std::string& path, std::vector<std::string> lines) {
  Error error = content_error("XG0705", {"{} is another model, or prepares its data otherwise, than {}", file, path},
                              "leave the model out, since the checkpoint holds its own, or add --anyway");
  error.notes = std::move(lines);
  return error;
}

Error missing_tensor(const std::string& path, const std::vector<StoredTensor>& stored, const TrainState& state,
                     const StateTensor& tensor) {
  Error error = other_form(state, tensor, fmt::format("the checkpoint has no `{}`", tensor.name));
  const StoredTensor* old = find_old(stored, state, tensor);
  if (old == nullptr) {
    error.notes.push_back(fmt::format("{} has nothing of this shape that the model does not use", path));
    return error;
  }
  error.notes.push_back(fmt::format("{} has `{}` {}, which nothing uses", path, old->name, shape_text(old->shape)));
  propose(error, state.parameter(tensor), tensor.name, old->name);
  return error;
}

}  // namespace xrun::runtime
