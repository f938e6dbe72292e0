#include "runtime/data/readers/recordio/recordio.h"

#include <atomic>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <sstream>
#include <thread>

#include "runtime/data/open_reader.h"
#include "runtime/formats/pictures/decode.h"
#include "tests/runtime/data/data_files.h"
#include "tests/runtime/formats/records/record_bytes.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

using Records = Files;

SourceSpec recordio(const std::string& path, Attrs args = {}) {
  args.set("path", path);
  return source("train", "recordio", std::move(args));
}
std::string made_file(const std::string& name) {
  return std::string(XRUN_SOURCE_DIR) + "/tests/runtime/data/files/recordio/" + name;
}

std::vector<float> labels_of(const Reader& reader, int64_t sample) {
  FieldValue value;
  EXPECT_TRUE(reader.read(sample, reader.find_field("labels"), value).ok());
  std::vector<float> labels(static_cast<size_t>(value.dims[0]));
  std::memcpy(labels.data(), value.bytes.data(), labels.size() * sizeof(float));
  return labels;
}
int64_t id_of(const Reader& reader, int64_t sample) {
  FieldValue value;
  EXPECT_TRUE(reader.read(sample, reader.find_field("id"), value).ok());
  return *reinterpret_cast<const int64_t*>(value.bytes.data());
}
std::string picture_of(const Reader& reader, int64_t sample) {
  FieldValue value;
  const Status read = reader.read(sample, 0, value);
  EXPECT_TRUE(read.ok()) << read.error().message;
  return {reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()};
}
Error error_of(const SourceSpec& spec) {
  const auto reader = open_reader(spec);
  EXPECT_FALSE(reader.ok());
  return reader.ok() ? Error() : reader.error();
}
Error label_error(const Reader& reader, int64_t sample) {
  FieldValue value;
  const Status read = reader.read(sample, 1, value);
  EXPECT_FALSE(read.ok());
  return read.ok() ? Error() : read.error();
}

// Compares the reader with the lines that MXNet's own reader wrote: labels, ids and pixels of each picture.
void expect_as_mxnet(const Reader& reader, const std::string& folder, bool with_lists = true) {
  std::ifstream lines(made_file(folder + "/expected.txt"));
  int64_t sample = 0;
  for (std::string line; std::getline(lines, line); ++sample) {
    ASSERT_LT(sample, reader.samples());
    std::istringstream words(line);
    int64_t key = 0;
    int64_t id = 0;
    std::string labels;
    std::string pixels;
    words >> key >> id >> labels >> pixels;
    EXPECT_EQ(id_of(reader, sample), id);
    if (with_lists) {
      EXPECT_EQ(fmt::format("{}", fmt::join(labels_of(reader, sample), ",")), labels);
    }
    EXPECT_EQ(label_of(reader, sample), std::stoi(labels));
    std::vector<uint8_t> decoded;
    const std::string file = picture_of(reader, sample);
    const auto size = decode_picture(std::as_bytes(std::span(file)), {.channels = 3}, decoded);
    ASSERT_TRUE(size.ok());
    std::string hex;
    for (const uint8_t byte : decoded) {
      hex += fmt::format("{:02x}", byte);
    }
    EXPECT_EQ(hex, pixels) << "key " << key;
  }
  EXPECT_EQ(sample, reader.samples());
  EXPECT_GT(sample, 3);
}

TEST(RecordSets, AHeaderAndIdentitiesByInsightFaceAreNoSamples) {
  const auto reader = open_reader(recordio(made_file("made/train.rec"))).value();
  EXPECT_EQ(reader->samples(), 5);
  EXPECT_EQ(reader->classes(), 3) << "by `property`";
  EXPECT_EQ(reader->describe(), "recordio: 5 images, 3 classes; 4 records without a picture left out");
  EXPECT_EQ(reader->fields()[2].type.dims, (std::vector<int64_t>{kBatch, 2}));
  EXPECT_EQ(reader->sample_name(0), "the record at byte 40 of " + made_file("made/train.rec"));
  expect_as_mxnet(*reader, "made");
  const auto header = open_header(recordio(made_file("made/train.rec"))).value();
  EXPECT_EQ(header->samples(), 5);
  EXPECT_EQ(header->classes(), 3);
  EXPECT_EQ(header->memory(), reader->memory());
}

TEST(RecordSets, ASetByIm2recIsReadWithItsList) {
  const auto reader = open_reader(recordio(made_file("im2rec/train.rec"))).value();
  EXPECT_EQ(reader->classes(), 3);
  EXPECT_THAT(reader->describe(), HasSubstr("4 images, 3 classes (labels of "));
  expect_as_mxnet(*reader, "im2rec");
}

