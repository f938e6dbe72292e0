// Numbers of the n-grams of a text, from a hash: the stage `ngrams`.
//
// Words are the parts of a text between blanks (space, tab, vertical tab, form feed, carriage return). The character
// n-grams of a word are those of `<word>` in UTF-8, except a `<` or `>` alone, as in Bojanowski et al., "Enriching Word
// Vectors with Subword Information", TACL 2017. The text of a word n-gram is its words with a space before each, so it
// differs from those of all character n-grams. Nothing else is changed: there is no Unicode normalization.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/types/attr.h"

namespace xrun::runtime {

struct AugmentStep;
struct AugmentScratch;
struct DrawKey;

struct NgramForm {
  int64_t rows = 2;
  int64_t length = 1;
  int64_t least_chars = 1;  // the shortest and the longest character n-grams; least > most: there are none
  int64_t most_chars = 0;
  int64_t least_words = 1;
  int64_t most_words = 0;
  bool lower = false;  // A-Z become a-z
  uint64_t seed = 0;
};

// Working memory of one thread.
struct NgramScratch {
  std::string words;              // " the cat"
  std::string marked;             // "<the><cat>"
  std::vector<size_t> word_ends;  // the ends of the words in `words`
  std::vector<size_t> chars;      // the beginnings of the characters of a word in `marked`, and its end
  int64_t left_out = 0;           // the n-grams of the last text that did not fit
};

// The form that the arguments of the stage give.
NgramForm ngram_form(const Attrs& arguments);

// The number of an n-gram, 1..rows-1: 1 + XXH3_64(text, seed) mod (rows - 1).
int64_t ngram_number(std::string_view text, const NgramForm& form);

// Writes the numbers of the n-grams of `text` to `numbers`: the word n-grams and then, word by word, the character
// n-grams, each by its beginning and then its length. 0 fills the rest up to form.length; n-grams that do not fit are
// counted in scratch.left_out. REQUIRES: `text` is UTF-8.
void hash_ngrams(std::string_view text, const NgramForm& form, NgramScratch& scratch, std::vector<double>& numbers);

// The stage: makes the text in the source's value a working row.
Status run_ngrams(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);

}  // namespace xrun::runtime
