// Records that are written equal those of MXNet's writer, and are read back as they were.
#include "runtime/formats/records/record_writer.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <string>

#include "runtime/formats/records/image_record.h"
#include "runtime/formats/records/recordio.h"
#include "tests/runtime/formats/records/record_bytes.h"

namespace xrun::runtime {
namespace {

using testing::image_contents;
using testing::kMagicBytes;
using testing::record_of;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string written(const std::string& contents) {
  std::vector<std::byte> to;
  append_record(std::as_bytes(std::span(contents)), to);
  return text_of(to);
}

std::string hex_of(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

// The bytes that mxnet 1.9.1 writes.
TEST(RecordWriter, BytesAreThoseOfMxnet) {
  const std::vector<std::byte> picture{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}, std::byte{0xd9}};
  std::vector<std::byte> to;
  const float label = 7;
  append_image_record(42, {&label, 1}, picture, to);
  EXPECT_EQ(hex_of(text_of(to)), "0a23d7ce1c000000000000000000e0402a000000000000000000000000000000ffd8ffd9");
  EXPECT_EQ(hex_of(written("AAAA" + kMagicBytes + "BBBBC")),
            "0a23d7ce04000020414141410a23d7ce050000604242424243000000");
  EXPECT_EQ(hex_of(written(kMagicBytes)), "0a23d7ce000000200a23d7ce00000060");
  const std::vector<float> labels{1, 2};
  to.clear();
  append_image_record(5, labels, {}, to);
  EXPECT_EQ(hex_of(text_of(to)), "0a23d7ce200000000200000000000000050000000000000000000000000000000000803f00000040");
}

TEST(RecordWriter, ContentsWithMagicsAnywhereAreReadBack) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::string contents(random() % 64, '\0');
    for (char& c : contents) {
      c = static_cast<char>(random() % 3);
    }
    for (int magics = static_cast<int>(random() % 4); magics > 0 && contents.size() >= 4; --magics) {
      const size_t at = random() % (contents.size() - 3);
      contents.replace(random() % 2 == 0 ? at : at / 4 * 4, 4, kMagicBytes);
    }
    const std::string record = written(contents);
    EXPECT_EQ(record, record_of(contents));
    std::vector<std::byte> bytes(record.size());
    std::memcpy(bytes.data(), record.data(), record.size());
    const auto size = record_size(bytes, 0);
    ASSERT_TRUE(size.ok() && size->complete);
    EXPECT_EQ(text_of(join_pieces(bytes)), contents);
  }
}

TEST(RecordWriter, LabelsArePutIntoTheHeaderOrAList) {
  for (const std::vector<float>& labels : {std::vector<float>{3}, std::vector<float>{3, 0.5, -1}}) {
    const std::string picture = "picture";
    std::vector<std::byte> to;
    append_image_record(9, labels, std::as_bytes(std::span(picture)), to);
    EXPECT_EQ(text_of(to), record_of(image_contents(labels, 9, picture)));
    const auto image = parse_image_record(join_pieces(to));
    ASSERT_TRUE(image.ok());
    EXPECT_EQ(image->labels(), std::ssize(labels));
    EXPECT_EQ(image->label(std::ssize(labels) - 1), labels.back());
    EXPECT_EQ(text_of(image->image), picture);
  }
}

TEST(RecordWriter, LinesOfTextsHaveTheFormOfIm2rec) {
  EXPECT_EQ(index_line(7, 123456789012), "7\t123456789012\n");
  EXPECT_EQ(list_line(7, 16'777'217, "000000007.jpg"), "7\t16777217.000000\t000000007.jpg\n");
}

}  // namespace
}  // namespace xrun::runtime
