#include "runtime/data/readers/webdataset/shard_paths.h"

#include <gmock/gmock.h>

#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ShardPaths : public Files {
 protected:
  std::vector<std::string> expand(const std::vector<std::string>& patterns) {
    const auto paths = shard_paths(root_.string(), patterns);
    EXPECT_TRUE(paths.ok()) << paths.error().message;
    std::vector<std::string> names;
    for (const std::string& path : paths.ok() ? *paths : std::vector<std::string>()) {
      names.push_back(path.substr(root_.string().size() + 1));
    }
    return names;
  }
  Error refused(const std::string& pattern) {
    const auto paths = shard_paths(root_.string(), {pattern});
    EXPECT_FALSE(paths.ok());
    return paths.ok() ? Error() : paths.error();
  }
};

TEST_F(ShardPaths, RangesKeepTheirZerosInAnyPlace) {
  EXPECT_THAT(expand({"a-{008..011}.tar"}), ElementsAre("a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"));
  EXPECT_THAT(expand({"{0..1}/a-{08..09}.tar"}), ElementsAre("0/a-08.tar", "0/a-09.tar", "1/a-08.tar", "1/a-09.tar"));
  EXPECT_THAT(expand({"{b,a}.tar", "c.tar"}), ElementsAre("b.tar", "a.tar", "c.tar"));
  const auto many = expand({"sku-{000000..131071}.tar"});
  ASSERT_EQ(many.size(), 131'072u) << "the shards of models/sku100m.xgraph";
  EXPECT_EQ(many.back(), "sku-131071.tar");
  EXPECT_EQ(refused("a-{0..9999999}.tar").code, "XG0413");
  EXPECT_EQ(refused("a-{3..1}.tar").code, "XG0413");
  EXPECT_EQ(refused("a-{0..1.tar").code, "XG0413");
}

TEST_F(ShardPaths, WildcardsAndDirectoriesListFilesInByteOrder) {
  for (const char* name : {"a-10.tar", "a-9.tar", "b-1.tar", ".a-0.tar", "a-1.xidx", "sub/x.tar"}) {
    write(name, "");
  }
  EXPECT_THAT(expand({"a-*.tar"}), ElementsAre("a-10.tar", "a-9.tar"));
  EXPECT_THAT(expand({"{b,a}-?.tar"}), ElementsAre("b-1.tar", "a-9.tar"));
  EXPECT_THAT(expand({"sub/*"}), ElementsAre("sub/x.tar"));
  EXPECT_THAT(expand({"sub", "."}), ElementsAre("sub/x.tar", "./a-10.tar", "./a-9.tar", "./b-1.tar"));
  EXPECT_THAT(refused("c-*.tar").message, HasSubstr("no file fits"));
  EXPECT_EQ(refused("c-*.tar").code, "XG0401");
  EXPECT_EQ(refused("s*/x.tar").code, "XG0413");
  EXPECT_EQ(refused("gone/*.tar").code, "XG0401");
  std::filesystem::create_directory(root_ / "empty");
  EXPECT_THAT(refused("empty").message, HasSubstr("no file with the extension .tar"));
}

TEST_F(ShardPaths, AFileWhoseNameHasBracesIsTakenAsItIs) {
  write("a{0..1}.tar", "");
  EXPECT_THAT(expand({"a{0..1}.tar"}), ElementsAre("a{0..1}.tar"));
}

TEST_F(ShardPaths, UrlsAreRefused) {
  for (const char* url : {"https://a.org/b.tar", "s3://a/b-{0..1}.tar", "pipe:cat a.tar"}) {
    EXPECT_EQ(refused(url).code, "XG0401");
    EXPECT_THAT(refused(url).help, HasSubstr("copy the shards"));
  }
}

}  // namespace
}  // namespace xrun::runtime
