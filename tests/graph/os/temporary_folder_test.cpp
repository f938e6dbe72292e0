// Folders for results that are not complete yet: what is left of an earlier process, and folders that cannot be made.
#include "graph/os/temporary_folder.h"

#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/command.h"

namespace xrun {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolder, AFolderThatAKilledProcessLeftIsEmptied) {
  const testing::TemporaryDirectory directory;
  const std::string path = fmt::format("{}/a.tar.tmp-{}", directory.path(), ::getpid());
  directory.write(fmt::format("a.tar.tmp-{}/all/half.tar", ::getpid()), "half a file");
  {
    const auto folder = TemporaryFolder::next_to(directory.path() + "/a.tar", "XG0901");
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    EXPECT_EQ((*folder)->path(), path);
    EXPECT_TRUE(fs::is_empty(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFolder, AFolderThatCannotBeMadeIsReportedWithItsPath) {
  const testing::TemporaryDirectory directory;
  directory.write("file", "");
  const auto folder = TemporaryFolder::next_to(directory.path() + "/file/a.tar", "XG0901");
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, "XG0901");
  EXPECT_EQ(folder.error().kind, ErrorKind::kWorld);
  EXPECT_NE(folder.error().message.find("/file/a.tar.tmp-"), std::string::npos);
}

}  // namespace
}  // namespace xrun
