// Sources of arrays that NumPy wrote: shapes, types and labels, and the arguments that files do not fit.
#include "runtime/data/readers/npy/npy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/data/open_reader.h"
#include "runtime/formats/tensors/npy.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::source;
using NpyReader = testing::Files;

const std::string kFolder = XRUN_SOURCE_DIR "/tests/runtime/data/files/npy/numpy2";

SourceSpec npy(const std::vector<std::string>& paths, Attrs more = {}) {
  Attrs args{{"path", paths}, {"layout", std::string("row")}};
  for (const auto& [name, value] : more.all()) {
    args.set(name, value);
  }
  return source("train", "npy", std::move(args), kFolder);
}
std::vector<std::string> texts(const std::string& one) { return {one}; }
AttrValue word(const char* text) { return std::string(text); }

std::unique_ptr<Reader> open(const SourceSpec& spec) {
  auto reader = open_reader(spec);
  EXPECT_TRUE(reader.ok()) << reader.error().message << reader.error().help;
  return reader.ok() ? std::move(reader).value() : nullptr;
}

void expect_fault(const SourceSpec& spec, const char* code, const std::string& message, const std::string& help) {
  const auto reader = open_reader(spec);
  ASSERT_FALSE(reader.ok()) << message;
  EXPECT_EQ(reader.error().code, code);
  EXPECT_THAT(reader.error().message, HasSubstr(message));
  EXPECT_THAT(reader.error().help, HasSubstr(help));
  EXPECT_EQ(reader.error().kind, ErrorKind::kContent);
}

template <class T>
std::vector<double> numbers(const FieldValue& value) {
  const auto* from = reinterpret_cast<const T*>(value.bytes.data());
  EXPECT_EQ(value.bytes.size(), static_cast<size_t>(value.elements()) * sizeof(T));
  return {from, from + value.elements()};
}

std::vector<double> numbers_of(const FieldValue& value) {
  switch (value.dtype) {
    case DType::kU8:
      return numbers<uint8_t>(value);
    case DType::kI32:
      return numbers<int32_t>(value);
    case DType::kI64:
      return numbers<int64_t>(value);
    case DType::kF64:
      return numbers<double>(value);
    default:
      EXPECT_EQ(value.dtype, DType::kF32);
      return numbers<float>(value);
  }
}

std::vector<double> read_value(const Reader& reader, int64_t sample) {
  FieldValue value;
  const Status done = reader.read(sample, 0, value);
  EXPECT_TRUE(done.ok()) << done.error().message;
  return numbers_of(value);
}

std::string label_of(const Reader& reader, int64_t sample) {
  FieldValue value;
  const Status done = reader.read(sample, 1, value);
  return done.ok() ? std::to_string(*reinterpret_cast<const int32_t*>(value.bytes.data())) : done.error().code;
}

std::vector<std::string> labels_of(const Reader& reader) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < reader.samples(); ++i) {
    labels.push_back(label_of(reader, i));
  }
  return labels;
}

// Writes a file of f32 rows in NumPy's order.
std::string rows_file(const std::vector<float>& numbers, int64_t width) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return npy_header({.name = "", .descr = "<f4", .shape = {std::ssize(numbers) / width, width}, .data = bytes}) +
         std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST_F(NpyReader, RowsAndLabelsOfTwoFilesAreSamples) {
  const auto reader = open(npy({"rows.npy"}, {{"labels", texts("labels.npy")}}));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->samples(), 6);
  EXPECT_EQ(reader->classes(), 3);
  EXPECT_EQ(to_text(reader->fields()[0].type), "f32[N, 4]");
  EXPECT_EQ(to_text(reader->fields()[1].type), "index(3)[N]");
  EXPECT_THAT(read_value(*reader, 4), ElementsAre(40, 41, 42, 43));
  EXPECT_THAT(labels_of(*reader), ElementsAre("2", "0", "1", "1", "0", "2"));
  EXPECT_EQ(reader->describe(), "npy: 6 samples of f32 [4], 3 classes");
  EXPECT_EQ(reader->sample_name(4), "sample 4 of " + kFolder + "/rows.npy");
  EXPECT_EQ(reader->memory(), 24);
}

