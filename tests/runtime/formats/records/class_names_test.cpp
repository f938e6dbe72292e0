// Files with the names of classes: where they are, what they hold, and what is refused.
#include "runtime/formats/records/class_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using xrun::testing::TemporaryDirectory;

TEST(ClassNames, ThePathIsThatOfTheDataWithoutTheNumberOfAShard) {
  EXPECT_EQ(class_names_path("a/train.rec"), "a/train.classes");
  EXPECT_EQ(class_names_path("train-000017.tar"), "train.classes");
  EXPECT_EQ(class_names_path("/d.1/train_v2.003.tar"), "/d.1/train_v2.classes");
  EXPECT_EQ(class_names_path("fold1.tar"), "fold1.classes");
  EXPECT_EQ(class_names_path("a/000001.tar"), "a/shards.classes");
  EXPECT_EQ(class_names_path("a/-1.tar"), "a/-1.classes");
  EXPECT_EQ(class_names_path(".rec"), ".rec.classes");
}

TEST(ClassNames, EveryNameIsReadBack) {
  const TemporaryDirectory directory;
  const std::vector<std::string> names{"cat",           "a b/c",          "\xE6\xBC\xA2",   "tab\there",
                                       "line\nbreak\r", "back\\slash\\n", "\xFF not UTF-8", " "};
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += class_name_line(static_cast<int64_t>(i), names[i]);
  }
  const auto read = read_class_names(directory.write("t.classes", text), nullptr);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, names);
}

TEST(ClassNames, OtherFormsAreRefusedWithTheirLine) {
  const TemporaryDirectory directory;
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"1\tcat\n", "t.classes:1: `1\tcat` is not the line of class 0"},
           {"0\tcat\n2\tdog\n", "t.classes:2: `2\tdog` is not the line of class 1"},
           {"0\tcat\ndog\n", "t.classes:2: `dog` is not the line of class 1"},
           {"0\t\n", "t.classes:1: the name of class 0 is empty"},
           {"0\ta\\b\n", "t.classes:1: the name of class 0 has a backslash"},
           {"0\ta\\", "t.classes:1: the name of class 0 has a backslash"},
           {"0\tcat\n1\tcat\n", "t.classes: class 1 has the name of an earlier one, `cat`"}}) {
    const auto read = read_class_names(directory.write("t.classes", text), nullptr);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code, "XG0412");
    EXPECT_THAT(read.error().message, HasSubstr(why));
  }
}

TEST(ClassNames, ShardsHaveOneFileAndSetsMayDiffer) {
  const TemporaryDirectory directory;
  const std::string at = directory.path() + "/";
  const std::vector<std::string> shards{at + "a-0.tar", at + "a-1.tar", at + "b-0.tar"};
  EXPECT_TRUE(find_class_names(shards, nullptr).value().empty());
  directory.write("a.classes", "0\tcat\n1\tdog\n");
  EXPECT_THAT(find_class_names(shards, nullptr).value(), ElementsAre("cat", "dog"));
  directory.write("b.classes", "0\tcat\n1\tdog\n");
  EXPECT_THAT(find_class_names(shards, nullptr).value(), ElementsAre("cat", "dog"));
  directory.write("b.classes", "0\tcat\n1\tfox\n");
  const auto differing = find_class_names(shards, nullptr);
  ASSERT_FALSE(differing.ok());
  EXPECT_THAT(differing.error().message, HasSubstr("b.classes name class 1 differently"));
}

}  // namespace
}  // namespace xrun::runtime
