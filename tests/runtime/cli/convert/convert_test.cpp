// `xrun data convert` as a user calls it: every pair of formats, order, names, broken samples, and what stops it.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/cli/sources/named_source.h"
#include "runtime/data/open_reader.h"
#include "runtime/data/source_classes.h"
#include "tests/runtime/data/data_files.h"
#include "tests/runtime/formats/records/record_bytes.h"
#include "tests/support/command.h"
#include "tests/support/tar_files.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

// A sample with its class as name and number.
struct Sample {
  std::string picture;
  std::optional<int64_t> label;
  std::string class_name;

  auto operator<=>(const Sample&) const = default;
};

struct ReadSet {
  std::vector<Sample> samples;
  std::vector<std::string> names;
};

// Reads a source as a training would. Paths in `word` are absolute.
ReadSet read_set(const std::string& word) {
  const auto named = cli::find_source(word);
  EXPECT_TRUE(named.ok()) << word;
  const auto opened = runtime::open_reader(named.value().spec);
  EXPECT_TRUE(opened.ok()) << word << ": " << (opened.ok() ? "" : opened.error().message);
  ReadSet set;
  if (!opened.ok()) {
    return set;
  }
  const runtime::Reader& reader = **opened;
  runtime::FieldValue value;
  for (int64_t i = 0; i < reader.samples(); ++i) {
    Sample sample;
    EXPECT_TRUE(reader.read(i, 0, value).ok()) << word << " " << i;
    sample.picture.assign(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
    if (reader.has_labels()) {
      const auto label = cli::read_label(reader, i, cli::label_field(reader), value);
      EXPECT_TRUE(label.ok() && *label) << word << " " << i;
      sample.label = *label;
      sample.class_name = *sample.label >= 0 ? reader.class_name(*sample.label) : "";
    }
    set.samples.push_back(std::move(sample));
  }
  set.names = runtime::class_names_of(reader);
  return set;
}

class Convert : public ::testing::Test {
 protected:
  CommandResult convert(const std::string& source, const std::string& target, std::vector<std::string> more = {},
                        CommandOptions options = {}) {
    std::vector<std::string> words{"data", "convert", source, target};
    words.insert(words.end(), more.begin(), more.end());
    options.directory = directory_.path();
    return run_xrun(words, options);
  }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  // The names in the directory, so that files that remain by mistake are found.
  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  // A folder `in` with `each` pictures in each class; a JPEG start is one of the formats.
  void write_folder(const std::vector<std::string>& classes, int each) {
    for (size_t c = 0; c < classes.size(); ++c) {
      fs::create_directories(path("in/" + classes[c]));
      for (int i = 0; i < each; ++i) {
        directory_.write(fmt::format("in/{}/{}.png", classes[c], i),
                         runtime::testing::png(3 + i, 4, static_cast<uint8_t>(17 * static_cast<int>(c) + i)));
      }
    }
  }

  TemporaryDirectory directory_;
};

// The ways to write a set, and the words that read it.
struct Format {
  const char* name;
  const char* target;
};
constexpr std::array<Format, 5> kFormats{{{"Records", "out.rec"},
                                          {"RecordShards", "out-{0..2}.rec"},
                                          {"Shard", "out.tar"},
                                          {"Shards", "out-{00..03}.tar"},
                                          {"Folder", "out/"}}};

std::string in_folder(const std::string& folder, const char* target) { return (fs::path(folder) / target).string(); }

TEST_F(Convert, EveryPairOfFormatsKeepsPicturesLabelsNamesAndOrder) {
  write_folder({"ant", "b e e", "\xE6\xBC\xA2/sub"}, 4);
  const ReadSet original = read_set(path("in"));
  ASSERT_EQ(original.samples.size(), 12U);
  for (const Format& first : kFormats) {
    const std::string one = path(std::string("one-") + first.name);
    fs::create_directory(one);
    const auto converted = convert("in", in_folder(one, first.target));
    ASSERT_EQ(converted.exit, 0) << first.name << converted.err;
    EXPECT_THAT(converted.err, IsEmpty());
    const ReadSet middle = read_set(in_folder(one, first.target));
    EXPECT_EQ(middle.samples, original.samples) << first.name;
    EXPECT_EQ(middle.names, original.names) << first.name;
    for (const Format& second : kFormats) {
      const std::string two = one + "-" + second.name;
      fs::create_directory(two);
      const auto again = convert(in_folder(one, first.target), in_folder(two, second.target));
      ASSERT_EQ(again.exit, 0) << first.name << " " << second.name << again.err;
      const ReadSet last = read_set(in_folder(two, second.target));
      EXPECT_EQ(last.samples, original.samples) << first.name << " " << second.name;
      EXPECT_EQ(last.names, original.names) << first.name << " " << second.name;
    }
  }
}

TEST_F(Convert, SourcesOfOtherKindsAreRead) {
  write_folder({"ant", "bee"}, 2);
  const ReadSet original = read_set(path("in"));
  runtime::testing::write_zip(path("in.zip"), {{"ant/0.png", original.samples[0].picture},
                                               {"ant/1.png", original.samples[1].picture},
                                               {"bee/0.png", original.samples[2].picture},
                                               {"bee/1.png", original.samples[3].picture}});
  directory_.write("in.lst", "in/ant/0.png\tant\nin/ant/1.png\tant\nin/bee/0.png\tbee\nin/bee/1.png\tbee\n");
  for (const std::string source : {"in.zip", "in.lst", "folder(\"in\", match=\"*.png\")"}) {
    const std::string name = "out" + std::to_string(listing().size());
    const auto converted = convert(source, name + ".tar");
    ASSERT_EQ(converted.exit, 0) << converted.err;
    EXPECT_EQ(read_set(path(name + ".tar")).samples, original.samples) << source;
    EXPECT_EQ(read_set(path(name + ".tar")).names, original.names) << source;
  }
}

TEST_F(Convert, ShardsAreBalancedAndKeysAscend) {
  write_folder({"ant", "bee"}, 5);
  const auto converted = convert("in", "shards/train-{000..002}.tar", {"--format", "json"});
  ASSERT_EQ(converted.exit, 0) << converted.err;
  const json summary = json::parse(converted.out);
  EXPECT_EQ(summary["files"], 3);
  EXPECT_EQ(summary["samples"], 10);
  EXPECT_EQ(summary["classes"], 2);
  EXPECT_EQ(summary["named"], true);
  EXPECT_EQ(summary["broken"], 0);
  Bytes bytes = 0;
  std::vector<size_t> sizes;
  for (const char* name : {"000", "001", "002"}) {
    const std::string shard = path(fmt::format("shards/train-{}.tar", name));
    bytes += static_cast<Bytes>(fs::file_size(shard));
    sizes.push_back(read_set(shard).samples.size());
  }
  EXPECT_THAT(sizes, ElementsAre(4, 3, 3));
  EXPECT_EQ(summary["bytes"], bytes);
  EXPECT_EQ(read_file(path("shards/train.classes")), "0\tant\n1\tbee\n");
  const auto shown = run_xrun({"data", "show", "shards/train-001.tar"}, {.directory = directory_.path()});
  EXPECT_THAT(shown.out, HasSubstr("shards/train-001.tar/000000004   0  ant\n"));
  EXPECT_THAT(listing(), ElementsAre("in", "shards")) << "the temporary folder is gone";
  const auto many = convert("in", "few-{00..10}.tar");
  EXPECT_EQ(many.exit, 2);
  EXPECT_THAT(many.err,
              HasSubstr("error[XG0943]: the target has 11 files, but in has 10 samples\nhelp: name fewer files"));
}

TEST_F(Convert, ASeedShufflesAndKeepsEachSampleOnce) {
  write_folder({"ant", "bee", "cow"}, 20);
  const ReadSet original = read_set(path("in"));
  std::map<std::string, std::vector<Sample>> orders;
  for (const std::string seed : {"1", "2"}) {
    for (const std::string format : {".rec", ".tar"}) {
      const std::string target = "s" + seed + "-" + format.substr(1) + "/a" + format;
      fs::create_directory(fs::path(path(target)).parent_path());
      ASSERT_EQ(convert("in", target, {"--seed", seed}).exit, 0);
      const std::vector<Sample> samples = read_set(path(target)).samples;
      EXPECT_THAT(samples, UnorderedElementsAreArray(original.samples));
      EXPECT_NE(samples, original.samples);
      EXPECT_TRUE(orders[seed].empty() || orders[seed] == samples) << "the order depends only on the seed";
      orders[seed] = samples;
    }
  }
  EXPECT_NE(orders["1"], orders["2"]);
}

TEST_F(Convert, LabelsWithoutNamesStayNumbersAndGapsAreReported) {
  std::string archive;
  for (const int label : {12, 0, 3}) {
    archive += tar_member(fmt::format("k{}.png", label), runtime::testing::png(4, static_cast<uint8_t>(label))) +
               tar_member(fmt::format("k{}.cls", label), std::to_string(label));
  }
  directory_.write("in.tar", archive + kTarEnd);
  const ReadSet original = read_set(path("in.tar"));
  ASSERT_EQ(convert("in.tar", "a.rec").exit, 0);
  EXPECT_EQ(read_set(path("a.rec")).samples, original.samples);
  EXPECT_FALSE(fs::exists(path("a.classes")));
  EXPECT_FALSE(fs::exists(path("a.lst")));
  const auto folder = convert("in.tar", "a/");
  ASSERT_EQ(folder.exit, 0);
  EXPECT_THAT(folder.err, HasSubstr("warning[XG0944]: a folder numbers its classes in the byte order of their "
                                    "directories, so the labels change: 10 of 13 classes have no sample"));
  EXPECT_THAT(read_set(path("a")).names, ElementsAre("00", "03", "12"));
}

TEST_F(Convert, LargeLabelsOfRecordsAreInAList) {
  std::string archive;
  for (const int64_t label : {int64_t{20'000'001}, int64_t{16'777'217}, int64_t{5}}) {
    archive += tar_member(fmt::format("k{}.png", label), runtime::testing::png(4, 1)) +
               tar_member(fmt::format("k{}.cls", label), std::to_string(label));
  }
  directory_.write("in.tar", archive + kTarEnd);
  ASSERT_EQ(convert("in.tar", "a.rec").exit, 0);
  EXPECT_EQ(read_file(path("a.lst")),
            "0\t20000001.000000\t000000000.png\n1\t16777217.000000\t000000001.png\n"
            "2\t5.000000\t000000002.png\n");
  const ReadSet back = read_set(fmt::format("recordio(\"{}\", classes=20000002)", path("a.rec")));
  EXPECT_EQ(back.samples[0].label, 20'000'001);
  EXPECT_EQ(back.samples[1].label, 16'777'217);
  directory_.write("huge.tar",
                   tar_member("k.png", runtime::testing::png(4, 1)) + tar_member("k.cls", "3000000000") + kTarEnd);
  const auto huge = convert("huge.tar", "huge.rec");
  EXPECT_EQ(huge.exit, 1);
  EXPECT_THAT(huge.err, HasSubstr("error[XG0405]: huge.tar/k has the label 3000000000"));
  EXPECT_FALSE(fs::exists(path("huge.rec")));
}

TEST_F(Convert, FurtherLabelsOfRecordsAreKeptOnRequest) {
  std::string records;
  for (int i = 0; i < 3; ++i) {
    records += runtime::testing::record_of(runtime::testing::image_contents(
        {static_cast<float>(i), 0.5F}, static_cast<uint64_t>(i), runtime::testing::png(4, static_cast<uint8_t>(i))));
  }
  directory_.write("in.rec", records);
  const auto first = convert("in.rec", "one.rec");
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.err,
              HasSubstr("warning[XG0944]: the samples have several labels, of which only the first is kept"));
  const auto all = convert("in.rec", "all.rec", {"--all-labels"});
  EXPECT_EQ(all.exit, 0);
  EXPECT_EQ(all.err, "");
  EXPECT_EQ(read_file(path("all.rec")), records);
  EXPECT_EQ(convert("in.rec", "all.tar", {"--all-labels"}).exit, 2);
}

