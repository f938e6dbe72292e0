#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <png.h>
#include <set>
#include <unistd.h>

#include "runtime/data/csv.h"
#include "runtime/data/decode.h"
#include "runtime/data/glob.h"
#include "runtime/data/idx.h"
#include "tests/runtime/data_support.h"

namespace xrun::runtime {
namespace {

using namespace testing;
namespace fs = std::filesystem;

// A directory of its own for each test, removed at the end.
class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::temp_directory_path() / ("xrun_data_" + std::string(info->name()) + "_" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::permissions(root_, fs::perms::owner_all, ignored);
    fs::remove_all(root_, ignored);
  }
  std::string write(const std::string& name, std::string_view bytes) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return (root_ / name).string();
  }
  fs::path root_;
};

using Readers = Files;

// A grey PNG of `side` pixels, all of one value.
std::string png(int side, uint8_t value) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = static_cast<png_uint_32>(side);
  image.format = PNG_FORMAT_GRAY;
  const std::vector<uint8_t> pixels(static_cast<size_t>(side * side), value);
  std::string out(size_t{4096}, '\0');
  png_alloc_size_t size = out.size();
  EXPECT_NE(png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr), 0);
  out.resize(size);
  return out;
}

void write_zip(const std::string& path, const std::vector<std::pair<std::string, std::string>>& files) {
  archive* a = archive_write_new();
  archive_write_set_format_zip(a);
  ASSERT_EQ(archive_write_open_filename(a, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, bytes] : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(a, entry);
    archive_write_data(a, bytes.data(), bytes.size());
    archive_entry_free(entry);
  }
  archive_write_free(a);
}

SourceSpec folder(std::vector<std::string> paths, std::string match = "*", std::string directory = "") {
  return source("train", "folder", {{"paths", std::move(paths)}, {"match", std::move(match)}}, std::move(directory));
}

int64_t label_of(const Reader& reader, int64_t sample) {
  FieldValue value;
  EXPECT_TRUE(reader.read(sample, reader.find_field("label"), value).ok());
  if (value.dtype == DType::kI64) {
    return *reinterpret_cast<const int64_t*>(value.bytes.data());
  }
  return *reinterpret_cast<const int32_t*>(value.bytes.data());
}

TEST_F(Readers, FolderNumbersDirectoriesInByteOrderBeforeMatch) {
  for (const char* name : {"b/x_01.png", "b/x_02.png", "a/c/x_01.png", "B/x_03.PNG", "z/x_09.jpeg"}) {
    write(name, png(4, 9));
  }
  write("b/notes.txt", "no picture");
  write("list.csv", "no picture");
  write("b/.hidden.png", "no picture");
  const auto reader = open_reader(folder({root_.string() + "/"}, "x_{01..02}.png")).value();
  ASSERT_EQ(reader->samples(), 3);
  EXPECT_EQ(reader->classes(), 4) << "z and B count although no file of theirs matches";
  EXPECT_EQ(reader->class_name(0), "B");
  EXPECT_EQ(reader->class_name(1), "a/c");
  EXPECT_EQ(reader->class_name(2), "b");
  EXPECT_EQ(label_of(*reader, 0), 1);
  EXPECT_EQ(label_of(*reader, 1), 2);
  EXPECT_TRUE(reader->sample_name(2).ends_with("/b/x_02.png"));
}

TEST_F(Readers, FolderReadsArchivesAndFoldersInside) {
  const std::string path = (root_ / "a.zip").string();
  write_zip(path, {{"train/q/2.png", png(5, 20)},
                   {"train/p/1.png", png(5, 10)},
                   {"test/p/3.png", png(5, 30)},
                   {"train/readme.md", "x"}});
  const auto whole = open_reader(folder({"a.zip"}, "*", root_.string())).value();
  EXPECT_EQ(whole->samples(), 3);
  EXPECT_EQ(whole->classes(), 3);
  const auto train = open_reader(folder({"a.zip/train"}, "*", root_.string())).value();
  ASSERT_EQ(train->samples(), 2);
  EXPECT_EQ(train->class_name(0), "p");
  FieldValue value;
  ASSERT_TRUE(train->read(0, 0, value).ok());
  std::vector<uint8_t> pixels;
  const auto size = decode_picture(value.bytes, 1, pixels);
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(size->width, 5);
  EXPECT_EQ(pixels[0], 10);
  ASSERT_TRUE(train->read(0, 2, value).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()), "p/1.png");
}

TEST_F(Readers, FolderOfTwoPathsSharesClasses) {
  write("one/a/1.png", png(4, 1));
  write("two/a/2.png", png(4, 2));
  write("two/b/1.png", png(4, 3));
  const auto reader = open_reader(folder({"one", "two"}, "*", root_.string())).value();
  EXPECT_EQ(reader->classes(), 2);
  EXPECT_EQ(label_of(*reader, 0), 0);
  EXPECT_EQ(label_of(*reader, 1), 0);
  EXPECT_EQ(label_of(*reader, 2), 1);
}

TEST_F(Readers, FolderFaultsSayWhatAndWhere) {
  const auto code = [](const Result<std::unique_ptr<Reader>>& r) { return r.ok() ? std::string() : r.error().code; };
  const auto missing = open_reader(folder({(root_ / "no/where").string()}));
  EXPECT_EQ(code(missing), "XG0401");
  EXPECT_EQ(exit_code(missing.error().kind), 1);
  EXPECT_EQ(code(open_reader(folder({root_.string()}))), "XG0406");
  EXPECT_EQ(code(open_reader(folder({write("not.zip", "this is no archive at all")}))), "XG0412");
  EXPECT_EQ(code(open_reader(folder({root_.string()}, "x{01.."))), "XG0413");
  if (geteuid() != 0) {
    fs::permissions(root_, fs::perms::none);
    const auto closed = open_reader(folder({root_.string()}));
    EXPECT_EQ(code(closed), "XG0401");
    EXPECT_EQ(exit_code(closed.error().kind), 4);
  }
}

