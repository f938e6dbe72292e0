#include "runtime/formats/tensors/npy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "runtime/formats/tensors/npy.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file(const std::string& name) {
  return xrun::testing::read_file(XRUN_SOURCE_DIR "/tests/runtime/data/files/npy/" + name);
}

Result<NpyHeader> parse(const std::string& bytes, std::string_view dtype = "") {
  return parse_npy_header(std::as_bytes(std::span(bytes)), dtype, "x.npy");
}

// A file of version 1.0 with this dict, without padding.
std::string with_dict(const std::string& dict) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size() & 0xff) +
         static_cast<char>(dict.size() >> 8) + dict;
}

void expect_fault(const Result<NpyHeader>& header, const char* code, const std::string& message,
                  const std::string& help) {
  ASSERT_FALSE(header.ok()) << message;
  EXPECT_EQ(header.error().code, code);
  EXPECT_THAT(header.error().message, HasSubstr(message));
  EXPECT_THAT(header.error().help, HasSubstr(help));
}

TEST(NpyHeaderTest, AllVersionsOfTheFormatAreRead) {
  for (const char* name : {"numpy2/rows.npy", "numpy2/rows_v2.npy", "numpy2/rows_v3.npy"}) {
    const auto header = parse(file(name));
    ASSERT_TRUE(header.ok()) << header.error().message;
    EXPECT_EQ(header->kind, NpyKind::kFloat);
    EXPECT_THAT(header->dims, ElementsAre(6, 4));
    EXPECT_EQ(header->header_bytes, 128);
    EXPECT_EQ(header->data_bytes, 96);
    EXPECT_FALSE(header->is_big_endian);
    EXPECT_EQ(npy_content(*header), "f32 [6, 4]");
  }
}

TEST(NpyHeaderTest, KeysMayHaveAnyOrderAndPaddingIsNotNeeded) {
  const auto header = parse(with_dict("{\"shape\":(3,5L),'fortran_order':True,'descr':'>i2'}"));
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_THAT(header->dims, ElementsAre(3, 5));
  EXPECT_TRUE(header->is_big_endian);
  EXPECT_TRUE(header->is_fortran);
  EXPECT_EQ(npy_content(*header), "i16 [3, 5]");
}

TEST(NpyHeaderTest, OrderDoesNotMatterIfOneDimensionIsLong) {
  for (const char* shape : {"(7,)", "(7, 1)", "(1, 7)", "()", "(0, 7)"}) {
    const auto header =
        parse(with_dict(std::string("{'descr': '<f4', 'fortran_order': True, 'shape': ") + shape + "}"));
    ASSERT_TRUE(header.ok()) << shape;
    EXPECT_FALSE(header->is_fortran) << shape;
  }
}

TEST(NpyHeaderTest, HeadersOfOurOwnArraysAreRead) {
  const auto header = parse(npy_header({.name = "e", .descr = "<f4", .shape = {10, 3}, .data = {}}));
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_THAT(header->dims, ElementsAre(10, 3));
}

TEST(NpyHeaderTest, AnythingButADictOfTheThreeEntriesIsRejected) {
  const std::string good = "'descr': '<f4', 'fortran_order': False, 'shape': (3,)";
  ASSERT_TRUE(parse(with_dict("{" + good + ", }  \n")).ok());
  const std::vector<std::string> dicts{"",
                                       "{",
                                       "{" + good,
                                       "{" + good + "} x",
                                       "{" + good + ", 'more': 1}",
                                       "{" + good + ", 'descr': '<f4'}",
                                       "{'descr': '<f4', 'shape': (3,)}",
                                       "{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,)}",
                                       "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
                                       "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
                                       "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
                                       "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
                                       "{'descr': '<f4', 'fortran_order': False, 'shape': [3]}",
                                       "{'descr': '<f4\\n', 'fortran_order': False, 'shape': (3,)}",
                                       "{'descr': 'f', 'fortran_order': False, 'shape': (3,)}",
                                       "{'descr': '<q4x', 'fortran_order': False, 'shape': (3,)}"};
  for (const std::string& dict : dicts) {
    const auto header = parse(with_dict(dict));
    ASSERT_FALSE(header.ok()) << dict;
    EXPECT_EQ(header.error().code, "XG0412") << dict;
  }
}

TEST(NpyHeaderTest, SizesThatOverflowAreRejected) {
  for (const char* shape : {"(9223372036854775807, 2)", "(4294967296, 4294967296)", "(0, 4294967296, 4294967296)",
                            "(99999999999999999999,)"}) {
    const auto header =
        parse(with_dict(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + "}"));
    ASSERT_FALSE(header.ok()) << shape;
    EXPECT_EQ(header.error().code, "XG0412");
  }
}