TEST_F(NpyReader, EachTypeHasAFieldThatHoldsItExactly) {
  for (const std::string archive : {"types.npz", "types_packed.npz", "types_big.npz"}) {
    for (const auto& [name, type] : std::vector<std::pair<std::string, std::string>>{{"i1", "i32"},
                                                                                     {"i2", "i32"},
                                                                                     {"i4", "i32"},
                                                                                     {"i8", "i64"},
                                                                                     {"u1", "u8"},
                                                                                     {"u2", "i32"},
                                                                                     {"u4", "i64"},
                                                                                     {"u8", "i64"},
                                                                                     {"f2", "f32"},
                                                                                     {"f4", "f32"},
                                                                                     {"f8", "f64"}}) {
      const auto reader = open(npy({archive}, {{"values", word(name.c_str())}}));
      ASSERT_NE(reader, nullptr);
      EXPECT_EQ(to_text(reader->fields()[0].type), type + "[N, 4]") << name;
      EXPECT_THAT(read_value(*reader, 5), ElementsAre(50, 51, 52, 53)) << archive << " " << name;
      EXPECT_EQ(reader->memory() > 0, archive == "types_packed.npz");
    }
  }
}

TEST_F(NpyReader, PicturesHaveTheirChannelsFirst) {
  const auto first = open(npy({"pictures_first.npy"}, {{"layout", word("chw")}}));
  const auto last = open(npy({"pictures.npy"}, {{"layout", word("hwc")}}));
  const auto fortran = open(npy({"pictures_fortran.npy"}, {{"layout", word("hwc")}}));
  const auto grey = open(npy({"grey.npy"}, {{"layout", word("hw")}}));
  ASSERT_TRUE(first && last && fortran && grey);
  EXPECT_EQ(to_text(first->fields()[0].type), "u8[N, 3, 5, 4]");
  EXPECT_EQ(to_text(last->fields()[0].type), "u8[N, 3, 5, 4]");
  EXPECT_EQ(to_text(fortran->fields()[0].type), "f32[N, 3, 5, 4]");
  EXPECT_EQ(to_text(grey->fields()[0].type), "u8[N, 1, 5, 4]");
  for (int64_t i = 0; i < 3; ++i) {
    const auto planes = read_value(*first, i);
    EXPECT_EQ(read_value(*last, i), planes);
    EXPECT_EQ(read_value(*fortran, i), planes);
    EXPECT_EQ(read_value(*grey, i), std::vector<double>(planes.begin(), planes.begin() + 20));
  }
  EXPECT_THAT(fortran->describe(), HasSubstr("in Fortran's order, which is slow to read"));
}

TEST_F(NpyReader, AnotherNumberOfDimensionsIsRejectedWithTheLayoutsThatFit) {
  expect_fault(npy({"pictures.npy"}), "XG0413", "pictures.npy holds u8 [3, 5, 4, 3], but `layout` is row",
               "channels come last, write layout=\"hwc\"");
  expect_fault(npy({"pictures_first.npy"}), "XG0413", "u8 [3, 3, 5, 4]",
               "write layout=\"chw\" for [samples, channels, height, width], or layout=\"hwc\" for");
  expect_fault(npy({"grey.npy"}), "XG0413", "u8 [3, 5, 4], but `layout` is row: [samples, numbers]",
               "layout=\"matrix\" for [samples, rows, columns], or layout=\"hw\" for [samples, height, width]");
  expect_fault(npy({"labels.npy"}), "XG0413", "i64 [6]", "layout=\"number\"");
  expect_fault(npy({"rows.npy"}, {{"layout", word("nchw")}}), "XG0413", "`layout` is \"nchw\"", "\"hwc\"");
}

