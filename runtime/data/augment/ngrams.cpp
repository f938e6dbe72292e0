#include "runtime/data/augment/ngrams.h"

#include <algorithm>
#include <span>

#include "graph/base/check.h"
#include "graph/base/utf8.h"
#include "graph/base/xxh128.h"
#include "runtime/data/augment/augment.h"

namespace xrun::runtime {
namespace {

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Adds a word to the scratch memory.
void add_word(std::string_view word, bool lower, NgramScratch& scratch) {
  scratch.words += ' ';
  for (const char c : word) {
    scratch.words += lower && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  scratch.word_ends.push_back(scratch.words.size());
  scratch.marked += '<';
  scratch.marked += std::string_view(scratch.words).substr(scratch.words.size() - word.size());
  scratch.marked += '>';
}

void split_words(std::string_view text, bool lower, NgramScratch& scratch) {
  scratch.words.clear();
  scratch.marked.clear();
  scratch.word_ends.clear();
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && !is_blank(text[end])) {
      ++end;
    }
    if (end > begin) {
      add_word(text.substr(begin, end - begin), lower, scratch);
    }
    begin = end + 1;
  }
}

// The number of n-grams with `least` to `most` of `count` units.
int64_t count_ngrams(int64_t count, int64_t least, int64_t most) {
  const int64_t longest = std::min(count, most);
  const int64_t kinds = std::max<int64_t>(longest - least + 1, 0);
  return kinds * (count + 1) - kinds * (least + longest) / 2;
}

// Finds where the characters of the marked word at `begin` begin, and where it ends.
void find_chars(size_t begin, size_t end, NgramScratch& scratch) {
  scratch.chars.clear();
  for (size_t at = begin; at < end;) {
    scratch.chars.push_back(at);
    at += std::max<uint32_t>(1, sequence_length(std::string_view(scratch.marked).substr(at)));
  }
  scratch.chars.push_back(end);
}

}  // namespace

NgramForm ngram_form(const Attrs& arguments) {
  NgramForm form{.rows = arguments.integer("rows"),
                 .length = arguments.integer("length"),
                 .lower = arguments.flag("lower", false),
                 .seed = static_cast<uint64_t>(arguments.integer("seed", 0))};
  const auto take = [&](std::string_view name, int64_t& least, int64_t& most) {
    if (arguments.has(name)) {
      const auto& ends = arguments.integers(name);
      least = ends.front();
      most = ends.back();
    }
  };
  take("chars", form.least_chars, form.most_chars);
  take("words", form.least_words, form.most_words);
  return form;
}

int64_t ngram_number(std::string_view text, const NgramForm& form) {
  const uint64_t hash = xxh3_64(std::as_bytes(std::span(text)), form.seed);
  return 1 + static_cast<int64_t>(hash % static_cast<uint64_t>(form.rows - 1));
}

void hash_ngrams(std::string_view text, const NgramForm& form, NgramScratch& scratch, std::vector<double>& numbers) {
  split_words(text, form.lower, scratch);
  const auto length = static_cast<size_t>(form.length);
  const auto words = std::ssize(scratch.word_ends);
  numbers.clear();
  int64_t all = count_ngrams(words, form.least_words, form.most_words);
  const auto begin_of = [&](int64_t word) { return word == 0 ? 0 : scratch.word_ends[static_cast<size_t>(word) - 1]; };
  const auto add = [&](std::string_view ngram) { numbers.push_back(static_cast<double>(ngram_number(ngram, form))); };
  for (int64_t i = 0; i < words && numbers.size() < length; ++i) {
    for (int64_t n = form.least_words; n <= form.most_words && i + n <= words && numbers.size() < length; ++n) {
      add(std::string_view(scratch.words).substr(begin_of(i), begin_of(i + n) - begin_of(i)));
    }
  }
  for (int64_t word = 0, begin = 0; word < words && form.most_chars >= form.least_chars; ++word) {
    // `<` and `>` take the place of the space, and one byte more.
    const int64_t end = static_cast<int64_t>(begin_of(word + 1)) + word + 1;
    find_chars(static_cast<size_t>(begin), static_cast<size_t>(end), scratch);
    begin = end;
    const int64_t chars = std::ssize(scratch.chars) - 1;
    all += count_ngrams(chars, form.least_chars, form.most_chars) - (form.least_chars == 1 ? 2 : 0);
    for (int64_t i = 0; i < chars && numbers.size() < length; ++i) {
      for (int64_t n = form.least_chars; n <= form.most_chars && i + n <= chars && numbers.size() < length; ++n) {
        if (n > 1 || (i > 0 && i + 1 < chars)) {
          const size_t from = scratch.chars[static_cast<size_t>(i)];
          add(std::string_view(scratch.marked).substr(from, scratch.chars[static_cast<size_t>(i + n)] - from));
        }
      }
    }
  }
  scratch.left_out = all - std::ssize(numbers);
  numbers.resize(length, 0);
}

Status run_ngrams(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_CHECK(scratch.form == AugmentScratch::kSource && scratch.source.dtype == DType::kU8, "n-grams of no text");
  const auto bytes = scratch.source.bytes;
  hash_ngrams({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, step.ngrams, scratch.ngrams, scratch.row);
  scratch.form = AugmentScratch::kRow;
  return {};
}

}  // namespace xrun::runtime
