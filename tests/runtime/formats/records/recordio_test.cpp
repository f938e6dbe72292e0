#include "runtime/formats/records/recordio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "runtime/formats/records/image_record.h"
#include "tests/runtime/formats/records/record_bytes.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::HasSubstr;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += hex[i] == ' ' ? 1 : 2) {
    if (hex[i] != ' ') {
      bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    }
  }
  return bytes;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// The contents of a complete record.
std::string joined(std::string record) {
  const auto contents = join_pieces(std::as_writable_bytes(std::span(record)));
  return {reinterpret_cast<const char*>(contents.data()), contents.size()};
}

// Records of MXNet 1.9.1, byte by byte.
TEST(RecordIo, RecordsOfMxnetAreRead) {
  const std::string image = from_hex("0a23d7ce 1c000000 00000000 0000e040 2a00000000000000 0000000000000000 ffd8ffd9");
  const auto size = record_size(bytes_of(image), 0).value();
  EXPECT_TRUE(size.complete);
  EXPECT_EQ(size.bytes, 36);
  const std::string contents = joined(image);
  const auto record = parse_image_record(bytes_of(contents)).value();
  EXPECT_EQ(record.header.flag, 0u);
  EXPECT_EQ(record.label(0), 7);
  EXPECT_EQ(record.header.id, 42u);
  EXPECT_EQ(record.image.size(), 4u);

  const std::string cut = from_hex("0a23d7ce 04000020 41414141 0a23d7ce 05000060 4242424243 000000");
  EXPECT_EQ(record_size(bytes_of(cut), 0)->bytes, static_cast<Bytes>(cut.size()) - 3) << "without its padding";
  EXPECT_EQ(joined(cut), "AAAA" + kMagicBytes + "BBBBC");
  EXPECT_EQ(record_of("AAAA" + kMagicBytes + "BBBBC"), cut);

  const std::string magic_alone = from_hex("0a23d7ce 00000020 0a23d7ce 00000060");
  EXPECT_TRUE(record_size(bytes_of(magic_alone), 0)->complete);
  EXPECT_EQ(joined(magic_alone), kMagicBytes);

  const std::string list = from_hex("02000000 00000000 0500000000000000 0000000000000000 0000803f 00000040");
  const auto labels = parse_image_record(bytes_of(list)).value();
  EXPECT_EQ(labels.labels(), 2);
  EXPECT_EQ(labels.label(0), 1);
  EXPECT_EQ(labels.label(1), 2);
  EXPECT_EQ(labels.header.id, 5u);
  EXPECT_TRUE(labels.image.empty());
}

// Contents with many magics, aligned or not, and cut off at each length: what is not yet there is asked for.
TEST(RecordIo, AnyContentsAreReadAgain) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::string contents;
    for (uint64_t parts = random() % 12; parts > 0; --parts) {
      contents += random() % 2 == 0 ? kMagicBytes : std::string(random() % 7, static_cast<char>(random()));
    }
    const std::string record = record_of(contents);
    const Bytes size = record_size(bytes_of(record), 0)->bytes;
    ASSERT_EQ((size + 3) / 4 * 4, static_cast<Bytes>(record.size())) << "seed " << seed;
    ASSERT_EQ(joined(record), contents) << "seed " << seed;
    for (Bytes known = 0; known < size; ++known) {
      const auto part = record_size(bytes_of(record).first(static_cast<size_t>(known)), 0).value();
      ASSERT_FALSE(part.complete) << "seed " << seed;
      ASSERT_GT(part.bytes, known) << "seed " << seed;
      ASSERT_LE(part.bytes, static_cast<Bytes>(record.size())) << "seed " << seed;
    }
    // The records on both sides are found from anywhere, and never within one.
    const std::string file = record + record_of("next");
    ASSERT_EQ(find_record(bytes_of(file)), 0u) << "seed " << seed;
    ASSERT_EQ(find_record(bytes_of(file).subspan(4)), record.size() - 4) << "seed " << seed;
  }
}

TEST(RecordIo, DamagedRecordsAreRefusedWithTheirOffset) {
  const auto refused = [](const std::string& record) {
    const auto size = record_size(bytes_of(record), 1000);
    EXPECT_FALSE(size.ok());
    EXPECT_EQ(size.ok() ? "" : size.error().code, "XG0412");
    return size.ok() ? "" : size.error().message;
  };
  EXPECT_THAT(refused("12345678"), HasSubstr("no record begins at byte 1000: 0x34333231 stands where"));
  EXPECT_THAT(refused(kMagicBytes + word(5u << 29)), HasSubstr("at byte 1000"));
  EXPECT_THAT(refused(kMagicBytes + word(2u << 29)), HasSubstr("at byte 1000 is a later piece"));
  EXPECT_THAT(refused(kMagicBytes + word(1u << 29 | 4) + "AAAA" + kMagicBytes + word(4)),
              HasSubstr("at byte 1012 is the first piece"));
  EXPECT_THAT(refused(kMagicBytes + word((1u << 29) - 1)), HasSubstr("larger than 257.0 MiB"));
}

TEST(RecordIo, AListOfLabelsThatDoesNotFitIsRefused) {
  std::string contents = image_contents({1, 2, 3}, 0, "");
  EXPECT_TRUE(parse_image_record(bytes_of(contents)).ok());
  contents.pop_back();
  EXPECT_THAT(parse_image_record(bytes_of(contents)).error().message, HasSubstr("less than the 3 labels"));
  std::memset(contents.data(), 0xff, 4);
  EXPECT_THAT(parse_image_record(bytes_of(contents)).error().message, HasSubstr("the 4294967295 labels"));
  EXPECT_THAT(parse_image_record(bytes_of(contents).first(23)).error().message, HasSubstr("has 23 bytes"));
}

}  // namespace
}  // namespace xrun::runtime
