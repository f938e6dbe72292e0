// Code that opens ordinary files neither waits for pipes, devices or links nor reads them.
#include "runtime/formats/files.h"

#include <cerrno>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/os/cache_file.h"
#include "graph/os/regular_file.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

class OrdinaryFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mkfifo((directory_.path() + "/pipe").c_str(), 0600), 0);
    directory_.write("file", std::string(100, 'x'));
    std::filesystem::create_symlink("file", directory_.path() + "/link");
  }
  int open(const std::string& name, Links links = Links::kFollow) {
    const int file = open_regular(name.starts_with('/') ? name : directory_.path() + "/" + name, links);
    if (file >= 0) {
      ::close(file);
    }
    return std::min(file, 0);
  }
  xrun::testing::TemporaryDirectory directory_;
};

TEST_F(OrdinaryFiles, AreTheOnlyFilesThatAreOpened) {
  EXPECT_EQ(open("file"), 0);
  EXPECT_EQ(open("link"), 0);
  EXPECT_EQ(open("link", Links::kRefuse), -ELOOP);
  EXPECT_EQ(open("pipe"), -ESPIPE);
  EXPECT_EQ(open("/dev/zero"), -ESPIPE);
  EXPECT_EQ(open("/tmp"), -EISDIR);
  EXPECT_EQ(open("nothing"), -ENOENT);
}

TEST_F(OrdinaryFiles, AreRequiredForCachesPicturesAndArchives) {
  for (const std::string& path : {directory_.path() + "/pipe", std::string("/dev/zero")}) {
    EXPECT_FALSE(CachedFile::open(path).has_value());
    EXPECT_EQ(read_file(path, 1000).error().code, "XG0401");
    EXPECT_EQ(visit_archive(path, nullptr, [](ArchiveEntry&) { return Status(); }).error().code, "XG0401");
  }
}

}  // namespace
}  // namespace xrun::runtime
