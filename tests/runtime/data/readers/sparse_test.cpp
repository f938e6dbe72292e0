// Rows that scikit-learn wrote, with the line of counts of the Extreme Classification Repository.
#include "runtime/data/readers/sparse.h"

#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/data/open_reader.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::source;
using SparseReader = testing::Files;

const std::string kFile = XRUN_SOURCE_DIR "/tests/runtime/data/files/sparse/several.txt";

SourceSpec sparse(const std::string& path, const char* label = nullptr, int64_t hash = 0) {
  Attrs args{{"path", path}};
  if (label != nullptr) {
    args.set("label", std::string(label));
  }
  if (hash > 0) {
    args.set("hash", hash);
  }
  return source("train", "sparse", std::move(args));
}

std::unique_ptr<Reader> open(const SourceSpec& spec) {
  auto reader = open_reader(spec);
  EXPECT_TRUE(reader.ok()) << reader.error().message << reader.error().help;
  return reader.ok() ? std::move(reader).value() : nullptr;
}

std::vector<float> features_of(const Reader& reader, int64_t sample) {
  FieldValue value;
  const Status done = reader.read(sample, 0, value);
  EXPECT_TRUE(done.ok()) << done.error().message;
  const auto* from = reinterpret_cast<const float*>(value.bytes.data());
  return {from, from + value.elements()};
}

std::vector<int32_t> labels_of(const Reader& reader) {
  std::vector<int32_t> labels;
  FieldValue value;
  for (int64_t i = 0; i < reader.samples(); ++i) {
    EXPECT_TRUE(reader.read(i, 1, value).ok());
    labels.push_back(*reinterpret_cast<const int32_t*>(value.bytes.data()));
  }
  return labels;
}

void expect_fault(const SourceSpec& spec, const char* code, const std::string& message, const std::string& help) {
  const auto reader = open_reader(spec);
  ASSERT_FALSE(reader.ok()) << message;
  EXPECT_EQ(reader.error().code, code);
  EXPECT_THAT(reader.error().message, HasSubstr(message));
  EXPECT_THAT(reader.error().help, HasSubstr(help));
}

TEST_F(SparseReader, EveryLineIsARow) {
  const auto reader = open(sparse(kFile, "first"));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->samples(), 6);
  EXPECT_EQ(reader->classes(), 5);
  EXPECT_EQ(to_text(reader->fields()[0].type), "f32[N, 10]");
  EXPECT_THAT(labels_of(*reader), ElementsAre(0, 1, 0, 2, -1, 4));
  EXPECT_THAT(features_of(*reader, 0), ElementsAre(0.5F, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(features_of(*reader, 2), ElementsAre(0, 0, 1.5F, 0, 0, 0, 0, 0, 0, -2));
  EXPECT_EQ(features_of(*reader, 3), std::vector<float>(10));
  EXPECT_THAT(features_of(*reader, 4), ElementsAre(0, 0, 0, 0, 2.5F, 0, 0, 0, 0, -4));
  EXPECT_EQ(reader->describe(), "sparse: 6 rows of 10 features, 5 classes");
  EXPECT_EQ(reader->sample_name(2), kFile + ":4");
  EXPECT_EQ(reader->memory(), 6 * 12);
}

TEST_F(SparseReader, RowsWithSeveralLabelsNeedAChoice) {
  expect_fault(sparse(kFile), "XG0413", "several.txt: 2 of 6 rows have several labels, first that of line 2",
               "label=\"first\" for the first label of each row, or label=\"only\"");
  const auto reader = open(sparse(kFile, "only"));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->samples(), 3);
  EXPECT_THAT(labels_of(*reader), ElementsAre(1, 2, 4));
  EXPECT_THAT(features_of(*reader, 2), ElementsAre(0, 0, 0, 0, 0, 3, 0, 0, 0, -5));
  EXPECT_EQ(reader->sample_name(2), kFile + ":7");
  EXPECT_EQ(reader->describe(), "sparse: 3 of 6 rows with one label, 10 features, 5 classes");
  const auto header = open_header(sparse(kFile, "only"));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ((*header)->samples(), 3);
}

TEST_F(SparseReader, LinesThatTheFirstLineDoesNotCountAreRejected) {
  const std::string whole = xrun::testing::read_file(kFile);
  expect_fault(sparse(write("cut.txt", whole.substr(0, whole.size() - 14)), "first"), "XG0412",
               "its first line says 6 rows, but it has 5: it ends at byte ", "cut short");
  expect_fault(sparse(write("more.txt", whole + "1 0:1\n"), "first"), "XG0412",
               "its first line says 6 rows, but more follow at byte " + std::to_string(whole.size()), "first line");
  const auto blank = open(sparse(write("blank.txt", whole + "\n \n"), "first"));
  ASSERT_NE(blank, nullptr);
  EXPECT_EQ(blank->samples(), 6);
  EXPECT_THAT(features_of(*blank, 5), ElementsAre(0, 0, 0, 0, 0, 3, 0, 0, 0, -5));
  EXPECT_EQ(open(sparse(write("open.txt", whole.substr(0, whole.size() - 1)), "first"))->samples(), 6);
  expect_fault(sparse(write("no.txt", whole.substr(7)), "first"), "XG0412", "its first line is not three whole numbers",
               "15539 5000 3993");
  expect_fault(sparse(write("gz.txt", "\x1f\x8b\x08")), "XG0412", "compressed by gzip", "gunzip");
  const std::string absurd = write("absurd.txt", "9000000000000000000 10 5\n" + whole.substr(7));
  expect_fault(sparse(absurd, "first"), "XG0412", "says 9000000000000000000 rows, but it has ", "first line");
  EXPECT_FALSE(open_header(sparse(absurd, "first")).ok());
  expect_fault(sparse(write("empty.txt", "0 3 3\n")), "XG0406", "has no samples", "");
}

