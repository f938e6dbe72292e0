#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <zlib.h>

#include "runtime/data/open_reader.h"
#include "runtime/data/readers/csv.h"
#include "runtime/data/readers/idx.h"
#include "runtime/formats/pictures/decode.h"
#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
namespace fs = std::filesystem;

using Readers = Files;

std::string idx(int type, const std::vector<uint32_t>& dims, std::string data) {
  std::string out{'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      out += static_cast<char>(dim >> shift & 0xff);
    }
  }
  return out + data;
}

SourceSpec idx_source(std::string images, std::string labels) {
  return source("train", "idx", {{"images", std::move(images)}, {"labels", std::move(labels)}});
}

TEST_F(Readers, IdxReadsPicturesAndLabels) {
  const auto images = write("i", idx(8, {2, 2, 3}, "abcdefghijkl"));
  const auto labels = write("l", idx(0x0B, {2}, std::string("\0\3\1\0", 4)));
  SourceSpec spec = idx_source(images, labels);
  spec.reader.args.set("classes", int64_t{300});
  const auto reader = open_reader(spec).value();
  EXPECT_EQ(reader->samples(), 2);
  EXPECT_EQ(reader->classes(), 300);
  EXPECT_TRUE(reader->warnings().empty()) << "the text says how many";
  EXPECT_EQ(label_of(*reader, 0), 3);
  EXPECT_EQ(label_of(*reader, 1), 256);
  FieldValue value;
  ASSERT_TRUE(reader->read(1, 0, value).ok());
  EXPECT_EQ(value.dims[1], 2);
  EXPECT_EQ(value.dims[2], 3);
  EXPECT_EQ(std::to_integer<char>(value.bytes[0]), 'g');
}

TEST_F(Readers, IdxFaultsAreRefused) {
  const auto images = write("i", idx(8, {2, 2, 3}, "abcdefghijkl"));
  const auto labels = write("l", idx(8, {2}, "\1\2"));
  const auto refused = [&](const std::string& i, const std::string& l) {
    const auto reader = open_reader(idx_source(i, l));
    EXPECT_FALSE(reader.ok());
    return reader.ok() ? std::string() : reader.error().code;
  };
  EXPECT_EQ(refused(write("short", idx(8, {2, 2, 3}, "abcdefghijk")), labels), "XG0412");
  EXPECT_EQ(refused(write("long", idx(8, {2, 2, 3}, "abcdefghijklm")), labels), "XG0412");
  EXPECT_EQ(refused(write("huge", idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, "a")), labels), "XG0412");
  EXPECT_EQ(refused(write("flat", idx(8, {2}, "ab")), labels), "XG0412");
  EXPECT_EQ(refused(images, write("three", idx(8, {3}, "abc"))), "XG0412");
  EXPECT_EQ(refused(images, write("minus", idx(9, {2}, "\1\xff"))), "XG0412");
  EXPECT_EQ(refused(images, write("real", idx(0x0D, {2}, "12345678"))), "XG0412");
  EXPECT_EQ(refused(images, write("text", "hello")), "XG0412");
  EXPECT_EQ(refused(images, write("empty", "")), "XG0412");
  EXPECT_EQ(refused(images, (root_ / "gone").string()), "XG0401");
  EXPECT_EQ(refused(root_.string(), labels), "XG0401");
  EXPECT_EQ(refused(write("none", idx(8, {0, 2, 3}, "")), write("nothing", idx(8, {0}, ""))), "XG0406");
}

