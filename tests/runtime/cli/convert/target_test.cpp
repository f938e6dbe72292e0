// The files that a target names.
#include "runtime/cli/convert/target.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace xrun::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using xrun::testing::TemporaryDirectory;
using Kind = ConvertTarget::Kind;

TEST(ConvertTarget, FilesRangesAndFoldersAreRecognised) {
  const ConvertTarget one = parse_target("a/train.rec").value();
  EXPECT_EQ(one.kind, Kind::kRecords);
  EXPECT_EQ(one.directory, "a");
  EXPECT_THAT(one.all_names(), ElementsAre("train.rec", "train.idx", "train.lst"));
  const ConvertTarget shards = parse_target("train-{08..10}.tar").value();
  EXPECT_EQ(shards.kind, Kind::kShards);
  EXPECT_EQ(shards.directory, "");
  EXPECT_THAT(shards.names, ElementsAre("train-08.tar", "train-09.tar", "train-10.tar"));
  EXPECT_EQ(shards.class_names, "train.classes");
  for (const char* word : {"/x/v1.5/", "/x/v1.5//"}) {
    const ConvertTarget folder = parse_target(word).value();
    EXPECT_EQ(folder.kind, Kind::kFolder);
    EXPECT_EQ(folder.path_of(folder.names[0]), "/x/v1.5");
  }
  EXPECT_EQ(parse_target("pictures").value().kind, Kind::kFolder);
  EXPECT_EQ(parse_target("/pictures").value().directory, "/");
  EXPECT_EQ(parse_target("a//b.rec").value().path_of("b.rec"), "a/b.rec");
}

TEST(ConvertTarget, OtherWordsAreRefused) {
  for (const auto& [word, why] :
       std::vector<std::pair<std::string, std::string>>{{"a.zip", "`a.zip` ends neither with .rec nor with .tar"},
                                                        {"", "names no new file"},
                                                        {"/", "names no new file"},
                                                        {"a/..", "names no new file"},
                                                        {"a-*.tar", "no `*` or `?`"},
                                                        {"{a,b}/c.tar", "only the name of the file may have a range"},
                                                        {"{a,a}.tar", "a file occurs twice"},
                                                        {"{a,b}.tar", "differ in more than the number at their end"}}) {
    const auto target = parse_target(word);
    ASSERT_FALSE(target.ok()) << word;
    EXPECT_EQ(target.error().code, "XG0943");
    EXPECT_EQ(target.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(target.error().message, HasSubstr(why));
  }
  EXPECT_EQ(parse_target("a-{3..1}.tar").error().code, "XG0413");
}

TEST(ConvertTarget, NothingThatExistsIsReplaced) {
  const TemporaryDirectory directory;
  const std::string at = directory.path() + "/";
  EXPECT_TRUE(check_target(parse_target(at + "t.rec").value()).ok());
  EXPECT_TRUE(check_target(parse_target(at + "new/t.rec").value()).ok());
  EXPECT_FALSE(check_target(parse_target(at + "new/deeper/t.rec").value()).ok());
  directory.write("t.lst", "");
  const Status refused = check_target(parse_target(at + "t.rec").value());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0901");
  EXPECT_THAT(refused.error().message, HasSubstr("t.lst exists, and a conversion replaces nothing"));
  EXPECT_FALSE(check_target(parse_target(at + "t.lst/").value()).ok());
  EXPECT_FALSE(check_target(parse_target(at + "t.lst/a.tar").value()).ok());
  std::filesystem::create_symlink("nowhere", at + "link");
  EXPECT_FALSE(check_target(parse_target(at + "link").value()).ok()) << "a link that leads nowhere would be replaced";
}

TEST(ConvertTarget, TargetsShareAFileOfEqualNames) {
  const TemporaryDirectory directory;
  const ConvertTarget target = parse_target(directory.path() + "/t-3.tar").value();
  EXPECT_TRUE(needs_class_names(target, {"ant", "bee"}).value());
  EXPECT_FALSE(needs_class_names(target, {}).value());
  EXPECT_FALSE(needs_class_names(parse_target(directory.path() + "/t/").value(), {"ant"}).value());
  directory.write("t.classes", "0\tant\n1\tbee\n");
  EXPECT_FALSE(needs_class_names(target, {"ant", "bee"}).value());
  for (const std::vector<std::string>& names : {std::vector<std::string>{"bee", "ant"}, {"ant"}, {}}) {
    const auto other = needs_class_names(target, names);
    ASSERT_FALSE(other.ok()) << "labels would get names that they do not have";
    EXPECT_EQ(other.error().code, "XG0901");
    EXPECT_THAT(other.error().message, HasSubstr("t.classes names"));
    EXPECT_THAT(other.error().help, HasSubstr("another stem or folder"));
  }
}

}  // namespace
}  // namespace xrun::cli
