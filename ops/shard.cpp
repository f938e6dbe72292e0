#include "ops/shard.h"

#include <algorithm>
#include <iterator>

namespace xrun::ops {
namespace {

using Types = std::span<const TensorType>;

// Returns the rule whose letters for each operand are letters_of(operand).
template <typename Letters>
std::string text_of(Types inputs, Types outputs, const Letters& letters_of) {
  const auto letters = [&](Types types) {
    std::vector<std::string> all;
    std::ranges::transform(types, std::back_inserter(all), letters_of);
    return all;
  };
  return shard_text(letters(inputs), letters(outputs));
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
  return text_of(inputs, outputs, [&](const TensorType& type) {
    std::string letters = shard_letters(type);
    letters[static_cast<size_t>(axis < 0 ? axis + type.rank() : axis)] = '_';
    return letters;
  });
}

std::string shard_broadcast(Types inputs, Types outputs, const Attrs&) {
  const std::string all = shard_letters(*std::ranges::max_element(inputs, {}, &TensorType::rank));
  return text_of(inputs, outputs, [&](const TensorType& type) {
    // Parameters have fewer dimensions and are aligned with the last ones.
    std::string letters = all.substr(all.size() - static_cast<size_t>(type.rank()));
    for (size_t d = 1; d <= letters.size(); ++d) {
      const auto has_more = [&](const TensorType& other) {
        return d <= other.dims.size() && other.dims[other.dims.size() - d] != 1;
      };
      if (type.dims[type.dims.size() - d] == 1 &&
          (std::ranges::any_of(inputs, has_more) || std::ranges::any_of(outputs, has_more))) {
        letters[letters.size() - d] = '_';
      }
    }
    return letters;
  });
}

}  // namespace xrun::ops