TEST_F(Convert, BrokenSamplesAreLeftOutUpToTheirShare) {
  write_folder({"ant", "bee"}, 5);
  directory_.write("in/ant/2.png", "no picture");
  const auto refused = convert("in", "a.tar");
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr("error[XG0408]: 1 of 10 samples are broken, more than `max_bad` allows"));
  EXPECT_THAT(refused.err, HasSubstr("in/ant/2.png"));
  EXPECT_THAT(refused.err, HasSubstr("allow a larger share of them: --max-bad 0.1\n"));
  const auto taken = convert("in", "a.tar", {"--max-bad", "0.1"});
  EXPECT_EQ(taken.exit, 0) << taken.err;
  EXPECT_THAT(taken.err, HasSubstr("warning[XG0412]: in/ant/2.png"));
  EXPECT_THAT(taken.out, HasSubstr("9 samples"));
  EXPECT_THAT(taken.out, HasSubstr("  1 broken sample left out\n"));
  EXPECT_EQ(read_set(path("a.tar")).samples.size(), 9U);
  directory_.write("in/ant/3.png", "no picture");
  const auto more = convert("in", "b.tar", {"--max-bad", "0.1"});
  EXPECT_EQ(more.exit, 1);
  EXPECT_THAT(more.err, HasSubstr("allow a larger share of them: --max-bad 0.5\n"));
}