// A label of a hundred million in a file of 88 bytes must not make as many classes.
TEST_F(Readers, AHugeIdxLabelDoesNotSetTheNumberOfClasses) {
  const auto images = write("i", idx(8, {5, 1, 1}, "abcde"));
  const auto open = [&](const std::string& labels, int64_t classes, std::string name = "train") {
    SourceSpec spec = idx_source(images, labels);
    spec.name = std::move(name);
    if (classes > 0) {
      spec.reader.args.set("classes", classes);
    }
    return open_reader(spec);
  };
  const auto far = write("far", idx(0x0C, {5}, std::string("\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0\3\5\xf5\xe1\0", 20)));
  const auto refused = open(far, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0402");
  EXPECT_NE(refused.error().message.find("the label 100000000 among 5 samples"), std::string::npos);
  EXPECT_NE(refused.error().help.find("classes=100000001"), std::string::npos) << refused.error().help;
  const auto said = open(far, 100'000'001).value();
  EXPECT_EQ(said->classes(), 100'000'001);
  EXPECT_EQ(said->class_name(7), "") << "numbers are no names, and nobody makes a hundred million of them";
  const auto small = open(far, 10);
  ASSERT_FALSE(small.ok());
  EXPECT_NE(small.error().message.find("has the label 100000000, but `classes` is 10"), std::string::npos);

  const auto gap = write("gap", idx(8, {5}, "\1\3\4\4\7"));
  const auto reader = open(gap, 0).value();
  ASSERT_EQ(reader->warnings().size(), 1u);
  EXPECT_EQ(reader->warnings()[0].code, "XG0416");
  EXPECT_EQ(reader->warnings()[0].message, "labels go up to 7, but 4 of these classes have no sample");
  EXPECT_NE(reader->warnings()[0].help.find("classes=8"), std::string::npos);
  EXPECT_TRUE(open(gap, 0, "test").value()->warnings().empty()) << "a test need not have all";
  EXPECT_TRUE(open(write("full", idx(8, {5}, std::string("\0\1\2\1\1", 5))), 0).value()->warnings().empty());
}

TEST_F(Readers, HeadersHaveEverythingExceptTheSamples) {
  const auto labels = write("l", idx(8, {2}, "\1\2"));
  const SourceSpec cut = idx_source(write("i", idx(8, {2, 2, 3}, "abc")), labels);
  EXPECT_FALSE(open_reader(cut).ok());
  const auto header = open_header(cut).value();
  EXPECT_EQ(header->samples(), 2);
  EXPECT_EQ(header->classes(), 3);
  EXPECT_EQ(header->fields()[0].type.dims, (std::vector<int64_t>{kBatch, 1, 2, 3}));
  EXPECT_EQ(header->memory(), 16 + 12 + 8) << "of the whole source";
  EXPECT_EQ(open_header(idx_source(write("text", "hello"), labels)).error().code, "XG0412");
  EXPECT_EQ(open_header(idx_source((root_ / "gone").string(), labels)).error().code, "XG0401");
}

TEST_F(Readers, OpeningEndsSoonAfterAStopRequest) {
  write("pictures/a/1.png", png(4, 1));
  write_zip((root_ / "a.zip").string(), {{"a/1.png", png(4, 1)}});
  const std::string table = write("t.csv", "1,2\n3,4\n");
  const std::vector<SourceSpec> sources{
      idx_source(write("i", idx(8, {2, 2, 3}, "abcdefghijkl")), write("l", idx(8, {2}, "\1\2"))),
      folder({(root_ / "pictures").string()}), folder({(root_ / "a.zip").string()}),
      source("train", "csv", {{"path", table}, {"delimiter", std::string(",")}})};
  std::atomic<bool> stop{false};
  for (const SourceSpec& spec : sources) {
    stop = false;
    ASSERT_TRUE(open_reader(spec, &stop).ok()) << spec.reader.name;
    stop = true;
    const auto stopped = open_reader(spec, &stop);
    ASSERT_FALSE(stopped.ok()) << spec.reader.name;
    EXPECT_EQ(exit_code(stopped.error().kind), 75);
    EXPECT_FALSE(stopped.error().span.valid());
  }
}

TEST_F(Readers, CsvColumnsAreReadExactly) {
  write("t.csv", "a;b;label\r\n1; 2.5 ;16777217\r\n\r\n-3;4e-1;7\n+5;6;8");
  const auto spec = [&](std::vector<int64_t> rows) {
    return source(
        "train", "csv",
        {{"path", std::string("t.csv")}, {"rows", std::move(rows)}, {"header", true}, {"delimiter", std::string(";")}},
        root_.string());
  };
  const Graph graph = inputs({{"x", {.dtype = DType::kF32, .dims = {kBatch, 2}}}, {"label", label_type(20'000'000)}});
  const DataSpec data{
      .name = "d",
      .sources = {spec({0, 3})},
      .bindings = {
          {.target = "x",
           .field = "row",
           .stages = {{"columns", {{"range", std::vector<int64_t>{0, 2}}}, {}}, {"scale", {{"k", 0.5}}, {}}}},
          {.target = "label",
           .field = "row",
           .stages = {{"column", {{"index", int64_t{2}}}, {}}, {"as_index", {{"classes", int64_t{20'000'000}}}, {}}}}}};
  const auto rows = SampleRows::open(data, "train", graph).value();
  ASSERT_EQ(rows->samples(), 3);
  Batch batch(graph, 3);
  AugmentScratch scratch;
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(rows->fill(i, {}, scratch, batch.view, i).ok());
  }
  EXPECT_EQ(std::vector<float>(batch.floats(0), batch.floats(0) + 6),
            (std::vector<float>{0.5f, 1.25f, -1.5f, 0.2f, 2.5f, 3}));
  EXPECT_EQ(std::vector<int32_t>(batch.integers(1), batch.integers(1) + 3), (std::vector<int32_t>{16'777'217, 7, 8}));
  EXPECT_EQ(open_reader(spec({1, 3})).value()->samples(), 2);
  const auto beyond = open_reader(spec({1, 9}));
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, "XG0413");
  EXPECT_NE(beyond.error().message.find("has 3 rows"), std::string::npos) << beyond.error().message;
}

