#include "runtime/data/readers/webdataset/shard_index.h"

#include <fstream>
#include <gmock/gmock.h>
#include <random>

#include "graph/base/xxh128.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/tar_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using namespace xrun::testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ShardIndices : public Files {
 protected:
  // Writes a shard with samples of these labels, and its index.
  std::string indexed(const std::string& name, const std::vector<std::string>& labels) {
    std::string archive;
    for (size_t i = 0; i < labels.size(); ++i) {
      archive +=
          tar_member(fmt::format("{:04}.jpg", i), "picture") + tar_member(fmt::format("{:04}.cls", i), labels[i]);
    }
    const std::string path = write(name, archive + kTarEnd);
    EXPECT_TRUE(save_index(path, scan_shard(path, nullptr).value()).ok());
    return path;
  }
};

void expect_equal(const ShardSamples& a, const ShardSamples& b) {
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.end_block, b.end_block);
  EXPECT_EQ(a.first_blocks, b.first_blocks);
  EXPECT_TRUE(std::ranges::equal(a.labels.narrow(), b.labels.narrow()));
  EXPECT_TRUE(std::ranges::equal(a.labels.wide(), b.labels.wide()));
  EXPECT_EQ(a.largest_label, b.largest_label);
  EXPECT_EQ(a.labelled, b.labelled);
  ASSERT_EQ(a.extensions.size(), b.extensions.size());
  for (size_t i = 0; i < a.extensions.size(); ++i) {
    EXPECT_EQ(a.extensions[i].name, b.extensions[i].name);
    EXPECT_EQ(a.extensions[i].members, b.extensions[i].members);
  }
  EXPECT_EQ(a.other_members, b.other_members);
  EXPECT_EQ(a.links, b.links);
  EXPECT_EQ(a.most_members, b.most_members);
  EXPECT_EQ(a.largest_sample, b.largest_sample);
  EXPECT_EQ(a.split_keys, b.split_keys);
  EXPECT_EQ(a.no_end, b.no_end);
  EXPECT_EQ(a.after_end, b.after_end);
}

TEST_F(ShardIndices, HaveThePositionsAndLabelsOfTheHeaders) {
  for (const std::vector<std::string>& labels :
       {std::vector<std::string>{"1", "", "5000000000"}, {"1", "2", "x"}, {}, {"7.0"}}) {
    const std::string path = indexed("a.tar", labels);
    const auto loaded = load_index(path).value();
    ASSERT_TRUE(loaded.samples) << loaded.fault;
    EXPECT_EQ(loaded.fault, "");
    expect_equal(*loaded.samples, scan_shard(path, nullptr).value());
  }
}

TEST_F(ShardIndices, AreNextToTheirShards) {
  EXPECT_EQ(index_path("a/b-000.tar"), "a/b-000.xidx");
  EXPECT_EQ(index_path("a/b"), "a/b.xidx");
  const auto absent = load_index(write("a.tar", tar_file({{"0.jpg", "x"}}))).value();
  EXPECT_FALSE(absent.samples);
  EXPECT_EQ(absent.fault, "");
  EXPECT_EQ(load_index((root_ / "gone.tar").string()).error().code, "XG0401");
}