TEST_F(Convert, PicturesWithoutLabelsStayWithoutLabels) {
  for (int i = 0; i < 3; ++i) {
    directory_.write(fmt::format("in/{}.png", i), runtime::testing::png(4 + i, 1));
  }
  ASSERT_EQ(convert("in", "a.tar").exit, 0);
  EXPECT_FALSE(read_set(path("a.tar")).samples[0].label.has_value());
  ASSERT_EQ(convert("a.tar", "out").exit, 0);
  EXPECT_EQ(read_set(path("out")).samples, read_set(path("in")).samples);
}

TEST_F(Convert, WrongSourcesAndTargetsLeaveNothing) {
  write_folder({"ant"}, 2);
  directory_.write("digits.csv", "1,2,3\n4,5,6\n");
  directory_.write("foreign.tar", "what was here");
  directory_.write("bad.tar", tar_member("k.png", runtime::testing::png(4, 1)) + tar_member("k.cls", "0") + kTarEnd);
  directory_.write("bad.classes", "0\t../../out\n");
  const std::vector<std::string> before = listing();
  struct Case {
    std::string source, target;
    int exit;
    const char* text;
  };
  for (const Case& c : std::vector<Case>{
           {"in", "foreign.tar", 2, "error[XG0901]: foreign.tar exists, and a conversion replaces nothing"},
           {"in", "in/", 2, "error[XG0901]: in exists"},
           {"in", "a.zip", 2, "error[XG0943]: a.zip is not a target"},
           {"in", "no/such/a.tar", 2, "error[XG0901]: neither the folder no/such nor its parent exists"},
           {"digits.csv", "a.tar", 2, "error[XG0943]: digits.csv has no encoded pictures"},
           {"nothing.rec", "a.tar", 1, "error[XG0401]"},
           {"bad.tar", "a/", 1, "error[XG0943]: the name of the class `../../out` is not the path of a directory"},
       }) {
    const auto result = convert(c.source, c.target);
    EXPECT_EQ(result.exit, c.exit) << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.text));
  }
  EXPECT_EQ(listing(), before);
  EXPECT_EQ(read_file(path("foreign.tar")), "what was here");
}

