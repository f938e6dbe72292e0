#include "runtime/formats/pickle/numpy_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/formats/pickle/pickles.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using std::string_literals::operator""s;

// Pickles of protocol 0 and 3 that Python would write, from parts.
std::string dtype(const std::string& name, const std::string& order = "|") {
  return "cnumpy\ndtype\n(S'" + name + "'\nI0\nI1\ntR(I3\nS'" + order + "'\nNNNI-1\nI-1\nI0\ntb";
}
std::string bytes(const std::string& data) { return "C" + std::string(1, static_cast<char>(data.size())) + data; }
std::string array(const std::string& type, const std::string& shape, const std::string& data,
                  const std::string& order = "S'C'\n") {
  return "cnumpy._core.numeric\n_frombuffer\n(" + data + type + shape + order + "tR.";
}

// The numbers of an array, or of the fault a list with its message.
std::vector<int64_t> numbers_of(const std::string& text) {
  const auto held = parse(text);
  const auto found = pickled_array(held->pickle(), held->pickle().root());
  return read_integers(held->pickle(), *found.value()).value();
}
std::string fault_of(const std::string& text) {
  const auto held = parse(text);
  if (!held->parsed.ok()) {
    return "not parsed: " + held->parsed.error().message;
  }
  const auto found = pickled_array(held->pickle(), held->pickle().root());
  if (!found.ok()) {
    EXPECT_EQ(found.error().code, "XG0412");
    return found.error().message;
  }
  if (!found.value()) {
    return "not an array";
  }
  const auto numbers = read_integers(held->pickle(), *found.value());
  return numbers.ok() ? "" : numbers.error().message;
}

TEST(NumpyValues, WholeNumbersOfEachTypeAreRead) {
  EXPECT_THAT(numbers_of(array(dtype("u1"), "(I2\nt", bytes("\1\xff"))), ElementsAre(1, 255));
  EXPECT_THAT(numbers_of(array(dtype("i1"), "(I2\nt", bytes("\1\xff"))), ElementsAre(1, -1));
  EXPECT_THAT(numbers_of(array(dtype("b1"), "(I2\nt", bytes("\1\0"s))), ElementsAre(1, 0));
  EXPECT_THAT(numbers_of(array(dtype("i2", "<"), "(I1\nI2\nt", bytes("\1\2\xff\xff"))), ElementsAre(0x201, -1));
  EXPECT_THAT(numbers_of(array(dtype("i2", ">"), "(I2\nt", bytes("\1\2\xff\xff"))), ElementsAre(0x102, -1));
  EXPECT_THAT(numbers_of(array(dtype("<u4"), "(t", bytes("\1\0\0\x80"s))), ElementsAre(0x80000001));
  EXPECT_THAT(numbers_of(array(dtype("i8", "<"), "(t", bytes(std::string(8, '\xff')))), ElementsAre(-1));
  EXPECT_THAT(numbers_of(array(dtype("u1"), "(I0\nI5\nt", bytes(""))), ElementsAre());
  EXPECT_THAT(numbers_of(array(dtype("u1"), "(I2\nt", "c_codecs\nencode\n(V\xe9\\u000a\nVlatin1\ntR")),
              ElementsAre(0xe9, 10));
  EXPECT_THAT(numbers_of("cnumpy.core.multiarray\nscalar\n(" + dtype("b1") + bytes("\1") + "tR."), ElementsAre(1));
}

TEST(NumpyValues, ShapeAndOrderAreKept) {
  const auto held = parse(array(dtype("f4", ">"), "(I1\nI2\nt", bytes("01234567"), "S'F'\n"));
  const auto found = pickled_array(held->pickle(), held->pickle().root()).value();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fortran);
  EXPECT_TRUE(found->big_endian);
  EXPECT_EQ(found->type(), "f4 [1, 2]");
  EXPECT_EQ(found->elements, 2);
  EXPECT_EQ(held->bytes.substr(static_cast<size_t>(found->data.offset), 8), "01234567");
}

