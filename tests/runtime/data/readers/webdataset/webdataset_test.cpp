// Shards of tests/runtime/data/files/webdataset, which other programs wrote, and damaged ones.
#include "runtime/data/readers/webdataset/webdataset.h"

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <sstream>
#include <thread>
#include <zlib.h>

#include "runtime/data/open_reader.h"
#include "runtime/data/readers/webdataset/shard_index.h"
#include "runtime/formats/pictures/decode.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/tar_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using namespace xrun::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kFiles = fs::path(XRUN_SOURCE_DIR) / "tests/runtime/data/files/webdataset";

SourceSpec shards(std::vector<std::string> paths, std::string directory = "", std::string name = "train") {
  return source(std::move(name), "webdataset", {{"path", std::move(paths)}}, std::move(directory));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The content of a field, or the message of its error.
std::string content(const Reader& reader, int64_t sample, const std::string& field) {
  FieldValue value;
  const Status read = reader.read(sample, reader.find_field(field), value);
  return read.ok() ? text_of(value.bytes) : read.error().code + ": " + read.error().message;
}

int64_t cls(const Reader& reader, int64_t sample) {
  FieldValue value;
  const Status read = reader.read(sample, reader.find_field("cls"), value);
  EXPECT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(value.dtype, DType::kI64);
  return read.ok() ? *reinterpret_cast<const int64_t*>(value.bytes.data()) : -1;
}

uint32_t crc_of(const std::string& bytes) {
  return static_cast<uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// The samples of a shard as webdataset's own reader gives them: key, and bytes and CRC-32 by extension.
struct Expected {
  std::string key;
  std::map<std::string, std::pair<size_t, uint32_t>> members;
};

std::map<std::string, std::vector<Expected>> expected_samples() {
  std::map<std::string, std::vector<Expected>> shards;
  std::ifstream in(kFiles / "expected.tsv");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    std::string shard, key, extension, bytes, crc;
    std::getline(cells, shard, '\t');
    std::getline(cells, key, '\t');
    std::getline(cells, extension, '\t');
    cells >> bytes >> crc;
    auto& samples = shards[shard];
    if (samples.empty() || samples.back().key != key) {
      samples.push_back({.key = key, .members = {}});
    }
    samples.back().members[extension] = {std::stoul(bytes), static_cast<uint32_t>(std::stoul(crc, nullptr, 16))};
  }
  return shards;
}

class WebDatasets : public Files {
 protected:
  Result<std::unique_ptr<Reader>> open(const std::string& archive, const std::string& name = "a.tar") {
    return open_reader(shards({write(name, archive)}));
  }
  void index(const std::string& path) { ASSERT_TRUE(save_index(path, scan_shard(path, nullptr).value()).ok()); }
};

TEST_F(WebDatasets, GiveTheSamplesThatTheReaderOfTheFormatGives) {
  const auto all = expected_samples();
  ASSERT_EQ(all.size(), 9u) << "four forms of GNU tar, three of Python, two shards of webdataset";
  for (const auto& [shard, samples] : all) {
    fs::copy(kFiles / shard, root_ / shard);
    for (const bool indexed : {false, true}) {
      const std::string path = (root_ / shard).string();
      if (indexed) {
        index(path);
      }
      const auto reader = open_reader(shards({path})).value();
      ASSERT_EQ(reader->samples(), std::ssize(samples)) << shard;
      for (int64_t i = 0; i < reader->samples(); ++i) {
        const Expected& sample = samples[static_cast<size_t>(i)];
        EXPECT_EQ(content(*reader, i, "key"), sample.key);
        EXPECT_EQ(reader->sample_name(i), path + "/" + sample.key);
        for (const std::string field : {"jpg", "jpeg", "png", "webp"}) {
          const std::string found = content(*reader, i, field);
          const auto member = sample.members.find(field);
          if (member == sample.members.end()) {
            EXPECT_THAT(found, HasSubstr("XG0412: has no member `" + field + "`"));
            continue;
          }
          EXPECT_EQ(found.size(), member->second.first) << shard << ", " << sample.key << ", " << field;
          EXPECT_EQ(crc_of(found), member->second.second);
          EXPECT_EQ(content(*reader, i, "image"), found) << "the picture, whatever its extension is";
        }
        const std::string number = fmt::format("{}", cls(*reader, i));
        const std::vector<std::string> forms{number, number + ".0", " " + number + "\n"};
        EXPECT_TRUE(std::ranges::any_of(
            forms,
            [&](const std::string& form) { return sample.members.at("cls") == std::pair(form.size(), crc_of(form)); }))
            << shard << ", label " << number;
      }
    }
  }
}

TEST_F(WebDatasets, FromSeveralShardsAreNumberedInTheirOrder) {
  const auto reader = open_reader(shards({"train-{000008..000009}.tar"}, kFiles.string())).value();
  EXPECT_EQ(reader->samples(), 7);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 7; ++i) {
    labels.push_back(cls(*reader, i));
  }
  EXPECT_THAT(labels, ElementsAre(3, 7, 12, int64_t{1} << 40, 4, 5, 6));
  EXPECT_EQ(reader->classes(), (int64_t{1} << 40) + 1);
  EXPECT_EQ(reader->describe(),
            "webdataset: 2 shards, 7 samples, 1 099 511 627 777 classes (cls 7, png 4, json 3, seg.png 3, jpg 1, webp "
            "1, jpeg 1)");
  EXPECT_TRUE(reader->warnings().empty()) << reader->warnings()[0].message;
  const Field& label = reader->fields()[static_cast<size_t>(reader->find_field("cls"))];
  EXPECT_EQ(label.type.classes, reader->classes());
  EXPECT_GE(reader->memory(), 7 * 4 + 4 * 8 + 3 * 4);
  EXPECT_LT(reader->memory(), 2000);
}

