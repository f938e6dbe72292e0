#include "ops/shard.h"

#include <algorithm>

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

// Text of operands that each have the letters of their dimensions, as `change` leaves them.
template <typename Change>
std::string changed(Types inputs, Types outputs, const Change& change) {
  const auto letters_of = [&](Types types) {
    std::vector<std::string> all;
    for (const TensorType& type : types) {
      all.push_back(shard_letters(type));
      change(all.back(), type);
    }
    return all;
  };
  return shard_text(letters_of(inputs), letters_of(outputs));
}

}  // namespace

std::string shard_letters(const TensorType& type) {
  std::string letters = "n";
  while (static_cast<int>(letters.size()) < type.rank()) {
    letters += static_cast<char>('a' + letters.size() - 1);
  }
  return letters;
}

std::string shard_text(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::string text;
  for (const std::string& operand : inputs) {
    text += (text.empty() ? "" : ",") + operand;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    text += (i == 0 ? "->" : ",") + outputs[i];
  }
  return text;
}

std::string shard_but_axis(Types inputs, Types outputs, const Attrs& attrs) {
  const int64_t axis = attrs.integer("axis", -1);
  return changed(inputs, outputs, [&](std::string& letters, const TensorType& type) {
    letters[static_cast<size_t>(axis < 0 ? axis + type.rank() : axis)] = '_';
  });
}

std::string shard_broadcast(Types inputs, Types outputs, const Attrs&) {
  return changed(inputs, outputs, [&](std::string& letters, const TensorType& type) {
    for (size_t d = 0; d < letters.size(); ++d) {
      const auto has_more = [&](const TensorType& other) { return other.dims[d] != 1; };
      if (type.dims[d] == 1 && (std::ranges::any_of(inputs, has_more) || std::ranges::any_of(outputs, has_more))) {
        letters[d] = '_';
      }
    }
  });
}

}  // namespace xrun::ops
