#include "runtime/formats/tensors/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Returns a file with this JSON header and `data` bytes of data.
std::string file_of(const std::string& json, size_t data) {
  const uint64_t length = json.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + json + std::string(data, 'd');
}

Result<SafeHeader> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), static_cast<Bytes>(file.size()), "f");
}

std::string fault(const std::string& json, size_t data) {
  const auto header = parse(file_of(json, data));
  EXPECT_TRUE(header.ok() || header.error().code == "XG0715");
  return header.ok() ? "" : header.error().message;
}

TEST(Safetensors, ReadsWhatTheFormatAllows) {
  const auto header = parse(file_of(
      R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"e":{"dtype":"F4","shape":[2,0],"data_offsets":[26,26]},"c":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[26,29]}}   )",
      29));
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 4u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_TRUE(header->tensors[0].shape.empty());
  EXPECT_EQ(header->find("b")->begin, 2) << "misaligned data are legal";
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(header->data_bytes, 29);
  EXPECT_TRUE(parse(file_of("{}", 0)).ok());
}

TEST(Safetensors, RefusesWhatItForbids) {
  const auto tensor = [](const char* name, const char* dtype, const char* shape, const char* offsets) {
    return std::string("\"") + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}";
  };
  const std::string a = tensor("a", "F32", "[2]", "[0,8]");
  EXPECT_EQ(fault("{" + a + "}", 8), "");
  EXPECT_THAT(fault("{" + a + "," + a + "}", 8), HasSubstr("the name \"a\" twice"));
  EXPECT_THAT(fault("{" + a + "," + tensor("b", "F32", "[1]", "[4,8]") + "}", 8),
              HasSubstr("another tensor overlaps it"));
  EXPECT_THAT(fault("{" + a + "," + tensor("b", "F32", "[1]", "[12,16]") + "}", 16), HasSubstr("a gap before it"));
  EXPECT_THAT(fault("{" + a + "}", 9), HasSubstr("9 bytes of data, but the header says 8"));
  EXPECT_THAT(fault("{" + a + "}", 7), HasSubstr("7 bytes of data"));
  EXPECT_THAT(fault("{" + tensor("a", "F32", "[3]", "[0,8]") + "}", 8), HasSubstr("do not fit its shape"));
  EXPECT_THAT(fault("{" + tensor("a", "F33", "[2]", "[0,8]") + "}", 8), HasSubstr("unknown dtype"));
  EXPECT_THAT(fault("{" + tensor("a", "F4", "[1]", "[0,1]") + "}", 1), HasSubstr("do not fit its shape"));
  EXPECT_THAT(fault("{" + tensor("a", "F32", "[9223372036854775807,4]", "[0,8]") + "}", 8),
              HasSubstr("do not fit its shape"));
  EXPECT_THAT(fault("{" + tensor("a", "F32", "[-2]", "[0,8]") + "}", 8), HasSubstr("a number below 0"));
  EXPECT_THAT(fault("{" + tensor("a", "F32", "[2.0]", "[0,8]") + "}", 8), HasSubstr("not whole"));
  EXPECT_THAT(fault("{" + tensor("a", "F32", "[2]", "[8,0]") + "}", 8), HasSubstr("not a begin and an end"));
  EXPECT_THAT(fault("{" + tensor("a", "F32", "[2]", "[0]") + "}", 8), HasSubstr("not a begin and an end"));
  EXPECT_THAT(fault(R"({"a":{"dtype":"F32","shape":[2]}})", 8), HasSubstr("no dtype, shape and data_offsets"));
  EXPECT_THAT(fault(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), HasSubstr("twice"));
  EXPECT_THAT(fault(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8), HasSubstr("unknown entry"));
  EXPECT_THAT(fault(R"({"__metadata__":{"a":1}})", 0), HasSubstr("a number in the wrong place"));
  EXPECT_THAT(fault(R"({"a":null})", 0), HasSubstr("a null"));
  EXPECT_THAT(fault(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8),
              HasSubstr("a list in the wrong place"));
  EXPECT_THAT(fault("[]", 0), HasSubstr("does not begin"));
  EXPECT_THAT(fault(" {}", 0), HasSubstr("does not begin"));
  EXPECT_THAT(fault("{}\n", 0), HasSubstr("does not begin"));
  EXPECT_THAT(fault("{} {}", 0), HasSubstr("broken JSON"));
  EXPECT_THAT(fault("{\"a\xff\":{}}", 0), HasSubstr("broken JSON"));
  EXPECT_FALSE(parse(std::string(8, '\xff') + "{}").ok());
  EXPECT_FALSE(parse(std::string("\1\0\0\0\0\0\0\0", 8)).ok());
  EXPECT_FALSE(parse("short").ok());
  EXPECT_FALSE(parse("").ok());
  EXPECT_FALSE(parse(file_of(std::string(100000, '{'), 0)).ok());
}