TEST_F(WebDatasets, BrokenSamplesSayWhatTheyLack) {
  const auto reader = open(tar_file({{"0.jpg", "picture"},
                                     {"0.cls", "7.5"},
                                     {"1.cls", "2"},
                                     {"1.txt", "two"},
                                     {"2.jpg", "one"},
                                     {"2.png", "other"},
                                     {"3.left.jpg", "left"},
                                     {"3.right.jpg", "right"},
                                     {"4.rgb.png", "only"},
                                     {"5.jpg", "photo"},
                                     {"5.seg.png", "mask"}}))
                          .value();
  EXPECT_EQ(content(*reader, 0, "cls"), "XG0412: `0.cls` holds \"7.5\", which is not a whole number");
  EXPECT_EQ(content(*reader, 0, "image"), "picture") << "the label is another field";
  EXPECT_EQ(content(*reader, 1, "image"), "XG0412: has no picture; its members are cls, txt");
  EXPECT_EQ(content(*reader, 1, "jpg"), "XG0412: has no member `jpg`; its members are cls, txt");
  EXPECT_EQ(content(*reader, 2, "image"), "XG0412: has several pictures: jpg, png");
  EXPECT_EQ(content(*reader, 2, "png"), "other");
  EXPECT_EQ(content(*reader, 2, "cls"), "XG0412: has no member `cls`; its members are jpg, png");
  EXPECT_EQ(content(*reader, 3, "image"), "XG0412: has several pictures: left.jpg, right.jpg");
  EXPECT_EQ(content(*reader, 4, "image"), "only");
  EXPECT_EQ(content(*reader, 5, "image"), "photo") << "a plain extension comes first";
  FieldValue value;
  const Status jpg = reader->read(4, reader->find_field("jpg"), value);
  EXPECT_THAT(jpg.error().help, HasSubstr("bind `image`, which is the picture of a sample"));
  ASSERT_EQ(reader->warnings().size(), 2u);
  EXPECT_EQ(reader->warnings()[0].code, "XG0442");
  EXPECT_EQ(reader->warnings()[0].message, "5 of the 6 samples have no valid label in a `.cls` member");
  EXPECT_EQ(reader->warnings()[1].code, "XG0416") << "labels 0 and 1 have no sample";
}

TEST_F(WebDatasets, WithoutLabelsHaveNoClasses) {
  const auto reader = open(tar_file({{"0.jpg", "x"}})).value();
  EXPECT_EQ(reader->classes(), 0);
  EXPECT_FALSE(reader->has_labels());
  EXPECT_EQ(reader->describe(), "webdataset: 1 shard, 1 sample, no labels (jpg 1)");
  EXPECT_TRUE(reader->warnings().empty());
  EXPECT_EQ(open(kTarEnd).error().code, "XG0406");
}

TEST_F(WebDatasets, UnusualContentsGiveWarnings) {
  const auto reader =
      open(tar_file({{"0.jpg", "x"}, {"README", "x"}, {"1.jpg", "x"}, {"0.txt", "x"}}) + tar_file({{"2.jpg", "x"}}))
          .value();
  std::vector<std::string> messages;
  for (const Error& warning : reader->warnings()) {
    EXPECT_EQ(warning.code, "XG0442");
    EXPECT_NE(warning.help, "");
    messages.push_back(warning.message);
  }
  EXPECT_THAT(messages,
              ElementsAre(HasSubstr("files that belong to no sample"), HasSubstr("samples with the key of an earlier"),
                          HasSubstr("shards with members after the end mark, which are not read: 1, the first in ")));
}