TEST_F(NpyReader, RowsSelectSamplesOfAllFiles) {
  const auto reader = open(npy(
      {"rows.npy", "rows_fortran.npy"},
      {{"labels", std::vector<std::string>{"labels.npy", "labels_column.npy"}}, {"rows", std::vector<int64_t>{4, 9}}}));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->samples(), 5);
  EXPECT_THAT(labels_of(*reader), ElementsAre("0", "2", "2", "0", "1"));
  EXPECT_THAT(read_value(*reader, 1), ElementsAre(50, 51, 52, 53));
  EXPECT_THAT(read_value(*reader, 2), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(reader->sample_name(2), HasSubstr("sample 0 of"));
  expect_fault(npy({"rows.npy"}, {{"rows", std::vector<int64_t>{4, 7}}}), "XG0413",
               "`rows` is 4..7, but the arrays have 6 samples", "0..6");
  expect_fault(npy({"rows.npy", "pictures.npy"}), "XG0413", "pictures.npy holds u8 [3, 5, 4, 3]", "hwc");
  expect_fault(npy({"rows.npy", "bf16.npy"}, {{"dtype", word("bf16")}}), "XG0413", "have the type", "leave `dtype`");
}

TEST_F(NpyReader, AnArchiveHasSamplesAndLabelsByName) {
  const auto named = open(npy({"set.npz"}, {{"values", word("x")}, {"labels", texts("y")}}));
  ASSERT_NE(named, nullptr);
  EXPECT_EQ(named->classes(), 3);
  EXPECT_THAT(read_value(*named, 3), ElementsAre(30, 31, 32, 33));
  EXPECT_EQ(label_of(*named, 5), "2");
  EXPECT_EQ(named->sample_name(3), "sample 3 of x in " + kFolder + "/set.npz");
  expect_fault(npy({"set.npz"}, {{"labels", texts("y")}}), "XG0413", "set.npz has several arrays: x, y, z",
               "values=\"x\"");
  expect_fault(npy({"set.npz"}, {{"values", word("X")}}), "XG0413", "set.npz has no array `X`", "x");
  expect_fault(npy({"rows.npy"}, {{"values", word("x")}}), "XG0413", "holds one array", "leave `values` out");
  expect_fault(npy({"rows.npy"}, {{"labels", texts("y")}}), "XG0413", "`labels` is \"y\"", "labels=\"y.npy\"");
  expect_fault(npy({"rows.npy"}, {{"labels", texts("set.npz")}}), "XG0413", "several arrays", ".npy file");
  expect_fault(npy({"rows.npy", "rows.npy"}, {{"labels", texts("labels.npy")}}), "XG0413",
               "`path` names 2 files, but `labels` names 1", "in their order");
}

TEST_F(NpyReader, TextsAreClassesInTheOrderOfTheirBytes) {
  const auto reader = open(npy({"rows.npy"}, {{"labels", texts("names.npy")}}));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->classes(), 4);
  EXPECT_EQ(reader->class_name(0), "apple");
  EXPECT_EQ(reader->class_name(1), "pear");
  EXPECT_EQ(reader->class_name(2), "Äpfel");
  EXPECT_EQ(reader->class_name(3), "𝒢uava");
  EXPECT_THAT(labels_of(*reader), ElementsAre("1", "0", "2", "3", "0", "XG0412"));
  expect_fault(npy({"rows.npy"}, {{"labels", texts("names.npy")}, {"classes", int64_t{10}}}), "XG0413",
               "`classes` is 10, but " + kFolder + "/names.npy has 4 texts", "leave `classes` out");
  const auto bytes = open(npy({"rows.npy"}, {{"labels", texts("names_bytes.npy")}}));
  ASSERT_NE(bytes, nullptr);
  EXPECT_EQ(bytes->class_name(1), "fig");
  EXPECT_THAT(labels_of(*bytes), ElementsAre("2", "0", "1", "1", "0", "2"));
}

TEST_F(NpyReader, WholeFloatsAreLabelsAndNaNIsABrokenSample) {
  const auto reader = open(npy({"rows.npy"}, {{"labels", texts("labels_float.npy")}}));
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(labels_of(*reader), ElementsAre("2", "0", "XG0412", "1", "0", "2"));
  write("x.npy", rows_file({1, 2, 3}, 1));
  write("y.npy", rows_file({0, 1.5, 1}, 1));
  SourceSpec spec = npy({"x.npy"}, {{"labels", texts("y.npy")}});
  spec.directory = root_.string();
  expect_fault(spec, "XG0402", "the label of sample 1 is 1.5, which is not a whole number", "correct it");
}