TEST_F(ShardIndices, ThatBelongToAnotherShardAreNotUsed) {
  const std::string path = indexed("a.tar", {"1", "2", "3"});
  const auto fault_of = [&](const std::string& archive) {
    write("a.tar", archive);
    const auto loaded = load_index(path).value();
    EXPECT_FALSE(loaded.samples);
    return loaded.fault;
  };
  const std::string archive = [&] {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  const std::string other = "belongs to another shard, or to an older state of this one";
  EXPECT_EQ(fault_of(archive + std::string(512, '\0')), other) << "another size";
  std::string renamed = archive;
  renamed[4 * 1024 + 3] = '9';  // the name of the last sample's first member
  set_checksum(renamed, 4 * 1024);
  EXPECT_EQ(fault_of(renamed), other);
  EXPECT_EQ(fault_of(std::string(archive.size(), '\0')), other);
  write("a.tar", archive);
  EXPECT_TRUE(load_index(path)->samples) << "a copy with another time is the same shard";
}

TEST_F(ShardIndices, ThatAreOlderThanTheirShardsAreMarked) {
  const std::string path = indexed("a.tar", {"1"});
  EXPECT_FALSE(load_index(path)->older);
  fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(load_index(path)->older);
}

TEST_F(ShardIndices, WithOneDamagedByteAreRefused) {
  const std::string path = indexed("a.tar", {"1", "2", "3"});
  const std::vector<std::byte> good =
      index_bytes({.samples = scan_shard(path, nullptr).value(), .probe = ShardProbe{}});
  ASSERT_TRUE(parse_index(good, "a.xidx").ok());
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{0x10};
    const auto refused = parse_index(bad, "a.xidx");
    ASSERT_FALSE(refused.ok()) << i;
    EXPECT_EQ(refused.error().code, "XG0441");
    EXPECT_THAT(refused.error().message, HasSubstr("a.xidx "));
    EXPECT_FALSE(parse_index(std::span(good).first(i), "a.xidx").ok());
  }
}

// The digest finds accidents; a file that was made with intent must not lead to reads outside of the shard either.
TEST_F(ShardIndices, WithAValidDigestAreCheckedAsWell) {
  const std::string path = indexed("a.tar", {"1", "5000000000", "3", "4"});
  const std::vector<std::byte> good =
      index_bytes({.samples = scan_shard(path, nullptr).value(), .probe = ShardProbe{}});
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bad = good;
    bad[random() % (bad.size() - 16)] = static_cast<std::byte>(random());
    const auto digest = xxh128_bytes(std::span(bad).first(bad.size() - 16));
    std::ranges::copy(digest, bad.end() - 16);
    const auto index = parse_index(bad, "a.xidx");
    if (!index.ok()) {
      continue;
    }
    ++accepted;
    const ShardSamples& samples = index->samples;
    ASSERT_EQ(samples.labels.size(), samples.first_blocks.size()) << "seed " << seed;
    for (size_t i = 0; i < samples.first_blocks.size(); ++i) {
      ASSERT_LT(samples.begin_of(i), samples.end_of(i)) << "seed " << seed;
      ASSERT_LE(samples.end_of(i), samples.bytes) << "seed " << seed;
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST_F(ShardIndices, FromLaterVersionsAreRefused) {
  ShardIndex index{.samples = {}, .probe = {}};
  std::vector<std::byte> bytes = index_bytes(index);
  // Without samples, the schema is the only field with the value 1.
  const auto schema = std::ranges::find(bytes, std::byte{kShardIndexSchema});
  bool found = false;
  for (auto at = schema; at != bytes.end() && !found; at = std::find(at + 1, bytes.end(), std::byte{1})) {
    std::vector<std::byte> later = bytes;
    later[static_cast<size_t>(at - bytes.begin())] = std::byte{2};
    std::ranges::copy(xxh128_bytes(std::span(later).first(later.size() - 16)), later.end() - 16);
    const auto refused = parse_index(later, "a.xidx");
    found = !refused.ok() && refused.error().message == "a.xidx has schema 2; this version reads schema 1";
  }
  EXPECT_TRUE(found);
}

TEST_F(ShardIndices, NeverReplaceAFileThatIsNotAnIndex) {
  const std::string path = write("a.tar", tar_file({{"0.jpg", "x"}}));
  const std::string other = write("a.xidx", "my own notes");
  const Status refused = save_index(path, scan_shard(path, nullptr).value());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0441");
  EXPECT_THAT(refused.error().help, HasSubstr("move that file away"));
  std::ifstream in(other);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "my own notes");
  EXPECT_EQ(load_index(path)->fault, "is not an index of a tar shard");
}

}  // namespace
}  // namespace xrun::runtime