TEST_F(WebDatasets, FaultyShardsEndTheOpening) {
  const auto fault_of = [&](const std::vector<std::string>& paths) {
    const auto reader = open_reader(shards(paths, root_.string()));
    EXPECT_FALSE(reader.ok());
    return reader.ok() ? Error() : reader.error();
  };
  const std::string good = tar_file({{"0.jpg", "picture"}, {"0.cls", "1"}});
  write("good-0.tar", good);
  write("cut.tar", good.substr(0, 1200));
  write("good-3.tar", good);
  EXPECT_EQ(fault_of({"cut.tar"}).code, "XG0412");
  EXPECT_THAT(fault_of({"good-0.tar", "cut.tar"}).message, HasSubstr("cut.tar: cut short in a header at offset 1 024"));
  const Error missing = fault_of({"good-{0..3}.tar"});
  EXPECT_EQ(missing.code, "XG0401");
  EXPECT_THAT(missing.message, HasSubstr("good-1.tar"));
  EXPECT_THAT(missing.notes, ElementsAre("2 of 4 shards missing"));
  EXPECT_EQ(exit_code(missing.kind), 1);
  write("a.tar.gz", "\x1F\x8B\x08" + std::string(600, 'x'));
  EXPECT_THAT(fault_of({"a.tar.gz"}).help, HasSubstr("gunzip "));
  EXPECT_EQ(fault_of({"good-0.tar", "hostile.tar"}).code, "XG0401");
  write("hostile.tar", tar_file({{"../0.jpg", "x"}}));
  EXPECT_THAT(fault_of({"hostile.tar"}).message, HasSubstr("leads out of the archive"));
}

// Contents are skipped: this shard has 400 GiB of zeros, which no test could read.
TEST_F(WebDatasets, OpeningReadsHeadersOnly) {
  const std::string path = write("a.tar", "");
  std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
  constexpr int64_t kContent = int64_t{200} << 30;
  std::string size = "\x80" + std::string(11, '\0');
  for (size_t i = 0; i < 8; ++i) {
    size[11 - i] = static_cast<char>(kContent >> (8 * i) & 0xff);
  }
  for (int i = 0; i < 2; ++i) {
    out.seekp(i * (kContent + 512 + 1024));
    out << tar_header({.name = fmt::format("{}.bin", i), .size = size});
    out.seekp(i * (kContent + 512 + 1024) + 512 + kContent);
    out << tar_member(fmt::format("{}.cls", i), fmt::format("{}", i));
  }
  out << kTarEnd;
  out.close();
  if (!out) {
    GTEST_SKIP() << "the file system cannot hold a sparse file of 400 GiB";
  }
  const auto reader = open_reader(shards({path})).value();
  ASSERT_EQ(reader->samples(), 2);
  EXPECT_EQ(cls(*reader, 1), 1);
  EXPECT_EQ(content(*reader, 1, "key"), "1");
  EXPECT_EQ(content(*reader, 1, "jpg"), "XG0412: has no member `jpg`; its members are bin, cls");
}

TEST_F(WebDatasets, LargeSamplesAreReadInParts) {
  const std::string large(5 << 20, 'p');
  const auto reader = open(tar_file({{"0.jpg", large}, {"0.cls", "1"}, {"1.jpg", "small"}, {"1.cls", "0"}})).value();
  EXPECT_EQ(content(*reader, 0, "jpg"), large);
  EXPECT_EQ(content(*reader, 0, "image"), large);
  EXPECT_EQ(content(*reader, 1, "image"), "small");
}

TEST_F(WebDatasets, WithIndicesAreTheSameAsWithout) {
  std::string archive;
  for (int i = 0; i < 50; ++i) {
    archive += tar_member(fmt::format("{:03}.jpg", i), std::string(static_cast<size_t>(100 * i), 'x')) +
               tar_member(fmt::format("{:03}.cls", i), fmt::format("{}", i * i));
  }
  const std::string path = write("a.tar", archive + kTarEnd);
  const auto scanned = open_reader(shards({path})).value();
  index(path);
  const auto indexed = open_reader(shards({path})).value();
  const auto header = open_header(shards({path})).value();
  EXPECT_EQ(indexed->describe(), scanned->describe());
  EXPECT_EQ(indexed->memory(), scanned->memory());
  EXPECT_EQ(header->memory(), scanned->memory());
  for (int64_t i = 0; i < 50; ++i) {
    for (const char* field : {"jpg", "cls", "key"}) {
      EXPECT_EQ(content(*indexed, i, field), content(*scanned, i, field));
      EXPECT_EQ(content(*header, i, field), content(*scanned, i, field));
    }
  }
}

