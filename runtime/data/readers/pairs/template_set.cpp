// Tests: tests/runtime/data/readers/pairs/templates_test.cpp
#include "runtime/data/readers/pairs/template_set.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "runtime/data/readers/pairs/pair_list.h"
#include "runtime/formats/text_lines.h"

namespace xrun::runtime {
namespace {

constexpr size_t kLongestLine = 64 * kKiB;

struct Columns {
  std::array<std::string_view, 3> text;
  size_t count = 0;  // may be more than `text` has
};

Columns columns_of(std::string_view line) {
  const bool has_tab = line.find('\t') != std::string_view::npos;
  const char separator = has_tab ? '\t' : ' ';
  Columns columns;
  for (size_t at = 0; at <= line.size();) {
    const size_t end = std::min(line.find(separator, at), line.size());
    const std::string_view column = line.substr(at, end - at);
    if (has_tab || !column.empty()) {
      columns.text[std::min<size_t>(columns.count, 2)] = column;
      ++columns.count;
    }
    at = end + 1;
  }
  return columns;
}

// Numbers texts in the order in which they are first seen.
class Numbers {
 public:
  // The number of a text, which is added if it is new.
  uint32_t add(std::string_view text) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) {
      return found->second;
    }
    bytes_ += static_cast<Bytes>(text.size() + sizeof(std::pair<std::string, uint32_t>) + 4 * sizeof(void*));
    return numbers_.emplace(text, static_cast<uint32_t>(numbers_.size())).first->second;
  }
  std::optional<uint32_t> find(std::string_view text) const {
    const auto found = numbers_.find(text);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> all(numbers_.size());
    for (const auto& [text, number] : numbers_) {
      all[number] = text;
    }
    return all;
  }
  size_t count() const { return numbers_.size(); }
  Bytes memory() const { return bytes_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> numbers_;
  Bytes bytes_ = 0;
};

class SetReader {
 public:
  SetReader(std::string pictures, std::string pairs, Bytes most_memory, StopFlag stop)
      : pictures_(std::move(pictures)), pairs_(std::move(pairs)), most_(most_memory), stop_(stop) {}

  Result<TemplateSet> read() {
    XRUN_TRY(visit_lines(pictures_, kLongestLine, stop_, [this](const TextLine& line) { return add_picture(line); }));
    if (set_.begins.empty()) {
      return content_error("XG0412", {"{} names no picture", pictures_},
                           "each line has a path, a template and a medium: 1.jpg 1 69544");
    }
    set_.pairs.templates = static_cast<int64_t>(templates_.count());
    set_.names = templates_.texts();
    sort_samples();
    XRUN_TRY(visit_lines(pairs_, kLongestLine, stop_, [this](const TextLine& line) { return add_pair(line); }));
    if (set_.pairs.pairs.empty()) {
      return content_error("XG0412", {"{} names no pair of templates", pairs_},
                           "each line has two templates, and 1 (same) or 0: 1 11065 1");
    }
    return std::move(set_);
  }

 private:
  static Error fault(const std::string& path, const TextLine& line, const std::string& why, const Text& help) {
    return content_error("XG0412", {"{}:{}: {}", path, line.number, why}, help);
  }

  Status add_picture(const TextLine& line) {
    const Columns columns = columns_of(line.text);
    if (columns.count == 0) {
      return {};
    }
    const auto refuse = [&](const std::string& why) {
      return fault(pictures_, line, why,
                   "each line has a path, a template and a medium, or in all lines only a path and a template; "
                   "if a path has spaces, separate the columns by tabs");
    };
    if (columns.count != 2 && columns.count != 3) {
      return refuse(fmt::format("{} instead of 2 or 3", counted(static_cast<int64_t>(columns.count), "column")));
    }
    if (columns_ != 0 && columns.count != columns_) {
      return refuse(fmt::format("{} columns, but {} in the lines before", columns.count, columns_));
    }
    columns_ = columns.count;
    if (std::ranges::any_of(columns.text.begin(), columns.text.begin() + static_cast<std::ptrdiff_t>(columns.count),
                            &std::string_view::empty)) {
      return refuse("an empty column");
    }
    const uint32_t medium =
        columns.count == 3 ? media_.add(columns.text[2]) : static_cast<uint32_t>(set_.begins.size());
    set_.pairs.samples.push_back({.of_template = templates_.add(columns.text[1]), .medium = medium});
    set_.begins.push_back(set_.text.size());
    set_.text += columns.text[0];
    set_.text += '\n';
    return check_memory(pictures_);
  }