TEST_F(SparseReader, LineBreaksOfWindowsAreRead) {
  const auto reader = open(sparse(write("rows.txt", "3 2 2\r\n1 0:1\r\n\r\n0 1:2\r\n")));
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(labels_of(*reader), ElementsAre(1, -1, 0));
  EXPECT_THAT(features_of(*reader, 2), ElementsAre(0, 2));
}

TEST_F(SparseReader, ABrokenRowIsABrokenSample) {
  const auto reader = open(sparse(write("rows.txt", "4 2 2\n1 0:1\n2 0:1\n0 0:x\n0 1:3e38 1:3e38\n")));
  ASSERT_NE(reader, nullptr);
  FieldValue value;
  EXPECT_TRUE(reader->read(0, 1, value).ok());
  for (const auto& [sample, field, what] : {std::tuple{1, 1, "the label \"2\" is not a whole number below the 2"},
                                            {1, 0, "the label \"2\""},
                                            {2, 0, "the pair \"0:x\" is not FEATURE:VALUE"},
                                            {3, 0, "the sum of its values is not a finite f32"}}) {
    const Status done = reader->read(sample, field, value);
    ASSERT_FALSE(done.ok()) << what;
    EXPECT_EQ(done.error().code, "XG0412");
    EXPECT_THAT(done.error().message, HasSubstr(what));
  }
}

TEST_F(SparseReader, MoreFeaturesThanARowMayHaveAreHashed) {
  const std::string path = write("wide.txt", "2 1000000 2\n1 0:1 999999:2\n0 7:-3\n");
  expect_fault(sparse(path), "XG0413", "has 1 000 000 features, but a dense row has at most 65 536", "hash=4096");
  const auto reader = open(sparse(path, nullptr, 64));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(to_text(reader->fields()[0].type), "f32[N, 64]");
  std::vector<float> expected(64);
  const HashedFeature a = hash_feature(0, 64);
  const HashedFeature b = hash_feature(999'999, 64);
  expected[static_cast<size_t>(a.index)] += a.sign;
  expected[static_cast<size_t>(b.index)] += 2 * b.sign;
  EXPECT_EQ(features_of(*reader, 0), expected);
  EXPECT_EQ(reader->describe(), "sparse: 2 rows of 1 000 000 features hashed to 64, 2 classes");
}

// Products of hashed rows are unbiased, and places and signs are uniform.
TEST_F(SparseReader, HashedFeaturesAreUniformAndHaveBothSigns) {
  constexpr int64_t kSize = 256;
  constexpr int kFeatures = 256'000;
  std::vector<int> counts(kSize);
  double signs = 0;
  for (int64_t feature = 0; feature < kFeatures; ++feature) {
    const HashedFeature place = hash_feature(feature, kSize);
    ++counts[static_cast<size_t>(place.index)];
    signs += static_cast<double>(place.sign);
  }
  // 1,000 features a place; six standard deviations.
  EXPECT_GT(*std::ranges::min_element(counts), 1000 - 6 * 32);
  EXPECT_LT(*std::ranges::max_element(counts), 1000 + 6 * 32);
  EXPECT_LT(std::abs(signs), 6 * std::sqrt(kFeatures));
}

TEST_F(SparseReader, RowsAreFoundAcrossThePartsInWhichAFileIsRead) {
  std::string text = "3000 10 3000\n";
  std::string long_row;
  for (int i = 0; i < 400; ++i) {
    long_row += fmt::format(" {}:0.5", i % 10);
  }
  for (int i = 0; i < 3000; ++i) {
    text += fmt::format("{}{}\n", i, long_row);
  }
  ASSERT_GT(text.size(), size_t{4} << 20);
  const auto reader = open(sparse(write("rows.txt", text + "\n\n")));
  ASSERT_NE(reader, nullptr);
  const auto header = open_header(sparse(root_ / "rows.txt")).value();
  for (int64_t i = 0; i < 3000; ++i) {
    for (const Reader* one : {reader.get(), header.get()}) {
      FieldValue value;
      ASSERT_TRUE(one->read(i, 1, value).ok());
      ASSERT_EQ(*reinterpret_cast<const int32_t*>(value.bytes.data()), i);
    }
  }
  EXPECT_EQ(features_of(*reader, 2999), std::vector<float>(10, 20));
  EXPECT_EQ(features_of(*header, 2999), std::vector<float>(10, 20));
}

TEST_F(SparseReader, AHeaderReadsLabelsThatAreFarFromTheStart) {
  std::string long_row;
  for (int i = 0; i < 300'000; ++i) {
    long_row += fmt::format(" {}:0.5", i % 10);
  }
  const std::string text = "3 10 9\n7" + long_row + "\n8" + long_row + "\n";
  FieldValue value;
  const auto header = open_header(sparse(write("rows.txt", text + "3 1:2\n"))).value();
  ASSERT_TRUE(header->read(2, 1, value).ok());
  EXPECT_EQ(*reinterpret_cast<const int32_t*>(value.bytes.data()), 3);
  EXPECT_EQ(labels_of(*header), (std::vector<int32_t>{7, 8, 3}));
  const auto cut = open_header(sparse(write("cut.txt", text))).value();
  const Status missing = cut->read(2, 1, value);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message, HasSubstr("its first line says 3 rows, but it has 2"));
}

}  // namespace
}  // namespace xrun::runtime
