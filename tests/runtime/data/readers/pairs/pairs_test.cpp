#include "runtime/data/readers/pairs/pairs.h"

#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>
#include <zlib.h>

#include "runtime/data/open_reader.h"
#include "runtime/data/readers/pairs/pair_list.h"
#include "runtime/data/readers/pairs/pair_set.h"
#include "runtime/formats/pictures/decode.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/golden.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using std::string_literals::operator""s;

const std::filesystem::path kFolder = std::filesystem::path(XRUN_SOURCE_DIR) / "tests/runtime/data/files/pairs";

SourceSpec pairs(const std::string& path, const std::string& root = "", const std::string& directory = "") {
  return source("lfw", "pairs", {{"path", path}, {"root", root}}, directory);
}

std::string picture_of(const Reader& reader, int64_t sample) {
  FieldValue value;
  const Status read = reader.read(sample, 0, value);
  EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().message);
  EXPECT_EQ(value.rank, 1);
  EXPECT_EQ(value.dims[0], std::ssize(value.bytes));
  return {reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()};
}

bool is_same(const Reader& reader, int64_t sample) {
  FieldValue value;
  EXPECT_TRUE(reader.read(sample, 1, value).ok());
  EXPECT_EQ(value.dtype, DType::kBool);
  EXPECT_EQ(value.rank, 0);
  return value.bytes[0] != std::byte{0};
}

// Parts of pickles as Python 3 writes them.
std::string bytes(const std::string& data) {
  std::string out = "B";
  for (int shift = 0; shift < 32; shift += 8) {
    out += static_cast<char>(data.size() >> shift);
  }
  return out + data;
}
std::string array(const std::string& type, const std::string& shape, const std::string& data) {
  return "cnumpy._core.numeric\n_frombuffer\n(" + bytes(data) + "cnumpy\ndtype\n(S'" + type + "'\ntR(" + shape +
         "tS'C'\ntR";
}
std::string set_of(const std::string& bins, const std::string& flags) { return "\x80\3((" + bins + "l" + flags + "t."; }
std::string list_of(const std::string& flags) { return "(" + flags + "l"; }

class Pairs : public Files {
 protected:
  // The message of the error with which a file is refused.
  std::string refused(const std::string& content, const char* code = "XG0412") {
    const auto reader = open_reader(pairs(write("t.bin", content)));
    EXPECT_FALSE(reader.ok()) << content;
    EXPECT_EQ(reader.ok() ? "" : reader.error().code, code) << (reader.ok() ? "" : reader.error().message);
    return reader.ok() ? "" : reader.error().message;
  }
};

TEST_F(Pairs, EachWriterAndProtocolGivesTheSamePictures) {
  std::vector<std::string> pictures;
  for (int i = 0; i < 4; ++i) {
    pictures.push_back(test::read_source_file("tests/runtime/data/files/pairs/" + std::to_string(i) + ".jpg"));
    ASSERT_TRUE(read_picture_header(std::as_bytes(std::span(pictures.back()))).ok());
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".bin" && name != "pairs.txt") {
      continue;
    }
    ++files;
    const auto reader = open_reader(pairs(entry.path().string()));
    ASSERT_TRUE(reader.ok()) << name << ": " << reader.error().message;
    ASSERT_EQ(reader.value()->samples(), 4) << name;
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(picture_of(*reader.value(), i), pictures[static_cast<size_t>(i)]) << name << " " << i;
      EXPECT_EQ(is_same(*reader.value(), i), i < 2) << name << " " << i;
    }
  }
  EXPECT_EQ(files, 14);
}