TEST_F(NpyReader, LabelsThatDoNotFitTheSamplesAreRejected) {
  expect_fault(npy({"pictures.npy"}, {{"layout", word("hwc")}, {"labels", texts("labels.npy")}}), "XG0412",
               "labels.npy: 6 labels for 3 samples in", "write both arrays again");
  expect_fault(npy({"rows.npy"}, {{"labels", texts("one_hot.npy")}}), "XG0412",
               "one_hot.npy holds f64 [6, 3], but labels are [samples]", "y.argmax(1)");
  expect_fault(npy({"rows.npy"}, {{"labels", texts("labels.npy")}, {"classes", int64_t{2}}}), "XG0402",
               "has the label 2, but `classes` is 2", "raise `classes`");
  expect_fault(npy({"names.npy"}, {{"layout", word("number")}}), "XG0412", "names.npy holds texts [6]", "`labels`");
  expect_fault(npy({"none.npy"}), "XG0401", "cannot read", "check the path");
}

TEST_F(NpyReader, ClassesWithoutSamplesAreReported) {
  SourceSpec spec = npy({"rows.npy"}, {{"labels", texts("labels.npy")}, {"rows", std::vector<int64_t>{4, 6}}});
  const auto reader = open(spec);
  ASSERT_EQ(reader->warnings().size(), 1U);
  EXPECT_EQ(reader->warnings()[0].code, "XG0416");
  spec.reader.args.set("classes", int64_t{3});
  EXPECT_TRUE(open(spec)->warnings().empty());
}

TEST_F(NpyReader, ANumberThatIsNotFiniteBreaksItsSampleAlone) {
  write("x.npy", rows_file({1, 2, NAN, 4, 5, -INFINITY}, 2));
  SourceSpec spec = npy({"x.npy"});
  spec.directory = root_.string();
  const auto reader = open(spec);
  ASSERT_NE(reader, nullptr);
  FieldValue value;
  EXPECT_TRUE(reader->read(0, 0, value).ok());
  for (const auto& [sample, what] : {std::pair{1, "number 0 is nan"}, {2, "number 1 is -inf"}}) {
    const Status done = reader->read(sample, 0, value);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, "XG0412");
    EXPECT_THAT(done.error().message, HasSubstr(what));
  }
}

TEST_F(NpyReader, SmallFloatsHaveTheValuesThatTheirWriterStored) {
  const auto bf16 = open(npy({"bf16.npy"}, {{"dtype", word("bf16")}}));
  const auto e4m3 = open(npy({"f8e4m3.npy"}, {{"dtype", word("f8e4m3")}}));
  const auto e5m2 = open(npy({"f8e5m2.npy"}, {{"dtype", word("f8e5m2")}}));
  ASSERT_TRUE(bf16 && e4m3 && e5m2);
  EXPECT_THAT(read_value(*bf16, 5), ElementsAre(50, 51, 52, 53));
  EXPECT_THAT(read_value(*e4m3, 5), ElementsAre(0.25, 0.5, 0.75, 1));
  EXPECT_THAT(read_value(*e5m2, 5), ElementsAre(0.25, 0.5, 0.75, 1));
}

TEST_F(NpyReader, HeadersGiveAllThatAPlanNeeds) {
  const SourceSpec spec = npy({"types_packed.npz"}, {{"values", word("f8")}, {"labels", texts("labels.npy")}});
  const auto header = open_header(spec);
  ASSERT_TRUE(header.ok()) << header.error().message;
  const auto whole = open(spec);
  EXPECT_EQ((*header)->samples(), whole->samples());
  EXPECT_EQ((*header)->memory(), whole->memory());
  EXPECT_EQ((*header)->classes(), 3);
  EXPECT_EQ(label_of(**header, 5), "2");
  EXPECT_EQ(to_text((*header)->fields()[0].type), to_text(whole->fields()[0].type));
}

TEST_F(NpyReader, ReadingAgainAllocatesNothing) {
  const auto reader = open(npy({"pictures_fortran.npy"}, {{"layout", word("hwc")}}));
  FieldValue value;
  ASSERT_TRUE(reader->read(0, 0, value).ok());
  const std::byte* const memory = value.storage.data();
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(reader->read(i, 0, value).ok());
    EXPECT_EQ(value.storage.data(), memory);
  }
}

}  // namespace
}  // namespace xrun::runtime
