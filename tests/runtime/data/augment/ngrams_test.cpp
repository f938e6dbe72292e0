// Numbers of n-grams. The expected numbers are those of the Python package xxhash 3.6:
//   1 + xxhash.xxh3_64_intdigest(ngram.encode(), seed=0) % 65535
#include "runtime/data/augment/ngrams.h"

#include <gmock/gmock.h>

#include "graph/settings/reader_def.h"
#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

NgramForm form(int64_t length, std::pair<int64_t, int64_t> chars, std::pair<int64_t, int64_t> words = {1, 0}) {
  return {.rows = 65'536,
          .length = length,
          .least_chars = chars.first,
          .most_chars = chars.second,
          .least_words = words.first,
          .most_words = words.second};
}

std::vector<double> numbers(std::string_view text, const NgramForm& form, int64_t* left_out = nullptr) {
  NgramScratch scratch;
  std::vector<double> row;
  hash_ngrams(text, form, scratch, row);
  if (left_out != nullptr) {
    *left_out = scratch.left_out;
  }
  return row;
}

TEST(Ngrams, CharactersOfAWordWithItsMarks) {
  EXPECT_THAT(numbers("the", form(8, {3, 5})), ElementsAre(10'362, 40'563, 60'246, 43'239, 63'800, 48'897, 0, 0));
  NgramForm seeded = form(3, {3, 3});
  seeded.seed = 7;
  EXPECT_THAT(numbers("the", seeded), ElementsAre(22'535, 14'451, 24'385));
}

TEST(Ngrams, WordsComeBeforeCharacters) {
  EXPECT_THAT(numbers(" the\tcat\r", form(5, {1, 0}, {1, 2})), ElementsAre(20'131, 8'816, 7'309, 0, 0));
  EXPECT_THAT(numbers("the", form(3, {4, 4}, {1, 1})), ElementsAre(20'131, 40'563, 63'800));
}

TEST(Ngrams, ACharacterIsACodePoint) {
  EXPECT_THAT(numbers("\xC3\xA9", form(3, {2, 2})), ElementsAre(56'403, 57'427, 0));
  EXPECT_EQ(numbers("\xC3\xA9", form(4, {1, 1})).at(1), 0) << "a mark alone is no n-gram";
}

TEST(Ngrams, OnlyLettersOfAsciiBecomeLowerCase) {
  NgramForm lower = form(6, {2, 3}, {1, 1});
  lower.lower = true;
  EXPECT_EQ(numbers("The", lower), numbers("the", form(6, {2, 3}, {1, 1})));
  EXPECT_NE(numbers("The", form(6, {2, 3})), numbers("the", form(6, {2, 3})));
  EXPECT_NE(numbers("\xC3\x89", lower), numbers("\xC3\xA9", lower)) << "capital e acute";
}

TEST(Ngrams, NgramsThatDoNotFitAreCounted) {
  int64_t left_out = -1;
  EXPECT_THAT(numbers("the", form(2, {3, 5}), &left_out), ElementsAre(10'362, 40'563));
  EXPECT_EQ(left_out, 4);
  numbers("the", form(6, {3, 5}), &left_out);
  EXPECT_EQ(left_out, 0);
  EXPECT_THAT(numbers(" \t ", form(2, {1, 6}, {1, 3}), &left_out), ElementsAre(0, 0));
  EXPECT_EQ(left_out, 0);
  // The count agrees with a row that is long enough, for texts of one to five words.
  std::string text;
  for (int words = 1; words <= 5; ++words) {
    text += std::string(static_cast<size_t>(words), 'x') + "\xC3\xA9 ";
    for (const auto& chars : {std::pair<int64_t, int64_t>{1, 1}, {1, 4}, {2, 3}, {6, 9}, {1, 0}}) {
      for (const auto& grams : {std::pair<int64_t, int64_t>{1, 0}, {1, 1}, {2, 3}, {1, 9}}) {
        const auto all = numbers(text, form(1000, chars, grams), &left_out);
        ASSERT_EQ(left_out, 0);
        const auto count = std::ranges::count_if(all, [](double x) { return x != 0; });
        const auto some = numbers(text, form(1, chars, grams), &left_out);
        EXPECT_EQ(left_out, std::max<int64_t>(count - 1, 0)) << text << chars.first << grams.first;
        EXPECT_EQ(some[0], all[0]);
      }
    }
  }
}

TEST(Ngrams, NumbersAreThoseOfRowsBeforeTheLast) {
  NgramForm two = form(100, {1, 6});
  two.rows = 2;
  for (const double number : numbers("hashing", two)) {
    EXPECT_TRUE(number == 0 || number == 1);
  }
}

TEST(Ngrams, TheStageNeedsATextAndAKindOfNgrams) {
  const AugmentDef* stage = data_registry().find_augment("ngrams");
  ASSERT_NE(stage, nullptr);
  const Field text{"text", {.dtype = DType::kU8, .dims = {kBatch, 0}}};
  const Attrs sizes{{"rows", int64_t{64}}, {"length", int64_t{8}}};
  Attrs good = sizes;
  good.set("chars", std::vector<int64_t>{2, 4});
  EXPECT_EQ(to_text(*stage->infer(text, good)), "index(64)[N, 8]");
  EXPECT_THAT(stage->infer(text, sizes).error().message, HasSubstr("neither `chars` nor `words`"));
  const Field row{"row", {.dtype = DType::kF64, .dims = {kBatch, 3}}};
  EXPECT_EQ(stage->infer(row, good).error().code, "XG0409");
  for (const AttrValue& wrong : {AttrValue(std::vector<int64_t>{4, 2}), AttrValue(std::vector<int64_t>{1, 2, 3}),
                                 AttrValue(std::vector<double>{1.5}), AttrValue(std::vector<int64_t>{0, 2})}) {
    Attrs bad = sizes;
    bad.set("chars", wrong);
    const auto made = stage->infer(text, bad);
    ASSERT_FALSE(made.ok()) << to_text(wrong);
    EXPECT_EQ(made.error().code, "XG0413");
  }
}

class TextRows : public Files {
 protected:
  Result<std::unique_ptr<SampleRows>> open(std::string_view lines, int64_t length) {
    Attrs args{{"path", write("a.tsv", lines)}, {"delimiter", std::string("\t")}, {"header", false}};
    const CallSpec ngrams{
        "ngrams", {{"rows", int64_t{64}}, {"length", length}, {"chars", std::vector<int64_t>{2, 3}}}, {}};
    const DataSpec data{.name = "d",
                        .sources = {source("train", "text", std::move(args))},
                        .bindings = {{.target = "ids", .field = "text", .stages = {ngrams}}}};
    const TensorType ids{.dtype = DType::kI32, .dims = {kBatch, length}, .classes = 64};
    return SampleRows::open(data, "train", inputs({{"ids", ids}, {"label", label_type(2)}}));
  }
};

TEST_F(TextRows, ATextWithMoreNgramsThanARowHoldsIsReported) {
  const auto rows = open("a\tx\nb\txyzw\nb\txyz\n", 6);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  const auto warning = (*rows)->cut_texts();
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->code, "XG0430");
  EXPECT_THAT(warning->message, HasSubstr("source `train`: 2 of 3 texts have more than 6 n-grams, of which 4 are left "
                                          "out; the first: "));
  EXPECT_THAT(warning->message, HasSubstr("a.tsv:2"));
  EXPECT_EQ(warning->help,
            "let a row have 9 numbers, which keep all n-grams of these texts, or narrow `chars` and `words`");
  EXPECT_FALSE(open("a\tx\nb\txyzw\n", 9).value()->cut_texts().has_value());
}

TEST_F(TextRows, RowsHoldTheNumbersAndTheLabel) {
  const auto rows = open("a\tx\nb\txyzw\n", 9);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  std::vector<int32_t> ids(9, -1);
  int32_t label = -1;
  BatchView view;
  view.inputs = {reinterpret_cast<std::byte*>(ids.data()), reinterpret_cast<std::byte*>(&label)};
  AugmentScratch scratch;
  ASSERT_TRUE((*rows)->fill(1, {}, scratch, view, 0).ok());
  EXPECT_EQ(label, 1);
  NgramForm same = form(9, {2, 3});
  same.rows = 64;
  const auto expected = numbers("xyzw", same);
  EXPECT_EQ(std::vector<double>(ids.begin(), ids.end()), expected);
}

}  // namespace
}  // namespace xrun::runtime