TEST_F(Pairs, ASourceSaysWhatItHolds) {
  for (const auto& open : {open_header, +[](const SourceSpec& spec) { return open_reader(spec); }}) {
    const auto reader = open(pairs("python3_bytes_p3.bin", "", kFolder.string())).value();
    EXPECT_EQ(reader->describe(), "pairs: 2 pairs, 1 of the same person");
    EXPECT_EQ(reader->sample_name(3), "python3_bytes_p3.bin pair 2, picture 2 (bins[3])");
    EXPECT_EQ(reader->classes(), 0);
    EXPECT_EQ(reader->class_name(0), "");
    EXPECT_EQ(reader->find_field("jpeg"), 0);
    EXPECT_EQ(reader->find_field("same"), 1);
    const int file = reader->find_field("file");
    EXPECT_TRUE(reader->fields()[static_cast<size_t>(file)].encoded);
    FieldValue value;
    ASSERT_TRUE(reader->read(0, file, value).ok());
    EXPECT_EQ(value.bytes.size(), 198u);
    EXPECT_TRUE(reader->fields()[0].encoded);
    EXPECT_EQ(reader->fields()[1].type.dims, std::vector<int64_t>{kBatch});
    EXPECT_TRUE(reader->listing().empty());
    EXPECT_EQ(picture_of(*reader, 0).size(), 198u) << "headers also have pictures";
  }
  const auto list = open_reader(pairs((kFolder / "pairs.txt").string())).value();
  EXPECT_EQ(list->sample_name(2), "pairs.txt pair 2, picture 1 (2.jpg)");
}

TEST_F(Pairs, PicturesStayInTheFile) {
  const std::string big = bytes(std::string(2'000'000, 'x'));
  const auto reader = open_reader(pairs(write("big.bin", set_of(big + big, list_of("I01\n"))))).value();
  EXPECT_LT(reader->memory(), 1000);
  EXPECT_EQ(picture_of(*reader, 1).size(), 2'000'000u);
}