TEST_F(Readers, FileThatVanishesOrIsTornIsABrokenSample) {
  const std::string good = png(6, 100);
  write("a/1.png", good);
  write("a/2.png", good.substr(0, good.size() / 2));
  const std::string gone = write("a/3.png", good);
  write("a/4.png", "");
  const Graph graph = inputs({{"image", picture_type(1, 6, 6)}, {"label", label_type(1)}});
  const DataSpec data{
      .name = "d",
      .sources = {folder({root_.string()})},
      .bindings = {{.target = "image", .field = "file", .stages = {{"decode", {{"channels", int64_t{1}}}, {}}}}}};
  const auto rows = SampleRows::open(data, "train", graph).value();
  fs::remove(gone);
  Batch batch(graph, 1);
  AugmentScratch scratch;
  EXPECT_TRUE(rows->fill(0, {}, scratch, batch.view, 0).ok());
  EXPECT_EQ(batch.floats(0)[35], 100);
  for (int64_t i = 1; i < 4; ++i) {
    const Status done = rows->fill(i, {}, scratch, batch.view, 0);
    ASSERT_FALSE(done.ok()) << i;
    EXPECT_TRUE(is_broken_sample(done.error()));
    EXPECT_NE(done.error().message.find("a/" + std::to_string(i + 1) + ".png"), std::string::npos)
        << done.error().message;
  }
}

TEST_F(Readers, PictureOfAnotherSizeThanTheInputIsNamed) {
  write("a/1.png", png(6, 1));
  const Graph graph = inputs({{"image", picture_type(1, 8, 8)}});
  const DataSpec data{
      .name = "d",
      .sources = {folder({root_.string()})},
      .bindings = {{.target = "image", .field = "file", .stages = {{"decode", {{"channels", int64_t{1}}}, {}}}}}};
  const auto rows = SampleRows::open(data, "train", graph).value();
  Batch batch(graph, 1);
  AugmentScratch scratch;
  const Status done = rows->fill(0, {}, scratch, batch.view, 0);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, "XG0404");
}

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
  const auto reader = open_reader(idx_source(images, labels)).value();
  EXPECT_EQ(reader->samples(), 2);
  EXPECT_EQ(reader->classes(), 257);
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

TEST_F(Readers, CsvFeedsColumnsExactly) {
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

TEST(Csv, FaultsNameLineAndColumn) {
  const auto message = [](std::string_view text) {
    const auto table = parse_csv(text, {}, "t.csv");
    return table.ok() ? std::string() : table.error().message;
  };
  EXPECT_EQ(message("1,2\n3,x4\n"), "t.csv:2: column 1 is \"x4\", no number");
  EXPECT_EQ(message("1,2\n3\n"), "t.csv:2: 1 columns, but 2 in the rows before");
  EXPECT_EQ(message("1,\n"), "t.csv:1: column 1 is \"\", no number");
  EXPECT_EQ(message("1,nan\n"), "t.csv:1: column 1 is \"nan\", no number");
  EXPECT_EQ(message(""), "");
}

TEST(GlobPattern, MatchesStarsAndInclusiveRanges) {
  const auto matches = [](std::string_view pattern, std::string_view name) {
    return Glob::parse(pattern).value().matches(name);
  };
  EXPECT_TRUE(matches("*_{01..15}.png", "0709_01.png"));
  EXPECT_TRUE(matches("*_{01..15}.png", "0709_15.png"));
  EXPECT_FALSE(matches("*_{01..15}.png", "0709_16.png"));
  EXPECT_FALSE(matches("*_{01..15}.png", "0709_1.png"));
  EXPECT_TRUE(matches("{a,bc}?.*", "bcd.x"));
  EXPECT_FALSE(matches("{a,bc}?.*", "bc.x"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(matches("a*b*c", "aXbYbZ"));
  for (const char* bad : {"{1..", "{5..3}", "{x..3}", "{0..70000}", "{0..999}{0..999}", "{-1..3}"}) {
    EXPECT_FALSE(Glob::parse(bad).ok()) << bad;
  }
}

TEST(Decode, ForeignBytesAreErrorsNotCrashes) {
  std::vector<uint8_t> out;
  const auto code = [&](std::string_view bytes) {
    const auto size = decode_picture(std::as_bytes(std::span(bytes)), 3, out);
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
    const auto size = decode_picture(value.bytes, 1, pixels);
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

TEST(RealData, GroceryPhotographsDecodeAndTornOnesAreRefused) {
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
    const auto size = decode_picture(value.bytes, 3, pixels);
    ASSERT_TRUE(size.ok()) << train->sample_name(i);
    ++sizes[{size->height, size->width}];
    EXPECT_FALSE(decode_picture(value.bytes.first(value.bytes.size() / 2), 3, pixels).ok()) << "cut short";
    auto damaged = std::vector<std::byte>(value.bytes.begin(), value.bytes.end());
    // A marker that does not belong into the scan.
    damaged[damaged.size() / 2] = std::byte{0xff};
    damaged[damaged.size() / 2 + 1] = std::byte{0xd9};
    EXPECT_FALSE(decode_picture(damaged, 3, pixels).ok());
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