TEST(RecordSets, ASetByRecBuilderHasNoHeader) {
  const auto reader = open_reader(recordio(made_file("builder/train.rec"))).value();
  EXPECT_EQ(reader->samples(), 4);
  EXPECT_EQ(reader->classes(), 5);
  expect_as_mxnet(*reader, "builder", false);
  FieldValue value;
  EXPECT_THAT(reader->read(3, 2, value).error().message, HasSubstr("2 labels, but the first record has 1"));
}

// The order and contents of samples do not depend on the index, so that a run continues without it.
TEST(RecordSets, WithoutAnIndexTheSamplesAreTheSame) {
  for (const std::string folder : {"made", "im2rec", "builder"}) {
    const std::string path = made_file(folder + "/train.rec");
    const auto with = open_reader(recordio(path)).value();
    const auto without = open_reader(recordio(path, {{"index", std::string()}, {"list", std::string()}})).value();
    ASSERT_EQ(without->samples(), with->samples());
    EXPECT_EQ(without->classes(), with->classes());
    for (int64_t i = 0; i < with->samples(); ++i) {
      EXPECT_EQ(picture_of(*without, i), picture_of(*with, i));
      EXPECT_EQ(label_of(*without, i), label_of(*with, i));
      EXPECT_EQ(without->sample_name(i), with->sample_name(i));
    }
  }
}

TEST_F(Records, ClassesAreCountedWithoutProperty) {
  std::string file;
  std::string index;
  for (const int label : {4, 0, 2}) {
    index += fmt::format("{}\t{}\n", label, file.size());
    file += image_record(static_cast<float>(label), 0, "picture");
  }
  const std::string path = write("a/train.rec", file);
  EXPECT_EQ(open_reader(recordio(path)).value()->classes(), 5);
  EXPECT_EQ(open_reader(recordio(path, {{"classes", int64_t{9}}})).value()->classes(), 9);
  EXPECT_EQ(error_of(recordio(path, {{"classes", int64_t{4}}})).message, path + " has the label 4, but `classes` is 4");
  write("a/train.idx", index);
  EXPECT_EQ(open_reader(recordio(path)).value()->classes(), 5);
  EXPECT_EQ(open_header(recordio(path)).value()->classes(), 5);
  write("a/property", "7,112,112\n");
  EXPECT_EQ(open_reader(recordio(path)).value()->classes(), 7);
  write("a/property", "4,112,112\n");
  write("a/train.idx", index);
  const auto wrong = open_reader(recordio(path)).value();
  EXPECT_EQ(label_error(*wrong, 0).code, "XG0402");
  EXPECT_THAT(label_error(*wrong, 0).message, HasSubstr("the label 4 does not fit the 4 classes"));
  EXPECT_EQ(label_of(*wrong, 1), 0);
  write("a/property", "seven\n");
  EXPECT_EQ(error_of(recordio(path)).code, "XG0412");

  const std::string far = write("far.rec", image_record(1'000'000, 0, "picture"));
  EXPECT_THAT(error_of(recordio(far)).help, HasSubstr("classes=1000001"));
  write("property", "2000000,112,112\n");
  EXPECT_EQ(open_reader(recordio(far)).value()->classes(), 2'000'000) << "a test of few of the classes";
}

TEST_F(Records, LabelsThatF32DoesNotHoldAreRefusedUnlessAListGivesThem) {
  const std::string path = write("train.rec", image_record(16'777'216, 1, "one") + image_record(3, 2, "two"));
  const Error refused = error_of(recordio(path));
  EXPECT_EQ(refused.code, "XG0405");
  EXPECT_THAT(refused.message, HasSubstr("train.rec: the record at byte 0 has the label 16777216"));
  write("train.idx", fmt::format("1\t0\n2\t{}\n", 36));
  const auto told = open_reader(recordio(path, {{"classes", int64_t{20'000'000}}})).value();
  EXPECT_EQ(label_error(*told, 0).code, "XG0405") << "found when it is read";
  EXPECT_EQ(label_of(*told, 1), 3);
  write("train.lst", "2\t3\ttwo\n1\t16777217.000000\tone\n");
  const auto reader = open_reader(recordio(path, {{"classes", int64_t{20'000'000}}})).value();
  EXPECT_EQ(label_of(*reader, 0), 16'777'217);
  EXPECT_EQ(label_of(*reader, 1), 3);
}

