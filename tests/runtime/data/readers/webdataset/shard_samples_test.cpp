#include "runtime/data/readers/webdataset/shard_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tar_files.h"

namespace xrun::runtime {
namespace {

using namespace xrun::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ShardSamples> scan(const std::string& archive) {
  TarMemory bytes(bytes_of(archive));
  return scan_shard(bytes, "a.tar");
}

std::vector<int64_t> labels_of(const ShardSamples& shard) {
  std::vector<int64_t> labels;
  for (size_t i = 0; i < shard.labels.size(); ++i) {
    labels.push_back(shard.labels.at(i));
  }
  return labels;
}

TEST(MemberNames, EndTheirKeyAtTheFirstDotOfTheBaseName) {
  const auto parts = [](const std::string& name) {
    const auto split = split_name(name);
    return split ? std::string(split->key) + "|" + split->extension : "none";
  };
  EXPECT_EQ(parts("7.jpg"), "7|jpg");
  EXPECT_EQ(parts("a/7.Seg.PNG"), "a/7|seg.png");
  EXPECT_EQ(parts("a.b/7.cls"), "a.b/7|cls");
  EXPECT_EQ(parts("./7.jpg"), "./7|jpg");
  EXPECT_EQ(parts("7."), "7|");
  EXPECT_EQ(parts("a b.jpg"), "a b|jpg");
  EXPECT_EQ(parts("__a__.jpg"), "__a__|jpg") << "webdataset leaves out only `__a__` itself and what is below it";
  for (const std::string other :
       {"7", "a.b/7", "", "/", "a/", ".hidden", "a/.hidden.jpg", "._7.jpg", "__meta__", "__meta__/7.jpg", "____"}) {
    EXPECT_EQ(parts(other), "none") << other;
  }
}

TEST(Labels, AreWholeDecimalNumbers) {
  const auto label = [](const std::string& text) { return parse_label(bytes_of(text)).value_or(-999); };
  EXPECT_EQ(label("7"), 7);
  EXPECT_EQ(label(" 7\n"), 7);
  EXPECT_EQ(label("7\r\n"), 7);
  EXPECT_EQ(label("7.0"), 7);
  EXPECT_EQ(label("7.000\n"), 7);
  EXPECT_EQ(label("+7"), 7);
  EXPECT_EQ(label("007"), 7);
  EXPECT_EQ(label("-1"), -1);
  EXPECT_EQ(label("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(label(std::string("7\0", 2)), 7);
  for (const std::string wrong : {"", " ", "7.5", "7.05", "7e0", "7 8", "seven", "9223372036854775808", ".5", "+-7",
                                  "0x7", "7,0", "-9223372036854775808"}) {
    EXPECT_EQ(label(wrong), -999) << wrong;
  }
}

TEST(Labels, TakeFourBytesUntilOneNeedsEight) {
  SampleLabels labels;
  for (const int64_t label : {SampleLabels::kNone, SampleLabels::kBroken, int64_t{INT32_MAX}, int64_t{-5}}) {
    labels.add(label);
  }
  EXPECT_EQ(labels.narrow().size(), 4u);
  labels.set_last(int64_t{INT32_MIN});
  EXPECT_TRUE(labels.narrow().empty()) << "the least i32 stands for a sample without a label";
  labels.add(INT64_MAX);
  const std::vector<int64_t> expected{SampleLabels::kNone, SampleLabels::kBroken, INT32_MAX, INT32_MIN, INT64_MAX};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(labels.at(i), expected[i]);
  }
}

TEST(ShardSamples, AreConsecutiveMembersWithOneKey) {
  const auto shard = scan(tar_file({{"__meta__", "x"},
                                    {"0.jpg", "picture"},
                                    {"0.cls", "3"},
                                    {"notes", "x"},
                                    {"0.json", "{}"},
                                    {"1.cls", "none"},
                                    {"1.jpg", "picture"},
                                    {"2.jpg", std::string(9000, 'x')},
                                    {"3.cls", "7.0"},
                                    {".hidden.jpg", "x"}}))
                         .value();
  EXPECT_THAT(shard.first_blocks, ElementsAre(2, 10, 14, 33));
  EXPECT_EQ(shard.end_block, 37u);
  EXPECT_THAT(labels_of(shard), ElementsAre(3, SampleLabels::kBroken, SampleLabels::kNone, 7));
  EXPECT_EQ(shard.largest_label, 7);
  EXPECT_EQ(shard.labelled, 2);
  EXPECT_EQ(shard.other_members, 2) << "`notes` and the hidden file, but not the metadata";
  EXPECT_EQ(shard.most_members, 3);
  EXPECT_EQ(shard.begin_of(1), 5120);
  EXPECT_EQ(shard.end_of(0), 5120);
  EXPECT_EQ(shard.end_of(3), 37 * 512);
  std::vector<std::string> extensions;
  for (const ExtensionCount& one : shard.extensions) {
    extensions.push_back(one.name + " " + std::to_string(one.members));
  }
  EXPECT_THAT(extensions, ElementsAre("jpg 3", "cls 3", "json 1"));
}

TEST(ShardSamples, ARepeatedExtensionIsAnError) {
  const auto shard = scan(tar_file({{"0.jpg", "x"}, {"0.JPG", "x"}}));
  ASSERT_FALSE(shard.ok());
  EXPECT_EQ(shard.error().code, "XG0412");
  EXPECT_EQ(shard.error().message,
            "a.tar: the sample `0` has two members with the extension `jpg`; the second one is at offset 1 024");
  EXPECT_THAT(shard.error().help, HasSubstr("first dot"));
}

TEST(ShardSamples, DotsInKeysAreReportedBeforeASampleGrowsWithoutBound) {
  std::vector<std::pair<std::string, std::string>> members;
  for (int i = 0; i < 1001; ++i) {
    members.emplace_back(fmt::format("shop.{}.jpg", i), "x");
  }
  const auto shard = scan(tar_file(members));
  ASSERT_FALSE(shard.ok());
  EXPECT_EQ(shard.error().message, "a.tar: the sample `shop` has more than 1000 members");
}

TEST(ShardSamples, UnusualShardsAreRecorded) {
  const std::string one = tar_file({{"0.jpg", "x"}});
  EXPECT_FALSE(scan(one).value().no_end);
  EXPECT_TRUE(scan(one.substr(0, 1024)).value().no_end);
  EXPECT_FALSE(scan(one).value().after_end);
  EXPECT_FALSE(scan(one + std::string(9728, '\0')).value().after_end);
  EXPECT_TRUE(scan(one + std::string(8192, '\0') + tar_file({{"1.jpg", "x"}})).value().after_end) << "joined by `cat`";
  EXPECT_FALSE(scan(one + "garbage" + std::string(600, 'x')).value().after_end) << "no member";
  const auto split = scan(tar_file({{"0.jpg", "x"}, {"1.jpg", "x"}, {"0.cls", "1"}, {"1.cls", "2"}})).value();
  EXPECT_EQ(split.samples(), 4);
  EXPECT_EQ(split.split_keys, 2);
  EXPECT_EQ(scan(tar_member("0.jpg", "x") + tar_header({.name = "1.jpg", .type = '2'}) + kTarEnd).value().links, 1);
  EXPECT_EQ(scan(kTarEnd).value().samples(), 0);
}

TEST(ShardSamples, ALabelOfManyBytesIsNotRead) {
  const auto shard = scan(tar_file({{"0.cls", std::string(64, ' ')}, {"1.cls", "1" + std::string(64, ' ')}})).value();
  EXPECT_THAT(labels_of(shard), ElementsAre(SampleLabels::kBroken, SampleLabels::kBroken));
}

}  // namespace
}  // namespace xrun::runtime