TEST(NumpyValues, ArraysThatDoNotFitAreRefused) {
  const std::string two = bytes("\1\2");
  EXPECT_THAT(fault_of("N."), "not an array");
  EXPECT_THAT(fault_of(array(dtype("O"), "(I2\nt", two)), HasSubstr("an array of the type \"O\""));
  EXPECT_THAT(fault_of(array(dtype("S1"), "(I2\nt", two)), HasSubstr("only bools and numbers are read"));
  EXPECT_THAT(fault_of(array(dtype("u99"), "(I2\nt", two)), HasSubstr("an array of the type \"u99\""));
  EXPECT_THAT(fault_of(array(dtype("u"), "(I2\nt", two)), HasSubstr("an array of the type \"u\""));
  EXPECT_THAT(fault_of(array(dtype(""), "(I2\nt", two)), HasSubstr("an array of the type \"\""));
  EXPECT_THAT(fault_of(array(dtype("u1", "x"), "(I2\nt", two)), HasSubstr("an array of the type"));
  EXPECT_THAT(fault_of(array("N", "(I2\nt", two)), HasSubstr("None instead of a dtype"));
  EXPECT_THAT(fault_of(array("cnumpy\ndtype\n)R", "(I2\nt", two)), HasSubstr("an object instead of a dtype"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(I3\nt", two)), HasSubstr("an array u1 [3] has 2 bytes of data"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(I1\nt", two)), HasSubstr("an array u1 [1] has 2 bytes of data"));
  EXPECT_THAT(fault_of(array(dtype("i4"), "(I1\nt", two)), HasSubstr("an array i4 [1] has 2 bytes of data"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(I-1\nI-2\nt", two)), HasSubstr("not a tuple of sizes"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(NI2\nt", two)), HasSubstr("not a tuple of sizes"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "I2\n", two)), HasSubstr("not a tuple of sizes"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(L4294967296L\nL4294967296L\nt", two)), HasSubstr("too large"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(L4611686018427387904L\nt", two)), HasSubstr("has 2 bytes of data"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(I2\nt", two, "S'K'\n")), HasSubstr("another order than C and F"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(I2\nt", "N")), HasSubstr("the data of an array is None"));
  EXPECT_THAT(fault_of(array(dtype("f2"), "(I1\nt", two)), HasSubstr("where bools or whole numbers are needed"));
  EXPECT_THAT(fault_of(array(dtype("u8"), "(t", bytes(std::string(8, '\xff')))),
              HasSubstr("a number that is too large"));
  EXPECT_THAT(fault_of("cnumpy.core.numeric\n_frombuffer\n)R."), HasSubstr("without data, type, shape and order"));
  EXPECT_THAT(fault_of("cnumpy.core.multiarray\nscalar\n)R."), HasSubstr("a NumPy scalar without type and data"));
  EXPECT_THAT(fault_of("cnumpy.core.multiarray\n_reconstruct\n)R."), HasSubstr("an array without shape"));
  EXPECT_THAT(fault_of("cnumpy.core.multiarray\n_reconstruct\n)R(NNNNNtb."), HasSubstr("None instead of a dtype"));
}

// Encoded data has more bytes than the array, but not any number of them: many small arrays that shared large data
// would take quadratic time.
TEST(NumpyValues, EncodedDataIsLimitedByTheArray) {
  const auto text = [](size_t characters) {
    return "c_codecs\nencode\n(V" + std::string(characters, 'x') + "\nVlatin1\ntR";
  };
  EXPECT_THAT(fault_of(array(dtype("u1"), "(I4\nt", text(4))), "");
  EXPECT_THAT(fault_of(array(dtype("u1"), "(I4\nt", text(40))), HasSubstr("an array u1 [4] has 40 bytes of data"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(I4\nt", text(41))), HasSubstr("an array u1 [4] has 41 bytes of data"));
  EXPECT_THAT(fault_of(array(dtype("u1"), "(I4\nt", text(3))), HasSubstr("an array u1 [4] has 3 bytes of data"));
}

TEST(NumpyValues, ByteStringsHaveManyForms) {
  for (const std::string& form :
       {"C\2\1\xff."s, "U\2\1\xff."s, "S'\\x01\\xff'\n."s, "\x96\2\0\0\0\0\0\0\0\1\xff."s,
        "c_codecs\nencode\nX\3\0\0\0\1\xc3\xbfX\7\0\0\0latin-1\x86R."s, "c__builtin__\nbytes\n(C\2\1\xfftR."s,
        "cbuiltins\nbytearray\n(C\2\1\xfftR."s, "c__builtin__\nbytearray\n(V\1\xff\nS'latin-1'\ntR."s}) {
    EXPECT_EQ(show(*parse(form)), "b01ff");
  }
  EXPECT_EQ(show(*parse("c__builtin__\nbytes\n)R.")), "b");
  const auto fault = [](const std::string& text) {
    const auto held = parse(text);
    const auto found = pickled_bytes(held->pickle(), held->pickle().root());
    return found.ok() ? found.value() ? "bytes" : "something else" : found.error().message;
  };
  EXPECT_EQ(fault("Vtext\n."), "something else");
  EXPECT_EQ(fault("c__builtin__\nbytes\n(I5\ntR."), "something else");
  EXPECT_THAT(fault("c_codecs\nencode\n(Va\nVutf-8\ntR."), HasSubstr("in the encoding utf-8; only latin-1 is read"));
  EXPECT_THAT(fault("c_codecs\nencode\n(I1\nVlatin1\ntR."), HasSubstr("an integer in the encoding latin1"));
  EXPECT_THAT(fault("c_codecs\nencode\n(Va\nI1\ntR."), HasSubstr("an integer instead of a text"));
  EXPECT_THAT(fault("c_codecs\nencode\n)R."), HasSubstr("is made in a way that is not read"));
}

}  // namespace
}  // namespace xrun::runtime