TEST_F(Records, LabelsThatAreNotWholeAreSaidClearly) {
  const std::string path =
      write("train.rec", image_record(0.5, 1, "one") + image_record(1, 2, "two") +
                             image_record(std::nanf(""), 3, "three") + image_record(-1, 4, "four"));
  const auto reader = open_reader(recordio(path)).value();
  EXPECT_EQ(reader->classes(), 2);
  const Error half = label_error(*reader, 0);
  EXPECT_EQ(half.code, "XG0402");
  EXPECT_THAT(half.message, HasSubstr("the label 0.5 is not a whole number"));
  EXPECT_THAT(half.help, HasSubstr("`labels`"));
  EXPECT_EQ(labels_of(*reader, 0), std::vector<float>{0.5f}) << "numbers to predict";
  EXPECT_EQ(label_error(*reader, 2).code, "XG0402");
  EXPECT_EQ(label_of(*reader, 3), -1) << "left to `ignore(-1)`";
}

TEST_F(Records, AnIndexOfAnotherFileIsRefused) {
  std::string file;
  for (int i = 0; i < 8; ++i) {
    file += image_record(static_cast<float>(i), static_cast<uint64_t>(i), std::string(static_cast<size_t>(i), 'x'));
  }
  const std::string path = write("train.rec", file);
  const auto refused = [&](const std::string& index) {
    write("train.idx", index);
    return error_of(recordio(path));
  };
  EXPECT_THAT(refused("0\t0\n1\t4000\n").message, HasSubstr("train.idx has key 1 at byte 4000, but "));
  EXPECT_THAT(refused("0\t0\n1\t9223372036854775804\n").message,
              HasSubstr("train.idx has key 1 at byte 9223372036854775804, but "))
      << "8 bytes after it are beyond the largest number";
  EXPECT_THAT(refused("0\t0\n1\t33\n").message, HasSubstr("key 1 at byte 33"));
  const Error other = refused("0\t0\n1\t48\n2\t96\n3\t200\n");
  EXPECT_THAT(other.message, HasSubstr("train.idx has key 1 at byte 48, where no record of "));
  EXPECT_THAT(other.help, HasSubstr("name the index that was written together with"));
  EXPECT_EQ(refused("").code, "XG0406") << "an empty index names no samples";
  // An index of a part of the records, out of order, is a choice.
  write("train.idx", "3\t104\n0\t0\n");
  EXPECT_EQ(open_reader(recordio(path)).value()->samples(), 2);
}

TEST_F(Records, AListOfAnotherFileIsRefusedWithTheDifference) {
  const std::string path = write("train.rec", image_record(0, 1, "one") + image_record(1, 2, "two"));
  const auto refused = [&](const std::string& list) {
    write("train.lst", list);
    return error_of(recordio(path));
  };
  EXPECT_THAT(refused("1\t0\ta\n3\t1\tb\n").message,
              HasSubstr("train.lst has no line with the key 2, which is that of the record at byte 36 of "));
  const Error differs = refused("1\t0\ta\n2\t5\tb\n");
  EXPECT_THAT(differs.message, HasSubstr("gives the key 2 the label 5, but its record at byte 36"));
  EXPECT_THAT(differs.help, HasSubstr("if the list corrects labels, name it"));
  const std::string named = write("corrected.lst", "1\t0\ta\n2\t5\tb\n");
  EXPECT_EQ(label_of(*open_reader(recordio(path, {{"list", named}})).value(), 1), 5);
  EXPECT_EQ(label_of(*open_reader(recordio(path, {{"list", std::string()}})).value(), 1), 1) << "no list";
  write("train.lst", "1\tfaces/a.jpg\t7\n1\tfaces/b.jpg\t8\n");
  const auto faces = open_reader(recordio(path)).value();
  EXPECT_EQ(label_of(*faces, 1), 1) << "a list in InsightFace's own form";
  EXPECT_THAT(faces->describe(), HasSubstr("is not a list by im2rec"));
  EXPECT_EQ(error_of(recordio(path, {{"list", (root_ / "train.lst").string()}})).code, "XG0412") << "it was named";
}

TEST_F(Records, AListMayHaveSeveralLabels) {
  const std::string path = write("train.rec", image_record(2, 1, "one") + image_record(0, 2, "two"));
  write("train.lst", "1\t2.000000\t0.250000\ta\n2\t0.000000\t-1.500000\tb\n");
  const auto reader = open_reader(recordio(path)).value();
  EXPECT_EQ(reader->classes(), 3);
  EXPECT_EQ(label_of(*reader, 0), 2);
  EXPECT_EQ(labels_of(*reader, 0), (std::vector<float>{2, 0.25}));
  EXPECT_EQ(labels_of(*reader, 1), (std::vector<float>{0, -1.5}));
  write("train.lst", "1\t2\ta\n2\t0.000000\tb\n");
  EXPECT_EQ(labels_of(*open_reader(recordio(path)).value(), 0), std::vector<float>{2});
}