TEST(Safetensors, WritesWhatItReadsAlignedAndOrdered) {
  const fs::path path = fs::temp_directory_path() / ("xrun_st_" + std::to_string(getpid()));
  fs::remove(path);
  std::vector<SafeTensor> tensors{{.name = "z", .dtype = "F32", .shape = {2}},
                                  {.name = "h", .dtype = "BF16", .shape = {3}},
                                  {.name = "a", .dtype = "F32", .shape = {}},
                                  {.name = "w", .dtype = "F64", .shape = {1}},
                                  {.name = "none", .dtype = "U8", .shape = {0, 7}}};
  lay_out(tensors);
  std::vector<std::string> order;
  for (const SafeTensor& tensor : tensors) {
    order.push_back(tensor.name);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"w", "a", "z", "h", "none"}));
  std::vector<std::byte> data(26);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i);
  }
  {
    auto writer = SafetensorsWriter::create(path.string(), tensors, {{"k", "v \"quoted\""}});
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    ASSERT_TRUE(writer->write(std::span(data).first(10)).ok());
    ASSERT_TRUE(writer->write(std::span(data).subspan(10)).ok());
    ASSERT_TRUE(writer->finish().ok());
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    EXPECT_EQ(static_cast<Bytes>(bytes.size()), writer->bytes());
    EXPECT_EQ(xxh128(std::as_bytes(std::span(bytes))), writer->digest());
  }
  EXPECT_FALSE(SafetensorsWriter::create(path.string(), tensors, {}).ok()) << "files are never written over";
  const auto file = SafetensorsFile::open(path.string());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->header().header_bytes % 64, 0);
  EXPECT_EQ(file->header().metadata.at("k"), "v \"quoted\"");
  std::vector<std::byte> out(4);
  ASSERT_TRUE(file->read(*file->header().find("z"), 4, out).ok());
  EXPECT_EQ(out[0], std::byte{16});
  fs::remove(path);
}

TEST(Safetensors, MissingFileIsAUserError) {
  const auto missing = SafetensorsFile::open("/no/such/file.safetensors");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, "XG0713");
  EXPECT_EQ(exit_code(missing.error().kind), 1);
  EXPECT_EQ(exit_code(SafetensorsFile::open("/tmp").error().kind), 4);
}

// The reference's published XXH3-128 digests of empty input and of a sequence of bytes.
TEST(Xxh128, GivesPublishedDigests) {
  EXPECT_EQ(xxh128({}), "99aa06d3014798d86001c324468d497f");
  Xxh128 pieces;
  const std::string text(1000, 'x');
  pieces.add(std::as_bytes(std::span(text)).first(300));
  pieces.add(std::as_bytes(std::span(text)).subspan(300));
  EXPECT_EQ(pieces.hex(), xxh128(std::as_bytes(std::span(text))));
}

}  // namespace
}  // namespace xrun::runtime