TEST_F(Pairs, ManyThreadsReadAtOnce) {
  std::string bins, flags;
  for (int i = 0; i < 200; ++i) {
    bins += bytes(std::string(static_cast<size_t>(100 + 37 * i), static_cast<char>(i)));
    flags += i % 2 == 0 ? (i % 4 == 0 ? "\x88" : "\x89") : "";
  }
  const auto reader = open_reader(pairs(write("many.bin", set_of(bins, list_of(flags))))).value();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      FieldValue value;
      for (int64_t n = 0; n < 2000; ++n) {
        const int64_t sample = (n * 7 + t * 53) % 200;
        const bool ok = reader->read(sample, 0, value).ok() && std::ssize(value.bytes) == 100 + 37 * sample &&
                        value.bytes.back() == static_cast<std::byte>(sample);
        wrong += ok ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(Pairs, FlagsHaveManyForms) {
  const std::string four = bytes("a") + bytes("b") + bytes("c") + bytes("d");
  const auto flags = [&](const std::string& form) {
    const auto reader = open_reader(pairs(write("t.bin", set_of(four, form))));
    EXPECT_TRUE(reader.ok()) << reader.error().message;
    return std::vector<bool>{is_same(*reader.value(), 0), is_same(*reader.value(), 3)};
  };
  const std::vector<bool> wanted{true, false};
  EXPECT_EQ(flags(list_of("\x88\x89")), wanted);
  EXPECT_EQ(flags("\x88\x89\x86"), wanted) << "a tuple";
  EXPECT_EQ(flags(list_of("I01\nI00\n")), wanted);
  EXPECT_EQ(flags(list_of("K\1K"s + '\0')), wanted);
  EXPECT_EQ(flags(array("b1", "I2\n", "\1\0"s)), wanted);
  EXPECT_EQ(flags(array("<i4", "I2\nI1\n", "\1\0\0\0\0\0\0\0"s)), wanted);
  EXPECT_EQ(flags(list_of(array("u1", "", "\1") + array("b1", "I1\n", "\0"s))), wanted);
}

TEST_F(Pairs, PicturesHaveManyForms) {
  const std::string flags = list_of("\x88");
  const auto picture = [&](const std::string& bins) {
    const auto reader = open_reader(pairs(write("t.bin", set_of(bins, flags))));
    EXPECT_TRUE(reader.ok()) << reader.error().message;
    return picture_of(*reader.value(), 1);
  };
  EXPECT_EQ(picture(bytes("xyz") + "2"), "xyz") << "one picture twice";
  EXPECT_EQ(picture(bytes("a") + array("u1", "I3\n", "xyz")), "xyz");
  EXPECT_EQ(picture(bytes("a") + array("u1", "I3\nI1\n", "xyz")), "xyz");
  EXPECT_EQ(picture(bytes("a") + array("u1", "I1\nI3\n", "xyz")), "xyz");
  EXPECT_EQ(picture(bytes("a") + "c__builtin__\nbytearray\n(" + bytes("xyz") + "tR"), "xyz");
  EXPECT_EQ(picture(bytes("a") + "c__builtin__\nbytes\n)R"), "") << "the decoder refuses an empty picture";
}

TEST_F(Pairs, FilesWithOtherContentAreRefused) {
  const std::string two = bytes("a") + bytes("b");
  EXPECT_THAT(refused("\x80\2K\5."), HasSubstr("the pickle holds an integer, not a pair of bins and issame"));
  EXPECT_THAT(refused("\x80\2]."), HasSubstr("the pickle holds other values"));
  EXPECT_THAT(refused("\x80\2]]]\x87."), HasSubstr("the pickle holds other values"));
  EXPECT_THAT(refused("\x80\2K\1]\x86."), HasSubstr("the pickle holds other values"));
  EXPECT_THAT(refused(set_of(two + bytes("c"), list_of("\x88"))), HasSubstr("it has 3 pictures, which is not two for"));
  EXPECT_THAT(refused(set_of(two, list_of("\x88\x88"))), HasSubstr("2 pictures need 1 flags, but issame has 2"));
  EXPECT_THAT(refused(set_of(two, array("b1", "I3\n", "\1\1\1"))), HasSubstr("need 1 flags, but issame has 3"));
  EXPECT_THAT(refused(set_of(two, list_of("K\2"))), HasSubstr("issame[0] is 2; flags are True and False"));
  EXPECT_THAT(refused(set_of(two, array("i1", "I1\n", "\xff"))), HasSubstr("issame[0] is -1"));
  EXPECT_THAT(refused(set_of(two, list_of("N"))), HasSubstr("issame[0] is None, not True or False"));
  EXPECT_THAT(refused(set_of(two, list_of(array("u1", "I2\n", "\1\1")))), HasSubstr("issame[0] is an object"));
  EXPECT_THAT(refused(set_of(two, "N")), HasSubstr("issame is None, not a list or an array"));
  EXPECT_THAT(refused(set_of(two, array("f4", "I1\n", "\0\0\0\0"s))), HasSubstr("where bools or whole numbers"));
  EXPECT_THAT(refused(set_of(bytes("a") + "N", list_of("\x88"))), HasSubstr("bins[1] is None, not an encoded picture"));
  EXPECT_THAT(refused(set_of(array("u1", "I2\nI2\n", "abcd") + "2", list_of("\x88"))),
              HasSubstr("bins[0] is an array u1 [2, 2]; a picture must be encoded (JPEG, PNG)"));
  EXPECT_THAT(refused(set_of(array("i1", "I4\n", "abcd") + "2", list_of("\x88"))), HasSubstr("an array i1 [4]"));
  EXPECT_THAT(refused(set_of(array("u1", "", "a") + "2", list_of("\x88"))), HasSubstr("an array u1 []"));
  EXPECT_THAT(refused(set_of("", list_of("")), "XG0406"), HasSubstr("source `lfw` has no samples"));
  for (const char* other : {"", "a text without columns", "\xff\xd8\xff\xe0 a picture"}) {
    EXPECT_THAT(refused(other), HasSubstr("t.bin is neither a verification set nor a list of pairs"));
  }
  const std::string whole = test::read_source_file("tests/runtime/data/files/pairs/numpy2_arrays_p5.bin");
  for (size_t length = 1; length < whole.size(); length += 13) {
    EXPECT_THAT(refused(whole.substr(0, length)), HasSubstr("t.bin: offset ")) << length;
  }
  EXPECT_EQ(open_reader(pairs((root_ / "gone.bin").string())).error().code, "XG0401");
  EXPECT_EQ(open_reader(pairs(root_.string())).error().code, "XG0401");
}

TEST_F(Pairs, AFunctionThatASetDoesNotNeedIsRefusedWithAWayToConvertTheFile) {
  const std::string content = "\x80\2(cposix\nsystem\nX\4\0\0\0echo\x85Rt."s;
  EXPECT_THAT(refused(content, "XG0407"), HasSubstr("t.bin names the function `posix.system` at offset 3"));
  const auto reader = open_reader(pairs(write("t.bin", content)));
  EXPECT_THAT(reader.error().help, HasSubstr("[bytes(b) for b in bins]"));
  EXPECT_EQ(exit_code(reader.error().kind), 1);
}

TEST_F(Pairs, APictureThatCannotBeReadIsABrokenSample) {
  const auto path = write("t.bin", set_of("c_codecs\nencode\n(V\\u0100\nVlatin1\ntR" + bytes("b"), list_of("\x88")));
  const auto reader = open_reader(pairs(path)).value();
  FieldValue value;
  Status read = reader->read(0, 0, value);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, "XG0412");
  EXPECT_EQ(read.error().message, "is not stored as a byte string");
  EXPECT_EQ(picture_of(*reader, 1), "b");
  std::filesystem::resize_file(path, 10);
  read = reader->read(1, 0, value);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, "XG0412");
  EXPECT_THAT(read.error().message, HasSubstr("became shorter"));

  const auto list = open_reader(pairs(write("l.txt", "t.bin\tgone.jpg\t1\n"))).value();
  EXPECT_EQ(picture_of(*list, 0).size(), 10u);
  read = list->read(1, 0, value);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, "XG0412");
  EXPECT_THAT(read.error().message, HasSubstr("No such file"));
}