TEST(NpyHeaderTest, AnyPrefixOfAHeaderIsRejected) {
  const std::string whole = file("numpy2/rows.npy");
  for (size_t length = 0; length < 128; ++length) {
    const auto header = parse(whole.substr(0, length));
    ASSERT_FALSE(header.ok()) << length;
    EXPECT_EQ(header.error().code, "XG0412");
  }
}

TEST(NpyHeaderTest, AnyBytesGiveAHeaderOrAnError) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 draw(seed);
  const std::string whole = file("numpy2/rows_fortran.npy").substr(0, 128);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 3; ++i) {
      bytes[draw() % bytes.size()] =
          static_cast<char>(round % 2 == 0 ? "0123456789'(),{}: LfiuVSUO<>|"[draw() % 29] : draw());
    }
    const auto header = parse(bytes, round % 3 == 0 ? "bf16" : "");
    if (header.ok()) {
      int64_t product = header->item_bytes;
      for (const int64_t dim : header->dims) {
        ASSERT_FALSE(__builtin_mul_overflow(product, dim, &product));
      }
      ASSERT_EQ(header->data_bytes, product);
    }
  }
}

TEST(NpyHeaderTest, PicklesAndStructuredArraysAreRejectedWithAWayToConvertThem) {
  expect_fault(parse(file("numpy2/objects.npy")), "XG0412", "holds Python objects, which are read only by running code",
               "numpy.stack(list(a))");
  expect_fault(parse(file("numpy1/objects.npy")), "XG0412", "holds Python objects", "allow_pickle=True");
  expect_fault(parse(file("numpy2/fields.npy")), "XG0412", "a structured array", "a[\"FIELD\"]");
  expect_fault(parse(file("numpy2/fields_unicode.npy")), "XG0412", "a structured array", "a[\"FIELD\"]");
}

// NumPy writes version 2.0 by itself if the fields of a structured array need more than 64 KiB.
TEST(NpyHeaderTest, AStructuredArrayOfManyFieldsIsRejected) {
  std::string dict = "{'descr': [";
  for (int i = 0; i < 4000; ++i) {
    dict += "('field_" + std::to_string(i) + "', '<f4'), ";
  }
  dict += "], 'fortran_order': False, 'shape': (2,), }\n";
  std::string bytes("\x93NUMPY\x02\x00", 8);
  for (int i = 0; i < 4; ++i) {
    bytes += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  }
  expect_fault(parse(bytes + dict), "XG0412", "a structured array", "");
}

TEST(NpyHeaderTest, TypesThatAreNotReadAreRejectedWithATypeThatIs) {
  expect_fault(parse(file("numpy2/times.npy")), "XG0412", "type \"<M8[s]\"", "a.astype(\"int64\")");
  expect_fault(parse(file("numpy2/complex.npy")), "XG0412", "type \"<c8\"", "a.view(\"float32\")");
  expect_fault(parse(file("numpy2/long_double.npy")), "XG0412", "type \"<f16\"", "a.astype(\"float32\")");
  expect_fault(parse(file("numpy2/six.npy")), "XG0412", "6 dimensions", "at most 5");
  expect_fault(parse("PK\x03\x04 and more"), "XG0412", "not a .npy file", "numpy.save");
  expect_fault(parse(std::string("\x93NUMPY\x04\x00 and more", 18)), "XG0412", "version 4.0", "version 1.0");
}

TEST(NpyHeaderTest, SmallFloatsAreReadOnlyWithTheirType) {
  const std::string bf16 = file("numpy2/bf16.npy");
  const std::string e4m3 = file("numpy2/f8e4m3.npy");
  const std::string e5m2 = file("numpy2/f8e5m2.npy");
  EXPECT_EQ(parse(bf16, "bf16")->kind, NpyKind::kBf16);
  EXPECT_EQ(parse(e4m3, "f8e4m3")->kind, NpyKind::kF8E4M3);
  EXPECT_EQ(parse(e5m2, "f8e5m2")->kind, NpyKind::kF8E5M2);
  expect_fault(parse(bf16), "XG0413", "elements of 2 bytes without a type (<V2)", "dtype=\"bf16\"");
  expect_fault(parse(e4m3), "XG0413", "elements of 1 byte without a type (<V1)", "dtype=\"f8e4m3\"");
  expect_fault(parse(e5m2), "XG0413", "without a type (<f1)", "dtype=\"f8e5m2\"");
  expect_fault(parse(bf16, "f8e4m3"), "XG0413", "`dtype` is f8e4m3, but the elements of x.npy are <V2", "bf16");
  expect_fault(parse(e5m2, "f8e4m3"), "XG0413", "are <f1", "the type that the writer had");
  expect_fault(parse(file("numpy2/rows.npy"), "bf16"), "XG0413", "have the type \"<f4\"", "leave `dtype` out");
}

}  // namespace
}  // namespace xrun::runtime
