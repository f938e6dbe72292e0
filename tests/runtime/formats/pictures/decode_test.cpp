// Pictures of every kind against PIL's pixels: tests/pictures/make.py makes both.
#include "runtime/formats/pictures/decode.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sstream>

#include "tests/runtime/data/data_support.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

const fs::path kPictures = fs::path(XRUN_SOURCE_DIR) / "tests/pictures";

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<uint8_t> bytes_of_hex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

struct Row {
  std::string name;
  std::array<uint8_t, 3> background{};
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;
  std::vector<uint8_t> grey;
};

std::vector<Row> table() {
  std::ifstream in(kPictures / "table.txt");
  std::vector<Row> rows;
  std::string background, rgb, grey;
  for (Row row; in >> row.name >> background >> row.width >> row.height >> rgb >> grey;) {
    std::istringstream parts(background);
    for (uint8_t& part : row.background) {
      int value = 0;
      parts >> value;
      parts.ignore(1);
      part = static_cast<uint8_t>(value);
    }
    row.rgb = bytes_of_hex(rgb);
    row.grey = bytes_of_hex(grey);
    rows.push_back(row);
  }
  return rows;
}

void expect_pixels(const Row& row, int channels, const std::vector<uint8_t>& wanted) {
  const std::string file = content_of(kPictures / row.name);
  std::vector<uint8_t> pixels;
  const auto size =
      decode_picture(std::as_bytes(std::span(file)), {.channels = channels, .background = row.background}, pixels);
  ASSERT_TRUE(size.ok()) << row.name << ": " << size.error().message;
  EXPECT_EQ(size->width, row.width) << row.name;
  EXPECT_EQ(size->height, row.height) << row.name;
  ASSERT_EQ(pixels.size(), wanted.size()) << row.name;
  int most = 0;
  for (size_t i = 0; i < pixels.size(); ++i) {
    most = std::max(most, std::abs(int{pixels[i]} - int{wanted[i]}));
  }
  EXPECT_LE(most, 1) << row.name << " to " << channels << " channels";
}

TEST(Pictures, HaveThePixelsThatPilReads) {
  const std::vector<Row> rows = table();
  EXPECT_GE(rows.size(), 90u);
  for (const Row& row : rows) {
    expect_pixels(row, 3, row.rgb);
    expect_pixels(row, 1, row.grey);
    const std::string file = content_of(kPictures / row.name);
    const auto header = read_picture_header(std::as_bytes(std::span(file)));
    ASSERT_TRUE(header.ok()) << row.name;
    EXPECT_EQ(header->width, row.width) << row.name;
    EXPECT_EQ(header->height, row.height) << row.name;
  }
}

// The bytes of a damaged picture are refused or decoded, and no byte outside of it is read (a build with sanitizers).
TEST(Pictures, DamagedFilesAreRefusedOrDecoded) {
  std::vector<uint8_t> pixels;
  for (const auto& entry : fs::directory_iterator(kPictures)) {
    const std::string good = content_of(entry.path());
    for (size_t at = 0; at < good.size(); at += 1 + good.size() / 60) {
      std::string flipped = good;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      for (const std::string& text : {flipped, good.substr(0, at)}) {
        const std::vector<char> exact(text.begin(), text.end());  // nothing follows its last byte
        const auto file = std::as_bytes(std::span(exact));
        const auto header = read_picture_header(file);
        if (header.ok() && header->width * header->height < 1'000'000) {
          const auto size = decode_picture(file, {.channels = 3}, pixels);
          EXPECT_TRUE(size.ok() || size.error().code == "XG0412") << entry.path();
        }
      }
    }
  }
}

TEST(Pictures, TransparentPixelsHaveTheBackgroundOfTheDecodeStage) {
  const std::string file = content_of(kPictures / "rgba8.png");
  const auto pixel = [&](Attrs decode) {
    decode.set("channels", int64_t{3});
    const DataBinding binding{.target = "x", .field = "file", .stages = {{"decode", std::move(decode), {}}}};
    const auto transform = Transform::compile(binding, {"file", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true},
                                              testing::picture_type(3, 7, 11));
    EXPECT_TRUE(transform.ok());
    AugmentScratch scratch;
    const std::array<int64_t, 1> shape{static_cast<int64_t>(file.size())};
    scratch.source.set_view(DType::kU8, shape, std::as_bytes(std::span(file)));
    std::vector<float> out(3 * 7 * 11);
    EXPECT_TRUE(transform->run(scratch, {}, reinterpret_cast<std::byte*>(out.data())).ok());
    return std::vector<float>(out.begin() + 30, out.begin() + 33);  // at the right of the first row, transparent
  };
  EXPECT_EQ(pixel({}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(pixel({{"background", std::vector<int64_t>{200}}}), (std::vector<float>{200, 200, 200}));
  EXPECT_EQ(pixel({{"background", std::vector<int64_t>{1, 255, 0}}}), (std::vector<float>{1, 255, 0}));
}

TEST(Pictures, ABackgroundIsOneGreyOrThreeBytes) {
  const AugmentDef* decode = data_registry().find_augment("decode");
  const Field file{"file", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true};
  for (const std::vector<int64_t>& wrong : {std::vector<int64_t>{256}, {-1}, {0, 0}, {}}) {
    const auto type = decode->infer(file, {{"background", wrong}});
    ASSERT_FALSE(type.ok());
    EXPECT_EQ(type.error().code, "XG0413");
    EXPECT_NE(type.error().help.find("background=255"), std::string::npos) << type.error().help;
  }
}

}  // namespace
}  // namespace xrun::runtime
