// Tests: tests/runtime/checkpoint/tensors/tensor_files_test.cpp, tests/runtime/cli/model/trained_model_test.cpp
#include "runtime/checkpoint/tensors/mismatch.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/errors.h"
#include "graph/base/tensor_name.h"

namespace xrun::runtime {
namespace {

// The number of parts in which two tensor names differ. Names with different numbers of parts differ in all parts.
size_t distance(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  size_t count = a.size() == b.size() ? 0 : std::max(a.size(), b.size());
  for (size_t i = 0; a.size() == b.size() && i < a.size(); ++i) {
    count += a[i] == b[i] ? 0 : 1;
  }
  return count;
}

// Among the stored tensors that the model does not use and that have the shape and the last name part of `tensor`,
// returns the one with the nearest name; null: not found.
const StoredTensor* find_old(const std::vector<StoredTensor>& stored, const TrainState& state,
                             const StateTensor& tensor) {
  const auto parts = parts_of_name(tensor.name);
  const StoredTensor* best = nullptr;
  size_t least = SIZE_MAX;
  for (const StoredTensor& one : stored) {
    const auto others = parts_of_name(one.name);
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

// The first parts of a name: "a.b" of "a.b.c".
std::string first_parts(const std::vector<std::string_view>& parts, size_t count) {
  return fmt::format("{}", fmt::join(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count), "."));
}

// Returns the line that declares the renaming. The names in it end with the last part in which they differ, which is
// never the last part of the tensors' names.
std::string moved_line(std::string_view now, std::string_view old) {
  const auto parts = parts_of_name(now);
  const auto others = parts_of_name(old);
  size_t end = parts.size();
  size_t other_end = others.size();
  while (end > 1 && other_end > 1 && parts[end - 1] == others[other_end - 1]) {
    --end;
    --other_end;
  }
  return fmt::format("moved \"{}\" -> \"{}\"", first_parts(others, other_end), first_parts(parts, end));
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
  Error error = content_error("XG0705", {"{} has another model or prepares its data differently than {}", file, path},
                              "leave the model out, since the checkpoint holds its own, or add --anyway");
  error.notes = std::move(lines);
  return error;
}

Error missing_tensor(const std::string& path, const std::vector<StoredTensor>& stored, const TrainState& state,
                     const StateTensor& tensor) {
  Error error = other_form(state, tensor, fmt::format("the checkpoint has no `{}`", tensor.name));
  const StoredTensor* old = find_old(stored, state, tensor);
  if (old == nullptr) {
    error.notes.push_back(fmt::format("{} has no unused tensor of this shape", path));
    return error;
  }
  error.notes.push_back(
      fmt::format("{} has `{}` {}, which the model does not use", path, old->name, shape_text(old->shape)));
  error.help = "if it was renamed, add this to the model: " + moved_line(tensor.name, old->name);
  return error;
}

}  // namespace xrun::runtime
