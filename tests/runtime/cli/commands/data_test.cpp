// `xrun data show` and `xrun data index` as a user calls them.
#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"
#include "tests/support/tar_files.h"

namespace xrun::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class DataCommand : public ::testing::Test {
 protected:
  CommandResult data(std::vector<std::string> words) {
    words.insert(words.begin(), "data");
    return run_xrun(words, {.directory = directory_.path()});
  }
  // The call of the reader that `data show` finds for a file.
  std::string reader_of(const std::string& name) {
    const auto shown = data({"show", name, "--format", "json"});
    return shown.exit == 0 ? json::parse(shown.out)["reader"].get<std::string>() : shown.err;
  }
  void write_shards(int count) {
    for (int s = 0; s < count; ++s) {
      std::string archive;
      for (int i = 0; i < 3; ++i) {
        archive += tar_member(fmt::format("{}{}.png", s, i), runtime::testing::png(4 + i, 2, 7)) +
                   tar_member(fmt::format("{}{}.cls", s, i), fmt::format("{}", i));
      }
      directory_.write(fmt::format("t-{:02}.tar", s), archive + kTarEnd);
    }
  }
  TemporaryDirectory directory_;
};

TEST_F(DataCommand, ShowDescribesShardsWithTheirFirstSamples) {
  write_shards(2);
  const auto shown = data({"show", "t-{00..01}.tar"});
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_EQ(shown.err, "");
  EXPECT_THAT(shown.out,
              StartsWith("t-{00..01}.tar\n  reader    webdataset(\"t-{00..01}.tar\")\n  holds     webdataset: "
                         "2 shards, 6 samples, 3 classes (png 6, cls 6)\n"));
  EXPECT_THAT(shown.out, HasSubstr("  fields    image encoded, jpg encoded, jpeg encoded, png encoded, webp encoded, "
                                   "cls i64, key u8[?]\n"));
  EXPECT_THAT(shown.out, HasSubstr("  pictures  4 x 2 to 6 x 2 in 6 samples\n"));
  EXPECT_THAT(shown.out, HasSubstr("  first     t-00.tar/00   0\n            t-00.tar/01   1\n"));
  EXPECT_THAT(shown.out, HasSubstr("t-01.tar/11   1\n"));
  EXPECT_THAT(shown.out, Not(HasSubstr("t-01.tar/12"))) << "five samples";
  EXPECT_THAT(data({"show", "t-00.tar", "--samples", "0"}).out, Not(HasSubstr("first")));
  const json object = json::parse(data({"show", "t-00.tar", "--format", "json"}).out);
  EXPECT_EQ(object["samples"], 3);
  EXPECT_EQ(object["classes"], 3);
  EXPECT_EQ(object["first"][2]["label"], 2);
  EXPECT_EQ(object["first"][2]["name"], "t-00.tar/02");
  EXPECT_EQ(object["pictures"]["largest"], json::array({6, 2}));
}

TEST_F(DataCommand, ShowReportsWhatIsUnusual) {
  directory_.write("odd.tar", tar_file({{"0.jpg", "no picture"}, {"0.cls", "cat"}, {"1.jpg", "x"}, {"1.cls", "1"}}) +
                                  tar_file({{"2.jpg", "x"}}));
  const auto shown = data({"show", "odd.tar"});
  EXPECT_EQ(shown.exit, 0);
  EXPECT_THAT(shown.out, HasSubstr("pictures  in 2 samples, 2 of them broken"));
  EXPECT_THAT(shown.out, HasSubstr("`0.cls` holds \"cat\", which is not a whole number"));
  EXPECT_THAT(shown.err, HasSubstr("warning[XG0442]: shards with members after the end mark"));
  EXPECT_THAT(shown.err, HasSubstr("warning[XG0442]: 1 of the 2 samples have no valid label"));
  EXPECT_THAT(shown.err, HasSubstr("warning[XG0416]"));
}

