#include "runtime/formats/records/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/data_files.h"
#include "tests/runtime/formats/records/record_bytes.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using RecordFiles = Files;

std::vector<Bytes> visited(const RecordFile& file) {
  std::vector<Bytes> offsets;
  const Status done = visit_records(file, nullptr, [&](const RecordHead& head) -> Status {
    offsets.push_back(head.why.empty() ? head.offset : -head.offset);
    return {};
  });
  EXPECT_TRUE(done.ok()) << done.error().message;
  return offsets;
}

TEST_F(RecordFiles, HeadsSayTheKindOfARecord) {
  const std::string first = image_record(3, 7, "picture");
  const std::string list = record_of(image_contents({5, 6}, 8, "picture"));
  const std::string range = record_of(image_contents({5, 6}, 9, ""));
  // The id is the magic, at a multiple of 4, so that the header itself is cut.
  const std::string cut = record_of(image_contents({1}, 0xced7230a, "picture"));
  const std::string tiny = record_of("abc");
  const auto file = RecordFile::open(write("a.rec", first + list + range + cut + tiny)).value();
  RecordHeads heads(*file);
  Bytes at = 0;
  const auto next = [&] {
    const RecordHead head = heads.at(at).value();
    EXPECT_EQ(file->head(at)->next, head.next);
    at = head.next;
    return head;
  };
  RecordHead head = next();
  EXPECT_EQ(head.label, 3);
  EXPECT_EQ(head.id, 7u);
  EXPECT_FALSE(head.is_range);
  head = next();
  EXPECT_EQ(head.label, 5);
  EXPECT_EQ(head.labels, 2);
  EXPECT_FALSE(head.is_range) << "a picture follows the labels";
  EXPECT_TRUE(next().is_range);
  head = next();
  EXPECT_EQ(head.id, 0xced7230au);
  EXPECT_EQ(head.label, 1);
  EXPECT_THAT(next().why, HasSubstr("shorter than the header"));
  EXPECT_EQ(at, file->size());
}

TEST_F(RecordFiles, ADamagedStretchIsPassedOver) {
  const std::string record = image_record(1, 1, std::string(100, 'x'));
  const auto size = static_cast<Bytes>(record.size());
  const auto open = [&](const std::string& bytes) { return RecordFile::open(write("a.rec", bytes)).value(); };
  EXPECT_THAT(visited(*open(record + record + record)), ElementsAre(0, size, 2 * size));
  std::string damaged = record + record + record;
  damaged[static_cast<size_t>(size)] = 'x';
  EXPECT_THAT(visited(*open(damaged)), ElementsAre(0, -size, 2 * size));
  // A wrong length leads into the middle of a record, and from there to the next one.
  damaged = record + record + record;
  damaged[4] += 8;
  EXPECT_THAT(visited(*open(damaged)), ElementsAre(0, -(size + 8), 2 * size));
  // The window of 64 KiB ends within the damaged stretch, at each phase.
  for (size_t zeros = 65'400; zeros < 65'680; zeros += 4) {
    const auto file = open(record + std::string(zeros, '\0') + record);
    ASSERT_THAT(visited(*file), ElementsAre(0, -size, size + static_cast<Bytes>(zeros)));
  }
}

TEST_F(RecordFiles, ATruncatedFileIsRefusedWithTheOffset) {
  const std::string record = image_record(1, 1, "four");
  std::string file = record + record;
  file.resize(file.size() - 5);
  const auto cut = RecordFile::open(write("a.rec", file)).value();
  const Status done = visit_records(*cut, nullptr, [](const RecordHead&) { return Status(); });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, "XG0412");
  EXPECT_THAT(done.error().message, HasSubstr("a.rec: the record at byte 36 is cut short: it ends at byte 72, but the "
                                              "file has 67"));
  std::vector<std::byte> to;
  EXPECT_THAT(cut->read(36, 0, to).error().message, HasSubstr("cut short"));
  EXPECT_THAT(cut->read(64, 36, to).error().message, HasSubstr("at byte 64"));
  EXPECT_THAT(cut->read(4, 36, to).error().message, HasSubstr("no record begins at byte 4"));
  EXPECT_EQ(cut->read(0, 1'000, to)->contents.size(), 28u);
  EXPECT_EQ(cut->read(0, 8, to)->contents.size(), 28u) << "a wrong guess of the size costs another read";

  EXPECT_THAT(RecordFile::open(write("empty.rec", "")).error().message, HasSubstr("is empty"));
  EXPECT_THAT(RecordFile::open(write("text.rec", "hello, world")).error().message, HasSubstr("not a file of records"));
  EXPECT_EQ(RecordFile::open((root_ / "gone.rec").string()).error().code, "XG0401");
  EXPECT_EQ(RecordFile::open(root_.string()).error().code, "XG0401");
}

TEST_F(RecordFiles, ARecordOfManyPiecesIsRead) {
  std::string contents = image_contents({1}, 1, "");
  for (int i = 0; i < 20'000; ++i) {
    contents += kMagicBytes;
  }
  const auto file = RecordFile::open(write("a.rec", record_of(contents) + record_of("last"))).value();
  std::vector<std::byte> to;
  const auto record = file->read(0, 0, to).value();
  EXPECT_EQ(record.contents.size(), contents.size());
  EXPECT_EQ(std::memcmp(record.contents.data(), contents.data(), contents.size()), 0);
  EXPECT_EQ(visited(*file).size(), 2u);
}

}  // namespace
}  // namespace xrun::runtime