TEST_F(Convert, AFullDiskAndASignalLeaveNoTarget) {
  write_folder({"ant", "bee"}, 2);
  directory_.write("in/ant/large.pgm", "P5 1000 1000 255\n" + std::string(1'000'000, 'x'));
  for (const std::string target : {"a.rec", "a.tar", "a/", "new/a-{0..1}.tar"}) {
    const auto full = convert("in", target, {}, {.file_size_limit = 100'000});
    EXPECT_EQ(full.exit, 4) << target << full.err;
    EXPECT_THAT(full.err, HasSubstr("error[XG0901]: cannot write "));
    EXPECT_THAT(listing(), ElementsAre("in")) << target;
  }
}

TEST_F(Convert, ASignalEndsItWithoutATarget) {
  write_folder({"ant"}, 1);
  for (int i = 0; i < 8000; ++i) {
    fs::create_hard_link(path("in/ant/0.png"), path(fmt::format("in/ant/n{}.png", i)));
  }
  const auto stopped = convert("in", "a.tar", {"-v"}, {.signal = SIGTERM, .signal_on = "opened"});
  EXPECT_EQ(stopped.exit, 75) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped before it was done"));
  EXPECT_THAT(listing(), ElementsAre("in"));
  const auto killed = convert("in", "a.tar", {"-v"}, {.signal = SIGKILL, .signal_on = "opened"});
  EXPECT_EQ(killed.exit, 128 + SIGKILL);
  EXPECT_FALSE(fs::exists(path("a.tar")));
}

// Reads what was converted with the packages of the formats: mxnet 1.9.1 and webdataset 1.0.2.
TEST_F(Convert, MxnetAndWebdatasetReadWhatIsWritten) {
  const char* python = std::getenv("XRUN_FORMATS_PYTHON");
  if (python == nullptr) {
    GTEST_SKIP() << "set XRUN_FORMATS_PYTHON to a Python with mxnet 1.9.1, NumPy before 1.24, and webdataset 1.0.2";
  }
  write_folder({"ant", "bee"}, 3);
  // The magic at a multiple of 4 cuts the record into pieces.
  std::string comment = "P5 #" + runtime::testing::kMagicBytes + runtime::testing::kMagicBytes;
  directory_.write("in/bee/9.pgm", comment + "\n2 2 255\nabcd");
  ASSERT_EQ(convert("in", "a.rec").exit, 0);
  ASSERT_EQ(convert("in", "a-{0..1}.tar").exit, 0);
  const std::string command =
      fmt::format("cd '{}' && '{}' '{}/tests/runtime/cli/convert/read_sets.py' a.rec 'a-{{0..1}}.tar' > read.txt",
                  directory_.path(), python, XRUN_SOURCE_DIR);
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto digest_line = [](const Sample& sample) {
    std::string hex;
    for (const char c : sample.picture) {
      hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    }
    return fmt::format("{} {}\n", *sample.label, hex);
  };
  std::string expected;
  for (const char* reader : {"mxnet", "webdataset"}) {
    expected += std::string(reader) + "\n";
    for (const Sample& sample : read_set(path("in")).samples) {
      expected += digest_line(sample);
    }
  }
  EXPECT_EQ(read_file(path("read.txt")), expected);
}

}  // namespace
}  // namespace xrun::testing
