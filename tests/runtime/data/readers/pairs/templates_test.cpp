// The reader `pairs` with `templates`: lists as IJB-C has them, and their faults.
#include "runtime/data/readers/pairs/templates.h"

#include <atomic>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/open_reader.h"
#include "runtime/data/readers/pairs/template_set.h"
#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Templates : public Files {
 protected:
  Result<std::unique_ptr<Reader>> open(const std::string& root = "") const {
    return open_reader(source("ijbc", "pairs",
                              {{"path", std::string("pairs.txt")}, {"root", root}, {"templates", std::string("t.txt")}},
                              root_.string()));
  }
  std::string fault(const std::string& pictures, const std::string& pairs) {
    write("t.txt", pictures);
    write("pairs.txt", pairs);
    const auto reader = open();
    EXPECT_FALSE(reader.ok()) << pictures << pairs;
    EXPECT_EQ(reader.ok() ? "" : reader.error().code, "XG0412");
    EXPECT_FALSE(!reader.ok() && reader.error().help.empty());
    return reader.ok() ? "" : reader.error().message;
  }
};

std::vector<std::array<uint32_t, 2>> samples_of(const TemplatePairs& pairs) {
  std::vector<std::array<uint32_t, 2>> samples;
  for (const TemplatePairs::Sample& one : pairs.samples) {
    samples.push_back({one.of_template, one.medium});
  }
  return samples;
}

TEST_F(Templates, AreSortedByTemplateAndMedium) {
  write("t.txt",
        "\xEF\xBB\xBF"
        "1.jpg 11 m1\r\n2.jpg 7 m2\n\n3.jpg 11 m3\n4.jpg 11 m1\n  \n5.jpg 7 m2");
  write("pairs.txt", "7 11 1\n11 7 0\n7\t7\tTrue\n");
  write("1.jpg", "1");
  const auto reader = open();
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  const Reader& set = **reader;
  ASSERT_NE(set.templates(), nullptr);
  using Pair = std::array<uint32_t, 2>;
  EXPECT_THAT(samples_of(*set.templates()), ElementsAre(Pair{0, 0}, Pair{0, 0}, Pair{0, 2}, Pair{1, 1}, Pair{1, 1}));
  ASSERT_EQ(set.templates()->pairs.size(), 3U);
  EXPECT_EQ(set.templates()->pairs[0].first, 1U);
  EXPECT_EQ(set.templates()->pairs[0].second, 0U);
  EXPECT_EQ(set.templates()->pairs[0].same, 1U);
  EXPECT_EQ(set.templates()->pairs[1].same, 0U);
  EXPECT_EQ(set.sample_name(1), "t.txt template 11 (4.jpg)");
  EXPECT_EQ(set.describe(), "pairs: 3 pairs of 2 templates, 2 of the same person; 5 pictures");
  EXPECT_EQ(set.classes(), 0);
  EXPECT_FALSE(set.has_labels());
  EXPECT_GT(set.memory(), 3 * 8 + 5 * 16);
  EXPECT_LT(set.memory(), 2000);
}

TEST_F(Templates, PicturesAreReadBelowTheRoot) {
  write("t.txt", "a b.jpg\t1\nc.jpg\t2\n");
  write("pairs.txt", "1 2 0\n");
  write("crops/a b.jpg", "A");
  write("c.jpg", "C");
  FieldValue value;
  const auto below = open("crops").value();
  ASSERT_TRUE(below->read(0, below->find_field("file"), value).ok());
  EXPECT_EQ(static_cast<char>(value.bytes[0]), 'A');
  const Status missing = below->read(1, 0, value);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, "XG0412");
  const auto here = open().value();
  ASSERT_TRUE(here->read(1, 0, value).ok());
  EXPECT_EQ(static_cast<char>(value.bytes[0]), 'C');
  ASSERT_TRUE(here->read(1, here->find_field("template"), value).ok());
  int64_t number = 0;
  ASSERT_EQ(value.bytes.size(), sizeof number);
  std::memcpy(&number, value.bytes.data(), sizeof number);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(samples_of(*here->templates())[1][1], 1U) << "without media each picture is its own medium";
}