  // Sorts the samples by template and medium, so that the features of a medium and of a template are consecutive.
  void sort_samples() {
    std::vector<uint32_t> order(set_.begins.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](uint32_t sample) {
      const TemplatePairs::Sample& one = set_.pairs.samples[sample];
      return std::pair(one.of_template, one.medium);
    });
    TemplateSet sorted;
    for (const uint32_t sample : order) {
      sorted.pairs.samples.push_back(set_.pairs.samples[sample]);
      sorted.begins.push_back(set_.begins[sample]);
    }
    set_.pairs.samples = std::move(sorted.pairs.samples);
    set_.begins = std::move(sorted.begins);
  }

  Status add_pair(const TextLine& line) {
    const Columns columns = columns_of(line.text);
    if (columns.count == 0) {
      return {};
    }
    constexpr const char* kHelp = "a line of a list of pairs has two templates, and 1 (same) or 0";
    if (columns.count != 3) {
      return fault(pairs_, line, fmt::format("{} instead of 3", counted(static_cast<int64_t>(columns.count), "column")),
                   kHelp);
    }
    std::array<uint32_t, 2> both{};
    for (size_t i = 0; i < 2; ++i) {
      const auto number = templates_.find(columns.text[i]);
      if (!number) {
        return fault(
            pairs_, line,
            fmt::format("template `{}` has no picture in {}", printable_line(columns.text[i].substr(0, 64)), pictures_),
            "add its pictures to that list, or leave the pair out");
      }
      both[i] = *number;
    }
    const auto same = pair_flag(columns.text[2]);
    if (!same) {
      return fault(pairs_, line, fmt::format("`{}` is neither 1 nor 0", printable_line(columns.text[2].substr(0, 32))),
                   kHelp);
    }
    set_.pairs.pairs.push_back(
        {.first = both[0], .second = both[1] & (TemplatePairs::kMostTemplates - 1), .same = *same != 0 ? 1U : 0U});
    return check_memory(pairs_);
  }

  // Checks the limit, after each line. Numbers of templates and media then also fit into their types.
  Status check_memory(const std::string& path) const {
    if (set_.memory() + templates_.memory() + media_.memory() <= most_ &&
        set_.begins.size() < TemplatePairs::kMostTemplates) {
      return {};
    }
    return content_error("XG0412", {"{} needs more than {} of memory", path, format_bytes(most_)},
                         "divide the pairs into several sources, each with the pictures of its templates");
  }

  std::string pictures_;
  std::string pairs_;
  Bytes most_;
  StopFlag stop_;
  TemplateSet set_;
  Numbers templates_;
  Numbers media_;
  size_t columns_ = 0;  // number of columns in the lines before; 0: there are no lines before
};

}  // namespace

std::string_view TemplateSet::path_of(size_t sample) const {
  const std::string_view rest = std::string_view(text).substr(begins[sample]);
  return rest.substr(0, rest.find('\n'));
}

Bytes TemplateSet::memory() const {
  return static_cast<Bytes>(pairs.samples.capacity() * sizeof(TemplatePairs::Sample) +
                            pairs.pairs.capacity() * sizeof(TemplatePairs::Pair) + begins.capacity() * sizeof(size_t) +
                            text.capacity() + names.capacity() * sizeof(std::string));
}

Result<TemplateSet> read_template_set(const std::string& pictures, const std::string& pairs, Bytes most_memory,
                                      StopFlag stop) {
  return SetReader(pictures, pairs, most_memory, stop).read();
}

}  // namespace xrun::runtime
