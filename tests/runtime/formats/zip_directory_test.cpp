// Archives that Python's zipfile and libarchive wrote, and archives with records of zip64, made here.
#include "runtime/formats/zip_directory.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;
using ZipDirectory = testing::Files;

std::string le(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xff);
  }
  return out;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// An archive with one stored member `a`, whose sizes, offset and directory are all in records of zip64.
std::string zip64(const std::string& data, uint64_t said_bytes) {
  const auto crc = static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
  const std::string header = "PK\x03\x04" + le(45, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(crc, 4) + le(0, 4) +
                             le(0, 4) + le(1, 2) + le(0, 2) + "a";
  const std::string extra = le(1, 2) + le(24, 2) + le(said_bytes, 8) + le(said_bytes, 8) + le(0, 8);
  const std::string entry = "PK\x01\x02" + le(45, 2) + le(45, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(crc, 4) +
                            le(UINT32_MAX, 4) + le(UINT32_MAX, 4) + le(1, 2) + le(extra.size(), 2) + le(0, 2) +
                            le(0, 2) + le(0, 2) + le(0, 4) + le(UINT32_MAX, 4) + "a" + extra;
  const uint64_t start = header.size() + data.size();
  const uint64_t end = start + entry.size();
  return header + data + entry + "PK\x06\x06" + le(44, 8) + le(45, 2) + le(45, 2) + le(0, 4) + le(0, 4) + le(1, 8) +
         le(1, 8) + le(entry.size(), 8) + le(start, 8) + "PK\x06\x07" + le(0, 4) + le(end, 8) + le(1, 4) +
         "PK\x05\x06" + le(0, 2) + le(0, 2) + le(UINT16_MAX, 2) + le(UINT16_MAX, 2) + le(UINT32_MAX, 4) +
         le(UINT32_MAX, 4) + le(0, 2);
}

std::string text_of(const Result<std::vector<std::byte>>& bytes) {
  return bytes.ok() ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size())
                    : bytes.error().code + ": " + bytes.error().message;
}

TEST_F(ZipDirectory, FindsEachMemberOfAnArchiveOfLibarchive) {
  const std::string path = (root_ / "a.zip").string();
  const std::string large(100'000, 'x');
  testing::write_zip(path, {{"one", "1"}, {"two", large}});
  const auto file = RandomFile::open(path);
  ASSERT_TRUE(file.ok());
  const auto members = read_zip_directory(*file);
  ASSERT_TRUE(members.ok()) << members.error().message;
  ASSERT_EQ(members->size(), 2U);
  EXPECT_EQ(text_of(unpack_member(*file, (*members)[0], kMiB)), "1");
  EXPECT_EQ(text_of(unpack_member(*file, (*members)[1], kMiB)), large);
  EXPECT_EQ(text_of(unpack_member(*file, (*members)[1], 3)), "xxx");
  EXPECT_LT((*members)[1].packed_bytes, 1000);
}

TEST_F(ZipDirectory, ReadsSizesAndOffsetsOfZip64) {
  const std::string archive = zip64("data", 4);
  const RandomFile file = RandomFile::in_memory(bytes_of(archive), "a.zip");
  const auto members = read_zip_directory(file);
  ASSERT_TRUE(members.ok()) << members.error().message;
  ASSERT_EQ(members->size(), 1U);
  EXPECT_EQ((*members)[0].name, "a");
  EXPECT_EQ(text_of(unpack_member(file, (*members)[0], 100)), "data");
  EXPECT_EQ(*zip_data_offset(file, (*members)[0]), 31);
}

TEST_F(ZipDirectory, SizesThatDoNotFitTheFileAreRejected) {
  for (const uint64_t bytes : {uint64_t{5}, uint64_t{1} << 40, UINT64_MAX}) {
    const std::string archive = zip64("data", bytes);
    const auto members = read_zip_directory(RandomFile::in_memory(bytes_of(archive), "a.zip"));
    ASSERT_FALSE(members.ok()) << bytes;
    EXPECT_EQ(members.error().code, "XG0412");
    EXPECT_THAT(members.error().message, HasSubstr("a in a.zip: its sizes contradict"));
  }
}

TEST_F(ZipDirectory, AnyPrefixOfAnArchiveIsRejected) {
  const std::string archive = zip64("data", 4);
  for (size_t length = 0; length < archive.size(); ++length) {
    const auto members = read_zip_directory(RandomFile::in_memory(bytes_of(archive).first(length), "a.zip"));
    ASSERT_FALSE(members.ok()) << length;
    EXPECT_EQ(members.error().code, "XG0412");
    EXPECT_THAT(members.error().message, HasSubstr("it may be cut short at byte " + std::to_string(length)));
  }
}

TEST_F(ZipDirectory, AByteThatChangedInTheDataIsFoundByTheChecksum) {
  const std::string path = (root_ / "a.zip").string();
  std::string noise;
  for (uint32_t i = 0; i < 1000; ++i) {
    noise += static_cast<char>(i * i * 7919 >> 3);
  }
  testing::write_zip(path, {{"one", noise}});
  std::string archive = xrun::testing::read_file(path);
  const RandomFile whole = RandomFile::in_memory(bytes_of(archive), "a.zip");
  const ZipMember member = read_zip_directory(whole)->at(0);
  archive[static_cast<size_t>(*zip_data_offset(whole, member)) + 500] ^= 4;
  const auto bytes = unpack_member(whole, member, kMiB);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, "XG0412");
  EXPECT_THAT(bytes.error().message, HasSubstr("one in a.zip"));
}

TEST_F(ZipDirectory, MembersWithPasswordsOrOtherMethodsAreRejected) {
  const std::string good = zip64("data", 4);
  const size_t entry = good.find("PK\x01\x02");
  for (const auto& [at, value, what] : {std::tuple{8, 1, "encrypted"}, {10, 14, "compressed by method 14 of zip"}}) {
    std::string archive = good;
    archive[entry + static_cast<size_t>(at)] = static_cast<char>(value);
    const auto members = read_zip_directory(RandomFile::in_memory(bytes_of(archive), "a.zip"));
    ASSERT_FALSE(members.ok()) << what;
    EXPECT_THAT(members.error().message, HasSubstr(what));
  }
}

}  // namespace
}  // namespace xrun::runtime