TEST_F(Readers, CsvAboveTheLimitIsRefusedAndNotTruncated) {
  const std::string path = write("t.csv", "1,2\n3,45\n");
  const auto whole = read_csv(path, {.largest = 9});
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->numbers, (std::vector<double>{1, 2, 3, 45}));
  // With a limit of 7 bytes, the part that fits would be a valid table: 1,2 and 3,4.
  for (const Bytes largest : {Bytes{8}, Bytes{7}, Bytes{4}}) {
    const auto cut = read_csv(path, {.largest = largest});
    ASSERT_FALSE(cut.ok()) << largest;
    EXPECT_EQ(cut.error().code, "XG0412");
    EXPECT_EQ(cut.error().message, path + ": a table of more than " + std::to_string(largest) + " B");
    EXPECT_NE(cut.error().help, "");
  }
}

// Every byte of a gzip file either changes the checksum or is a flag that is not read.
TEST_F(Readers, DamagedGzipIsRefused) {
  const std::string rows = "1,2\n3,45\n6,7\n";
  const std::string path = (root_ / "t.csv.gz").string();
  const auto file = ::gzopen(path.c_str(), "wb9");
  ASSERT_EQ(::gzwrite(file, rows.data(), static_cast<unsigned>(rows.size())), static_cast<int>(rows.size()));
  ASSERT_EQ(::gzclose(file), Z_OK);
  ASSERT_EQ(read_csv(path, {}).value().numbers, (std::vector<double>{1, 2, 3, 45, 6, 7}));
  std::ifstream in(path, std::ios::binary);
  const std::string packed((std::istreambuf_iterator<char>(in)), {});
  constexpr size_t kHeader = 10;
  for (size_t i = kHeader; i < packed.size(); ++i) {
    std::string flipped = packed;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    const auto table = read_csv(write("f.csv.gz", flipped), {});
    ASSERT_FALSE(table.ok()) << "byte " << i;
    EXPECT_EQ(table.error().code, "XG0412");
    EXPECT_FALSE(read_csv(write("s.csv.gz", packed.substr(0, i)), {}).ok()) << "cut at " << i;
  }
}