TEST_F(WebDatasets, AnIndexOfAnotherShardIsReplacedByTheHeadersWithAWarning) {
  const std::string path = write("a.tar", tar_file({{"0.jpg", "x"}, {"0.cls", "0"}}));
  index(path);
  write("a.tar", tar_file({{"0.jpg", "x"}, {"0.cls", "0"}, {"1.jpg", "y"}, {"1.cls", "1"}}));
  const auto reader = open_reader(shards({path})).value();
  EXPECT_EQ(reader->samples(), 2);
  ASSERT_EQ(reader->warnings().size(), 1u);
  EXPECT_EQ(reader->warnings()[0].code, "XG0441");
  EXPECT_THAT(reader->warnings()[0].message, HasSubstr("1 index was not used"));
  EXPECT_THAT(reader->warnings()[0].help, HasSubstr("xrun data index"));
}

// Sizes and headers are those of the index, so only the label itself shows that it has changed.
TEST_F(WebDatasets, ALabelThatDiffersFromTheIndexEndsTheRun) {
  const std::string path = write("a.tar", tar_file({{"0.jpg", "x"}, {"0.cls", "4"}}));
  index(path);
  write("a.tar", tar_file({{"0.jpg", "x"}, {"0.cls", "5"}}));
  const auto reader = open_reader(shards({path})).value();
  const std::string fault = content(*reader, 0, "jpg");
  EXPECT_THAT(fault, HasSubstr("XG0441: "));
  EXPECT_THAT(fault, HasSubstr("a.tar: sample 0 differs from the index"));
}

TEST_F(WebDatasets, AShardThatChangesDuringARunGivesBrokenSamples) {
  const std::string archive = tar_file({{"0.jpg", "x"}, {"0.cls", "4"}});
  const auto missing = open(archive, "missing.tar").value();
  fs::remove(root_ / "missing.tar");
  EXPECT_EQ(content(*missing, 0, "jpg"), "XG0412: the shard is missing");
  EXPECT_EQ(cls(*missing, 0), 4);
  const auto longer = open(archive, "longer.tar").value();
  write("longer.tar", archive + archive);
  EXPECT_EQ(content(*longer, 0, "jpg"), "XG0412: the shard has another size than when it was opened");
  const auto shorter = open(archive, "shorter.tar").value();
  EXPECT_EQ(content(*shorter, 0, "jpg"), "x");
  fs::resize_file(root_ / "shorter.tar", 600);
  EXPECT_THAT(content(*shorter, 0, "jpg"), HasSubstr("XG0412: "));
  EXPECT_THAT(content(*shorter, 0, "jpg"), HasSubstr("became shorter"));
}

TEST_F(WebDatasets, AreReadByManyThreadsAtOnce) {
  constexpr int kShards = 20, kSamples = 30;
  std::vector<std::string> paths;
  for (int s = 0; s < kShards; ++s) {
    std::string archive;
    for (int i = 0; i < kSamples; ++i) {
      archive += tar_member(fmt::format("{}.jpg", i), fmt::format("picture {} of {}", i, s)) +
                 tar_member(fmt::format("{}.cls", i), fmt::format("{}", i));
    }
    paths.push_back(write(fmt::format("{}.tar", s), archive + kTarEnd));
  }
  const auto reader = open_reader(shards(paths)).value();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      FieldValue value;
      for (int64_t i = 0; i < kShards * kSamples; ++i) {
        const int64_t sample = (i * 7 + t * 131) % (kShards * kSamples);
        const bool good = reader->read(sample, reader->find_field("image"), value).ok() &&
                          text_of(value.bytes) == fmt::format("picture {} of {}", sample % kSamples, sample / kSamples);
        wrong += good ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(WebDatasets, OpeningEndsSoonAfterAStopRequest) {
  const std::string path = write("a.tar", tar_file({{"0.jpg", "x"}}));
  const std::atomic<bool> stop{true};
  const auto stopped = open_reader(shards({path}), &stop);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(exit_code(stopped.error().kind), 75);
}

TEST_F(WebDatasets, PicturesOfRealShardsAreDecoded) {
  const auto reader = open_reader(shards({"train-000008.tar"}, kFiles.string())).value();
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < reader->samples(); ++i) {
    FieldValue value;
    ASSERT_TRUE(reader->read(i, reader->find_field("image"), value).ok());
    const auto size = decode_picture(value.bytes, {}, pixels);
    ASSERT_TRUE(size.ok()) << size.error().message;
    EXPECT_EQ(size->width, 6);
    EXPECT_EQ(size->height, 4);
    EXPECT_NEAR(pixels[0], static_cast<double>(40 * i), 12);
    EXPECT_NEAR(pixels[1], static_cast<double>(255 - 20 * i), 12);
  }
}

}  // namespace
}  // namespace xrun::runtime