TEST_F(DataCommand, ShowFindsTheReaderOfAFile) {
  write_shards(1);
  namespace fs = std::filesystem;
  const std::string idx3("\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\1ab", 18), idx1("\0\0\10\1\0\0\0\2\0\1", 10);
  directory_.write("train-images-idx3-ubyte", idx3);
  directory_.write("train-labels-idx1-ubyte", idx1);
  directory_.write("t.csv", "1,2\n3,4\n");
  directory_.write("named.csv", "height;width\n1;2\n");
  directory_.write("t.tsv", "1\t2\n");
  fs::create_directories(directory_.path() + "/pictures/cat");
  directory_.write("pictures/cat/1.png", runtime::testing::png(4, 1));
  fs::create_directories(directory_.path() + "/shards");
  fs::copy(directory_.path() + "/t-00.tar", directory_.path() + "/shards/t.tar");
  EXPECT_EQ(reader_of("t-00.tar"), "webdataset(\"t-00.tar\")");
  EXPECT_EQ(reader_of("shards"), "webdataset(\"shards\")");
  EXPECT_EQ(reader_of("pictures"), "folder(\"pictures\")");
  const std::string idx = "idx(\"train-images-idx3-ubyte\", \"train-labels-idx1-ubyte\")";
  EXPECT_EQ(reader_of("train-images-idx3-ubyte"), idx);
  EXPECT_EQ(reader_of("train-labels-idx1-ubyte"), idx);
  EXPECT_EQ(reader_of("t.csv"), "csv(\"t.csv\")");
  EXPECT_EQ(reader_of("named.csv"), "csv(\"named.csv\", header=true, delimiter=\";\")");
  EXPECT_EQ(reader_of("t.tsv"), "csv(\"t.tsv\", delimiter=\"\\t\")");
  fs::create_directories(directory_.path() + "/faces/cat");
  directory_.write("faces/train.rec", "\x0A\x23\xD7\xCE");
  EXPECT_THAT(data({"show", "faces"}).err, HasSubstr("faces/train.rec"));
  for (const char* start : {"\x80\x02]q\x01", "((lp0\nc_codecs\nencode\n"}) {  // protocols 2 and 0
    directory_.write("lfw.bin", start);
    EXPECT_THAT(data({"show", "lfw.bin"}).err, Not(HasSubstr("no reader is known")));
  }
  EXPECT_EQ(reader_of("csv(\"t.csv\", rows=0..1)"), "csv(\"t.csv\", rows=0..1)") << "a call is used as it is";
}

TEST_F(DataCommand, ShowRefusesWhatItCannotRead) {
  directory_.write("lone-images", std::string("\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\1ab", 18));
  directory_.write("a.unknown", "hello");
  directory_.write("a.tar", "hello");
  write_shards(1);
  EXPECT_THAT(data({"show", "lone-images"}).err, HasSubstr("error[XG0412]"));
  EXPECT_THAT(data({"show", "a.unknown"}).err, HasSubstr("no reader is known for a.unknown"));
  directory_.write("junk.bin", "hello");
  EXPECT_THAT(data({"show", "junk.bin"}).err, HasSubstr("xrun data show 'pairs(\"junk.bin\")'"));
  EXPECT_THAT(data({"show", "a.tar"}).err, HasSubstr("a.tar is not a tar archive"));
  EXPECT_THAT(data({"show", "gone"}).err, HasSubstr("error[XG0401]"));
  EXPECT_THAT(data({"show", "csv(\"a.unknown\", rows=1)"}).err, HasSubstr("error[XG0"));
  const auto mixed = data({"show", "gone", "t-00.tar"});
  EXPECT_EQ(mixed.exit, 1);
  EXPECT_THAT(mixed.out, StartsWith("t-00.tar\n")) << "a fault of one file does not hide the others";
  EXPECT_EQ(data({"show"}).exit, 2);
  EXPECT_EQ(data({}).exit, 2);
  EXPECT_EQ(data({"show", "t-00.tar", "--devices", "2"}).exit, 2);
}

TEST_F(DataCommand, IndexWritesWhatIsMissing) {
  write_shards(3);
  const std::string pattern = "t-{00..02}.tar";
  EXPECT_EQ(data({"index", pattern}).out, "  3 shards with 9 samples: 3 indices written, 0 valid already\n");
  EXPECT_TRUE(std::filesystem::exists(directory_.path() + "/t-02.xidx"));
  EXPECT_EQ(data({"index", pattern}).out, "  3 shards with 9 samples: 0 indices written, 3 valid already\n");
  EXPECT_EQ(data({"index", "--all", "."}).out, "  3 shards with 9 samples: 3 indices written, 0 valid already\n");
  EXPECT_THAT(data({"show", pattern}).out, HasSubstr("3 shards, 9 samples, 3 classes"));
  // A shard that was replaced gets a new index.
  directory_.write("t-01.tar", tar_file({{"0.jpg", "x"}, {"0.cls", "8"}}));
  EXPECT_THAT(data({"show", pattern}).err, HasSubstr("warning[XG0441]: 1 index was not used"));
  EXPECT_EQ(data({"index", pattern}).out, "  3 shards with 7 samples: 1 index written, 2 valid already\n");
  EXPECT_EQ(data({"show", pattern}).err.find("XG0441"), std::string::npos);
}

TEST_F(DataCommand, IndexReportsBrokenShardsAndIndexesTheOthers) {
  write_shards(2);
  directory_.write("t-02.tar", "hello");
  const auto indexed = data({"index", "t-{00..02}.tar", "--format", "json"});
  EXPECT_EQ(indexed.exit, 1);
  const json object = json::parse(indexed.out);
  EXPECT_EQ(object["shards"], 3);
  EXPECT_EQ(object["written"], 2);
  EXPECT_EQ(object["failed"], 1);
  EXPECT_THAT(indexed.err, HasSubstr("t-02.tar is not a tar archive"));
  directory_.write("t-00.xidx", "notes");
  const auto taken = data({"index", "t-00.tar"});
  EXPECT_EQ(taken.exit, 2);
  EXPECT_THAT(taken.err, HasSubstr("error[XG0441]"));
  EXPECT_THAT(data({"index", "gone-*.tar"}).err, HasSubstr("error[XG0401]"));
}

}  // namespace
}  // namespace xrun::testing
