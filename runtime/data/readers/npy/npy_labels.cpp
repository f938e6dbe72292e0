// Tests: tests/runtime/data/readers/npy/npy_test.cpp
#include "runtime/data/readers/npy/npy_labels.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <type_traits>
#include <unordered_map>

#include "graph/base/errors.h"
#include "runtime/formats/tensors/npy_elements.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kChunk = 256 * kKiB;

bool is_text(const NpyFile& file) {
  return file.header().kind == NpyKind::kText || file.header().kind == NpyKind::kBytes;
}

// Returns the label that an element is; nullopt if the element is no label.
template <class Number>
std::optional<int32_t> label_of(Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(number)) {
      return NpyLabels::kMissing;
    }
    const auto wide = static_cast<double>(number);
    const bool fits = wide == std::floor(wide) && wide > INT32_MIN && wide <= INT32_MAX;
    return fits ? std::optional(static_cast<int32_t>(wide)) : std::nullopt;
  } else {
    const bool fits = std::in_range<int32_t>(number) && std::cmp_not_equal(number, INT32_MIN);
    return fits ? std::optional(static_cast<int32_t>(number)) : std::nullopt;
  }
}

Error no_label(const NpyFile& file, int64_t sample, double number) {
  const bool is_whole = number == std::floor(number) && std::isfinite(number);
  return content_error("XG0402",
                       {"{}: the label of sample {} is {}, which is not {}", file.name(), sample, number,
                        is_whole ? "in the range of i32" : "a whole number"},
                       is_whole ? "number the classes from 0 on: numpy.unique(y, return_inverse=True)[1]"
                                : "a label is the whole number of its class: correct it, or name another array");
}

// The texts seen so far, numbered by first appearance.
class Names {
 public:
  int32_t number_of(std::string&& text) {
    const auto [at, is_new] = numbers_.try_emplace(std::move(text), static_cast<int32_t>(numbers_.size()));
    return at->second;
  }
  // Renumbers `labels` so that names are in the order of their bytes, and returns the names.
  std::vector<std::string> sort(std::vector<int32_t>& labels) && {
    std::vector<std::string> names(numbers_.size());
    while (!numbers_.empty()) {
      auto node = numbers_.extract(numbers_.begin());
      names[static_cast<size_t>(node.mapped())] = std::move(node.key());
    }
    std::vector<int32_t> order(names.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int32_t i) -> const std::string& { return names[static_cast<size_t>(i)]; });
    std::vector<int32_t> to(names.size());
    for (size_t i = 0; i < order.size(); ++i) {
      to[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    }
    for (int32_t& label : labels) {
      label = label == NpyLabels::kMissing ? label : to[static_cast<size_t>(label)];
    }
    std::ranges::sort(names);
    return names;
  }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
};

// Appends the labels in a chunk, whose first sample is `first`.
Status add_numbers(const NpyFile& file, int64_t first, std::span<const std::byte> chunk, std::vector<int32_t>& to) {
  Status done;
  for_each_number(file.header(), chunk.data(), std::ssize(chunk) / file.header().item_bytes, [&](int64_t i, auto x) {
    const auto label = label_of(x);
    if (!label && done.ok()) {
      done = no_label(file, first + i, static_cast<double>(x));
    }
    to.push_back(label.value_or(NpyLabels::kMissing));
  });
  return done;
}

Status add_texts(const NpyFile& file, int64_t first, std::span<const std::byte> chunk, Names& names,
                 std::vector<int32_t>& to) {
  const auto width = static_cast<size_t>(file.header().item_bytes);
  for (; !chunk.empty(); chunk = chunk.subspan(width), ++first) {
    std::string text;
    if (!append_npy_text(file.header(), chunk.data(), text)) {
      return content_error("XG0412", {"{}: the label of sample {} is not a text in Unicode", file.name(), first},
                           "write the texts again with numpy.save");
    }
    to.push_back(text.empty() ? NpyLabels::kMissing : names.number_of(std::move(text)));
  }
  return {};
}

}  // namespace

Bytes NpyLabels::bytes() const {
  Bytes sum = static_cast<Bytes>(numbers.size() * sizeof(int32_t));
  for (const std::string& name : names) {
    sum += static_cast<Bytes>(sizeof name + name.size());
  }
  return sum;
}

Status check_npy_labels(const NpyFile& file) {
  const auto& dims = file.header().dims;
  if (dims.size() == 1 || (dims.size() == 2 && dims[1] == 1)) {
    return {};
  }
  return content_error("XG0412", {"{} holds {}, but labels are [samples]", file.name(), npy_content(file.header())},
                       dims.size() == 2
                           ? "write one number for each sample: one-hot labels become numbers by y.argmax(1)"
                           : "name the array of the labels: labels=..");
}

Result<NpyLabels> read_npy_labels(std::span<const NpyPart> parts, StopFlag stop) {
  NpyLabels labels;
  Names names;
  std::vector<std::byte> chunk;
  for (const NpyPart& part : parts) {
    const NpyFile& file = *part.file;
    if (is_text(file) != is_text(*parts[0].file)) {
      return content_error("XG0412",
                           {"{} holds {}, but {} holds {}", file.name(), npy_content(file.header()),
                            parts[0].file->name(), npy_content(parts[0].file->header())},
                           "write all labels as numbers, or all as texts");
    }
    const int64_t most = std::max<int64_t>(kChunk / file.sample_bytes(), 1);
    for (int64_t at = part.first; at < part.first + part.count; at += most) {
      XRUN_TRY(check_stop(stop));
      const int64_t count = std::min(most, part.first + part.count - at);
      chunk.resize(static_cast<size_t>(count * file.sample_bytes()));
      XRUN_TRY(file.read(at, count, chunk));
      XRUN_TRY(is_text(file) ? add_texts(file, at, chunk, names, labels.numbers)
                             : add_numbers(file, at, chunk, labels.numbers));
    }
  }
  if (!parts.empty() && is_text(*parts[0].file)) {
    labels.names = std::move(names).sort(labels.numbers);
  }
  return labels;
}

}  // namespace xrun::runtime