TEST_F(Records, ThreadsReadTheSameSamples) {
  std::string file;
  for (int i = 0; i < 500; ++i) {
    file += image_record(static_cast<float>(i), static_cast<uint64_t>(i), std::string(static_cast<size_t>(i), 'x'));
  }
  write("train.idx", "");
  const auto reader = open_reader(recordio(write("train.rec", file), {{"index", std::string()}})).value();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      FieldValue value;
      for (int64_t i = 1; i < 500; ++i) {
        const int64_t sample = t % 2 == 0 ? i : 500 - i;
        const bool ok = reader->read(sample, 0, value).ok() && std::ssize(value.bytes) == sample &&
                        reader->read(sample, 1, value).ok() &&
                        *reinterpret_cast<const int64_t*>(value.bytes.data()) == sample;
        wrong += ok ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(Records, BrokenRecordsAreBrokenSamples) {
  const std::string good = image_record(0, 1, std::string(40, 'x'));
  std::string file = good + good + record_of("tiny") + image_record(1, 1, "") + good;
  const auto size = good.size();
  file[size] = 'x';
  const std::string path = write("train.rec", file);
  write("train.idx", fmt::format("0\t0\n1\t{}\n2\t{}\n3\t{}\n4\t{}\n", size, 2 * size, 2 * size + 12, 2 * size + 44));
  for (const bool with_index : {true, false}) {
    const auto reader = open_reader(with_index ? recordio(path) : recordio(path, {{"index", std::string()}})).value();
    ASSERT_EQ(reader->samples(), 5);
    FieldValue value;
    for (const int64_t broken : {1, 2, 3}) {
      EXPECT_EQ(reader->read(broken, 0, value).error().code, "XG0412");
    }
    EXPECT_THAT(reader->read(1, 0, value).error().message, HasSubstr(fmt::format("no record begins at byte {}", size)));
    EXPECT_EQ(label_error(*reader, 1).code, "XG0412");
    EXPECT_THAT(reader->read(3, 0, value).error().message, HasSubstr("no picture"));
    EXPECT_EQ(picture_of(*reader, 4), std::string(40, 'x'));
  }
}

TEST_F(Records, SeveralFilesFollowOneAnother) {
  write("s-08.rec", image_record(0, 1, "one") + image_record(1, 2, "two"));
  write("s-09.rec", image_record(2, 3, "three"));
  write("s-10.rec", image_record(3, 4, "four"));
  write("s-10.idx", "4\t0\n");
  const std::string path = (root_ / "s-{08..10}.rec").string();
  const auto reader = open_reader(recordio(path)).value();
  ASSERT_EQ(reader->samples(), 4);
  EXPECT_EQ(reader->classes(), 4);
  EXPECT_EQ(picture_of(*reader, 1), "two");
  EXPECT_EQ(picture_of(*reader, 2), "three");
  EXPECT_EQ(picture_of(*reader, 3), "four");
  EXPECT_THAT(reader->sample_name(3), HasSubstr("s-10.rec"));
  EXPECT_EQ(error_of(recordio(path, {{"index", std::string("s.idx")}})).code, "XG0413");
  write("s-10.lst", "4\t3\t0.5\tfour\n");
  FieldValue value;
  const auto two_labels = open_reader(recordio(path)).value();
  EXPECT_EQ(two_labels->read(3, 2, value).error().code, "XG0412") << "the other files have one label";
  EXPECT_EQ(label_of(*two_labels, 3), 3);
  EXPECT_EQ(error_of(recordio((root_ / "s-{08..11}.rec").string())).code, "XG0401");
}

// Plans open headers: of a large set without `property` only the index is read.
TEST_F(Records, HeadersOfLargeSetsLeaveTheLabelsUnread) {
  const std::string record = image_record(1, 1, "picture");
  std::string file;
  std::string index;
  for (int i = 0; i < 70'000; ++i) {
    index += fmt::format("{}\t{}\n", i, file.size());
    file += record;
  }
  const std::string path = write("train.rec", file);
  write("train.idx", index);
  const auto header = open_header(recordio(path)).value();
  EXPECT_EQ(header->samples(), 70'000);
  EXPECT_EQ(header->classes(), 0);
  EXPECT_EQ(header->fields()[1].type.classes, 0) << "which fits any head";
  const auto reader = open_reader(recordio(path)).value();
  EXPECT_EQ(reader->classes(), 2);
  EXPECT_EQ(reader->memory(), header->memory()) << "of the whole source";
}

}  // namespace
}  // namespace xrun::runtime