TEST_F(Pairs, AListNamesFilesBelowItsRoot) {
  write("data/a b.jpg", "A");
  write("data/c.jpg", "C");
  write("lists/d.jpg", "D");
  const auto list = write("lists/l.txt",
                          "\xEF\xBB\xBF\r\n"
                          "a b.jpg\tc.jpg\t1\r\n\n"
                          "c.jpg\ta b.jpg\tFalse");
  for (const auto& spec : {pairs(list, (root_ / "data").string()), pairs("lists/l.txt", "data", root_.string())}) {
    const auto reader = open_reader(spec).value();
    ASSERT_EQ(reader->samples(), 4);
    EXPECT_EQ(picture_of(*reader, 0), "A");
    EXPECT_EQ(picture_of(*reader, 3), "A");
    EXPECT_TRUE(is_same(*reader, 1));
    EXPECT_FALSE(is_same(*reader, 2));
  }
  const auto here = open_reader(pairs(write("lists/s.txt", "d.jpg ../data/c.jpg 1\n"))).value();
  EXPECT_EQ(picture_of(*here, 0), "D") << "without a root, paths start at the folder of the list";
  EXPECT_EQ(picture_of(*here, 1), "C");
  EXPECT_GT(here->memory(), 20);

  const std::string packed = (root_ / "lists/z.txt.gz").string();
  const gzFile file = gzopen(packed.c_str(), "wb");
  gzputs(file, "d.jpg\td.jpg\t0\n");
  gzclose(file);
  EXPECT_EQ(picture_of(*open_reader(pairs(packed)).value(), 1), "D");

  const gzFile set = gzopen(packed.c_str(), "wb");
  gzputs(set, "((lp0\n");
  gzclose(set);
  EXPECT_THAT(open_reader(pairs(packed)).error().message, HasSubstr("z.txt.gz is compressed by gzip"));
}