// A gzip file may consist of several members, each with a checksum.
TEST_F(Readers, GzipOfSeveralMembersIsReadCompletelyOrRefused) {
  const auto packed = [&](const std::string& text) {
    const std::string path = (root_ / "one.gz").string();
    const auto file = ::gzopen(path.c_str(), "wb9");
    EXPECT_EQ(::gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    EXPECT_EQ(::gzclose(file), Z_OK);
    std::ifstream in(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  const std::string one = packed("1,2\n");
  const std::string two = packed("3,4\n");
  EXPECT_EQ(read_csv(write("t.gz", one + two), {}).value().numbers, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(read_csv(write("t.gz", one + two + std::string(512, '\0')), {}).value().rows, 2) << "as tapes are filled";
  const auto fault = [&](const std::string& bytes) {
    const auto table = read_csv(write("t.gz", bytes), {});
    return table.ok() ? std::string() : table.error().code + " " + table.error().message;
  };
  EXPECT_NE(fault(one + "garbage").find("XG0412"), std::string::npos);
  EXPECT_NE(fault(one + two.substr(0, two.size() - 1)).find("cut short"), std::string::npos);
  for (size_t i = 10; i < two.size(); ++i) {
    std::string flipped = two;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_NE(fault(one + flipped), "") << "byte " << i << " of the second member";
  }
  EXPECT_NE(fault(one + std::string(3, '\0') + two).find("after the end"), std::string::npos);
}

TEST_F(Readers, FilesThatExpandAThousandfoldAreRefused) {
  const std::string zeros(20 << 20, '0');
  const std::string gzip = (root_ / "z.gz").string();
  const auto file = ::gzopen(gzip.c_str(), "wb9");
  ASSERT_GT(::gzwrite(file, zeros.data(), static_cast<unsigned>(zeros.size())), 0);
  ASSERT_EQ(::gzclose(file), Z_OK);
  EXPECT_GT(static_cast<uint64_t>(zeros.size()) / fs::file_size(gzip), 1000u);
  const auto table = read_csv(gzip, {});
  ASSERT_FALSE(table.ok());
  EXPECT_NE(table.error().message.find("more than 1 000 times its size"), std::string::npos) << table.error().message;

  const std::string zip = (root_ / "z.zip").string();
  write_zip(zip, {{"a/1.png", zeros}, {"a/2.png", zeros}});
  const auto reader = open_reader(folder({zip})).value();
  FieldValue value;
  const Status read = reader->read(1, 0, value);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("more than 1 000 times its size"), std::string::npos) << read.error().message;
  EXPECT_LT(reader->memory(), 21 * kMiB);
}

TEST(Decode, ForeignBytesAreErrorsNotCrashes) {
  std::vector<uint8_t> out;
  const auto code = [&](std::string_view bytes) {
    const auto size = decode_picture(std::as_bytes(std::span(bytes)), {.channels = 3}, out);
    return size.ok() ? std::string() : size.error().code;
  };
  EXPECT_EQ(code(""), "XG0412");
  EXPECT_EQ(code("GIF89a"), "XG0412");
  EXPECT_EQ(code("\xff\xd8\xff"), "XG0412");
  EXPECT_EQ(code("\x89PNG"), "XG0412");
  const std::string good = png(8, 200);
  EXPECT_EQ(code(good), "");
  EXPECT_EQ(out.size(), 8u * 8 * 3);
  EXPECT_EQ(out[0], 200);
  for (size_t cut = 0; cut < good.size() - 12; ++cut) {
    EXPECT_EQ(code(good.substr(0, cut)), "XG0412") << cut;
  }
}

// Returns the memory that the process uses now.
Bytes resident_bytes() {
  Bytes total = 0;
  Bytes resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// A tiny file may be a million pixels wide. Resizing must not make an intermediate picture of that width and the new
// height, which would take 0.9 GB here.
TEST(Decode, WidePicturesAreResizedInLittleMemory) {
  const std::string file = png(1'000'000, 64, 77);
  EXPECT_LT(file.size(), 200'000u);
  AugmentScratch scratch;
  const std::array<int64_t, 1> shape{static_cast<int64_t>(file.size())};
  scratch.source.set_view(DType::kU8, shape, std::as_bytes(std::span(file)));
  const TensorType target = picture_type(1, 224, 224);
  const auto transform =
      Transform::compile({.target = "image",
                          .field = "file",
                          .stages = {{"decode", {{"size", int64_t{224}}, {"channels", int64_t{1}}}, {}}}},
                         {"file", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true}, target)
          .value();
  std::vector<float> out(224 * 224);
  [[maybe_unused]] const Bytes before = resident_bytes();
  const Status done = transform.run(scratch, {}, reinterpret_cast<std::byte*>(out.data()));
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_TRUE(std::ranges::all_of(out, [](float x) { return std::abs(x - 77) < 0.01f; }));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // Limit: the bytes of the picture (64 MB) and three rows under the filter as floats (4 MB each).
  EXPECT_LT(resident_bytes() - before, 120 * kMiB);
#endif
}

TEST(Decode, HeadersGiveTheMemoryThatDecodingNeeds) {
  const std::string file = png(3000, 2000, 9);
  const auto header = read_picture_header(std::as_bytes(std::span(file)));
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->width, 3000);
  EXPECT_EQ(header->height, 2000);
  EXPECT_EQ(header->held, 0);
  const auto held = [&](Attrs decode) {
    const auto side = decode.has("size") ? decode.integer("size") : int64_t{64};
    DataBinding binding{.target = "image", .field = "file", .stages = {{"decode", std::move(decode), {}}}};
    if (!binding.stages[0].args.has("size")) {
      binding.stages.push_back({"random_flip", {}, {}});  // needs the whole picture
      binding.stages.push_back({"resize", {{"size", side}}, {}});
    }
    const auto transform = Transform::compile(binding, {"file", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true},
                                              picture_type(1, side, side));
    EXPECT_TRUE(transform.ok());
    return transform->decode_bytes(*header);
  };
  constexpr Bytes kPixels = 3000 * 2000;
  const Bytes resized = held({{"size", int64_t{64}}, {"channels", int64_t{1}}});
  EXPECT_GT(resized, kPixels);
  EXPECT_LT(resized, kPixels + 2 * kMiB) << "the rows below the filter of one row";
  const Bytes whole = held({{"channels", int64_t{1}}});
  EXPECT_GT(whole, 9 * kPixels);
  EXPECT_LT(whole, 9 * kPixels + kMiB);
  EXPECT_EQ(read_picture_header(std::as_bytes(std::span(file).first(20))).error().code, "XG0412");
  EXPECT_EQ(read_picture_header({}).error().code, "XG0412");
}

// ---- real data ---------------------------------------------------------------------------------------------------

#define NEED_DATA(variable, below)                                   \
  const fs::path variable = shared_data(below);                      \
  if (variable.empty()) {                                            \
    GTEST_SKIP() << "the shared data " << (below) << " is not here"; \
  }

TEST(RealData, OmniglotS15HasItsPublishedCounts) {
  NEED_DATA(path, "omniglot");
  const std::vector<std::string> zips{(path / "images_background.zip").string(),
                                      (path / "images_evaluation.zip").string()};
  const auto train = open_reader(folder(zips, "*_{01..15}.png")).value();
  const auto test = open_reader(folder(zips, "*_{16..20}.png")).value();
  EXPECT_EQ(train->samples(), 24'345);
  EXPECT_EQ(test->samples(), 8'115);
  EXPECT_EQ(train->classes(), 1'623);
  EXPECT_EQ(test->classes(), 1'623);
  EXPECT_EQ(train->class_name(0), "images_background/Alphabet_of_the_Magi/character01");
  std::map<int64_t, int> counts;
  for (int64_t i = 0; i < test->samples(); ++i) {
    ++counts[label_of(*test, i)];
  }
  EXPECT_EQ(counts.size(), 1'623u);
  EXPECT_TRUE(std::ranges::all_of(counts, [](const auto& c) { return c.second == 5; }));
  std::vector<uint8_t> pixels;
  FieldValue value;
  for (int64_t i = 0; i < train->samples(); i += 97) {
    ASSERT_TRUE(train->read(i, 0, value).ok());
    const auto size = decode_picture(value.bytes, {.channels = 1}, pixels);
    ASSERT_TRUE(size.ok()) << train->sample_name(i);
    ASSERT_EQ(size->width, 105);
    ASSERT_EQ(size->height, 105);
    ASSERT_TRUE(std::ranges::all_of(pixels, [](uint8_t x) { return x == 0 || x == 255; })) << "one bit, ink = 0";
    ASSERT_GT(std::ranges::count(pixels, 0), 50);
  }
}

TEST(RealData, MnistHasItsPublishedCounts) {
  NEED_DATA(path, "mnist");
  const auto train = open_reader(idx_source((path / "train-images-idx3-ubyte.gz").string(),
                                            (path / "train-labels-idx1-ubyte.gz").string()))
                         .value();
  EXPECT_EQ(train->samples(), 60'000);
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->describe(), "idx: 60 000 images of 28x28, 10 classes");
  std::map<int64_t, int> counts;
  for (int64_t i = 0; i < train->samples(); ++i) {
    ++counts[label_of(*train, i)];
  }
  EXPECT_EQ(counts[0], 5'923);
  EXPECT_EQ(counts[9], 5'949);
  EXPECT_EQ(label_of(*train, 0), 5);
  const auto test = open_reader(idx_source((path / "t10k-images-idx3-ubyte.gz").string(),
                                           (path / "t10k-labels-idx1-ubyte.gz").string()))
                        .value();
  EXPECT_EQ(test->samples(), 10'000);
  EXPECT_EQ(open_reader(idx_source((path / "train-images-idx3-ubyte.gz").string(),
                                   (path / "t10k-labels-idx1-ubyte.gz").string()))
                .error()
                .code,
            "XG0412");
}

TEST(RealData, GroceryPhotographsDecodeAndDamagedOnesAreRefused) {
  NEED_DATA(path, "grocery-81/grocery-81-subset.zip");
  const auto train = open_reader(folder({(path / "train").string()})).value();
  const auto test = open_reader(folder({(path / "test").string()})).value();
  EXPECT_EQ(train->samples(), 810);
  EXPECT_EQ(test->samples(), 405);
  EXPECT_EQ(train->classes(), 81);
  EXPECT_EQ(test->classes(), 81);
  FieldValue value;
  std::vector<uint8_t> pixels;
  std::map<std::pair<int, int>, int> sizes;
  for (int64_t i = 0; i < train->samples(); i += 9) {
    ASSERT_TRUE(train->read(i, 0, value).ok());
    const auto size = decode_picture(value.bytes, {.channels = 3}, pixels);
    ASSERT_TRUE(size.ok()) << train->sample_name(i);
    ++sizes[{size->height, size->width}];
    EXPECT_FALSE(decode_picture(value.bytes.first(value.bytes.size() / 2), {.channels = 3}, pixels).ok())
        << "cut short";
    auto damaged = std::vector<std::byte>(value.bytes.begin(), value.bytes.end());
    // Writes a marker that is not allowed within the scan.
    damaged[damaged.size() / 2] = std::byte{0xff};
    damaged[damaged.size() / 2 + 1] = std::byte{0xd9};
    EXPECT_FALSE(decode_picture(damaged, {.channels = 3}, pixels).ok());
  }
  EXPECT_GT((sizes[{348, 348}]), 70);
  const Graph graph = inputs({{"image", picture_type(3, 64, 64)}, {"label", label_type(81)}});
  const DataSpec data{
      .name = "d",
      .sources = {folder({(path / "train").string()})},
      .bindings = {
          {.target = "image",
           .field = "file",
           .stages = {
               {"decode", {{"size", int64_t{72}}, {"channels", int64_t{3}}}, {}},
               {"random_crop", {{"size", int64_t{64}}, {"pad", int64_t{0}}}, {}},
               {"random_flip", {}, {}},
               {"normalize", {{"mean", std::vector<double>{127.5}}, {"std", std::vector<double>{127.5}}}, {}}}}}};
  auto loader = make_loader(SampleRows::open(data, "train", graph).value(), {.batch = 32, .workers = 2}).value();
  Batch slot(graph, 32);
  ASSERT_TRUE(loader->start(0, {&slot.view, 1}).ok());
  ASSERT_TRUE(loader->wait(0).ok());
  const auto [low, high] = std::minmax_element(slot.floats(0), slot.floats(0) + 32 * 64 * 64 * 3);
  EXPECT_GE(*low, -1.0001f);
  EXPECT_LE(*high, 1.0001f);
  EXPECT_GT(*high - *low, 1);
  loader->stop();
}

}  // namespace
}  // namespace xrun::runtime