TEST_F(Templates, FaultsHaveTheirLine) {
  const std::string pictures = "1.jpg 1 m\n2.jpg 2 m\n";
  EXPECT_THAT(fault("1.jpg\n", "1 1 1\n"), HasSubstr("t.txt:1: 1 column instead of 2 or 3"));
  EXPECT_THAT(fault("1.jpg 1 2 3\n", "1 1 1\n"), HasSubstr("t.txt:1: 4 columns instead of 2 or 3"));
  EXPECT_THAT(fault("1.jpg 1 2\n\n2.jpg 1\n", "1 1 1\n"), HasSubstr("t.txt:3: 2 columns, but 3 in the lines before"));
  EXPECT_THAT(fault("1.jpg\t\tm\n", "1 1 1\n"), HasSubstr("t.txt:1: an empty column"));
  EXPECT_THAT(fault("\n \n", "1 1 1\n"), HasSubstr("t.txt names no picture"));
  EXPECT_THAT(fault("", "1 1 1\n"), HasSubstr("t.txt names no picture"));
  EXPECT_THAT(fault(pictures, ""), HasSubstr("pairs.txt names no pair of templates"));
  EXPECT_THAT(fault(pictures, "1 2\n"), HasSubstr("pairs.txt:1: 2 columns instead of 3"));
  EXPECT_THAT(fault(pictures, "1 2 1\n1 2 yes\n"), HasSubstr("pairs.txt:2: `yes` is neither 1 nor 0"));
  EXPECT_THAT(fault(pictures, "1 2 1\n1 3 0\n"), HasSubstr("pairs.txt:2: template `3` has no picture in "));
  EXPECT_THAT(fault("\x1F\x8B\b", "1 1 1\n"), HasSubstr("t.txt: a file compressed by gzip"));
}

TEST_F(Templates, AListThatIsMissingIsAnError) {
  write("pairs.txt", "1 1 1\n");
  EXPECT_EQ(open().error().code, "XG0401");
}

TEST_F(Templates, AListWithoutAnyPictureThatExistsIsRefused) {
  write("t.txt", "1.jpg 1 m\n2.jpg 2 m\n");
  write("pairs.txt", "1 2 0\n");
  write("crops/2.jpg", "2");
  EXPECT_TRUE(open("crops").ok());
  const auto wrong = open("corps");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, "XG0401");
  EXPECT_THAT(wrong.error().message,
              HasSubstr("2 of 2 were examined, the first is " + (root_ / "corps/1.jpg").string()));
  EXPECT_THAT(wrong.error().help, HasSubstr("root="));
}

TEST_F(Templates, MemoryIsLimited) {
  std::string pictures;
  std::string pairs;
  for (int i = 0; i < 2000; ++i) {
    pictures += std::to_string(i) + ".jpg " + std::to_string(i / 4) + " " + std::to_string(i / 2) + "\n";
    pairs += std::to_string(i / 4) + " " + std::to_string(i % 500) + " 0\n";
  }
  const std::string t = write("t.txt", pictures);
  const std::string p = write("pairs.txt", pairs);
  const auto set = read_template_set(t, p, kMiB);
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->pairs.templates, 500);
  EXPECT_LT(set->memory(), 150 * kKiB);
  for (const Bytes most : {10 * kKiB, 120 * kKiB}) {
    const auto refused = read_template_set(t, p, most);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, "XG0412");
    EXPECT_THAT(refused.error().message, HasSubstr("of memory"));
  }
  const std::atomic<bool> stop{true};
  EXPECT_EQ(read_template_set(t, p, kMiB, &stop).error().kind, ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace xrun::runtime