TEST_F(Pairs, AListWithoutAnyFileThatExistsIsRefused) {
  write("crops/b.jpg", "B");
  const std::string list = write("l.txt", "a.jpg\tb.jpg\t1\n");
  EXPECT_TRUE(open_reader(pairs(list, "crops", root_.string())).ok());
  for (const auto& open : {open_header, +[](const SourceSpec& spec) { return open_reader(spec); }}) {
    for (const std::string root : {"", "corps"}) {
      const auto wrong = open(pairs(list, root, root_.string()));
      ASSERT_FALSE(wrong.ok());
      EXPECT_EQ(wrong.error().code, "XG0401");
      EXPECT_THAT(wrong.error().message,
                  HasSubstr("2 of 2 were examined, the first is " + (root_ / root / "a.jpg").string()));
      EXPECT_THAT(wrong.error().help, HasSubstr("root="));
    }
  }
}

TEST_F(Pairs, ASetWithPairsOfOneKindCausesAWarning) {
  const auto warnings = [&](const std::string& flags) {
    std::string text;
    for (const char flag : flags) {
      text += "a.jpg\tb.jpg\t" + std::string(1, flag) + "\n";
    }
    std::string found;
    for (const Error& warning : open_reader(pairs(write("t.txt", text))).value()->warnings()) {
      found += warning.code + " " + warning.message;
    }
    return found;
  };
  write("a.jpg", "A");
  EXPECT_EQ(warnings("101"), "");
  EXPECT_EQ(warnings("111"), "XG0443 all 3 pairs show the same person");
  EXPECT_EQ(warnings("1"), "XG0443 the only pair shows the same person");
  EXPECT_EQ(warnings("00"), "XG0443 all 2 pairs show different persons");
}

TEST_F(Pairs, FaultsOfAListHaveTheirLine) {
  EXPECT_THAT(refused("10\t300\na\t1\t2\n"), HasSubstr("t.bin:1: 2 columns instead of 3"));
  EXPECT_THAT(refused("a\tb\t1\n\na\tb\tc\td\n"), HasSubstr("t.bin:3: 4 columns instead of 3"));
  EXPECT_THAT(refused("a\tb\t1\na\tb\t2\n"), HasSubstr("t.bin:2: `2` is neither 1 nor 0"));
  EXPECT_THAT(refused("a\tb\t1\n\tb\t1\n"), HasSubstr("t.bin:2: a path is empty"));
  EXPECT_THAT(refused("a b 1\na  b 1\n"), HasSubstr("t.bin:2: 4 columns"));
}

TEST_F(Pairs, FirstBytesDecideBetweenSetAndList) {
  const auto is_list = [](const std::string& text) { return is_pair_list(std::as_bytes(std::span(text))); };
  EXPECT_TRUE(is_list("a\tb\t1"));
  EXPECT_TRUE(is_list("\n\n\xEF\xBC\x91 b 0\nx"));
  EXPECT_TRUE(is_list("10\t300\n"));
  EXPECT_FALSE(is_list(""));
  EXPECT_FALSE(is_list("((lp0\nS'a\tb'\n"));
  EXPECT_FALSE(is_list("((S'a b'\n"));
  EXPECT_FALSE(is_list("\x80\2]q\1(U\1 \t"));
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".bin") {
      EXPECT_FALSE(is_list(test::read_source_file(entry.path().lexically_relative(XRUN_SOURCE_DIR).string())));
    }
  }
}

TEST_F(Pairs, OpeningEndsAfterAStopRequest) {
  const std::atomic<bool> stop{true};
  for (const std::string& content : {set_of(bytes("a") + "2", list_of("\x88")), "a\tb\t1\n"s}) {
    const auto stopped = open_reader(pairs(write("t.bin", content)), &stop);
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
  }
}

}  // namespace
}  // namespace xrun::runtime
