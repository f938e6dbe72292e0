#include "runtime/data/readers/folder.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <locale.h>
#include <sys/resource.h>

#include "runtime/data/open_reader.h"
#include "runtime/data/readers/glob.h"
#include "runtime/formats/pictures/decode.h"
#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
namespace fs = std::filesystem;

using Folder = Files;

// While this object exists, no file can be opened (EMFILE).
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

TEST_F(Folder, NumbersDirectoriesInByteOrderBeforeMatch) {
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

// The numbers of samples and classes decide the random draws of a run and the meaning of classes in a checkpoint, so
// they stay in byte order. Listings for people have 2 before 10.
TEST_F(Folder, ListsSamplesNaturallyAndNumbersThemInByteOrder) {
  for (const char* name : {"10/1.png", "2/1.png", "2/10.png", "2/2.png"}) {
    write(name, png(4, 9));
  }
  const auto reader = open_reader(folder({root_.string()})).value();
  EXPECT_EQ(reader->class_name(0), "10");
  EXPECT_EQ(reader->class_name(1), "2");
  std::vector<std::string> numbered, listed;
  for (const int64_t sample : reader->listing()) {
    numbered.push_back(fs::relative(reader->sample_name(static_cast<int64_t>(numbered.size())), root_));
    listed.push_back(fs::relative(reader->sample_name(sample), root_));
  }
  EXPECT_THAT(numbered, ::testing::ElementsAre("10/1.png", "2/1.png", "2/10.png", "2/2.png"));
  EXPECT_THAT(listed, ::testing::ElementsAre("2/1.png", "2/2.png", "2/10.png", "10/1.png"));
}

TEST_F(Folder, ReadsArchivesAndFoldersInside) {
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
  const auto size = decode_picture(value.bytes, {.channels = 1}, pixels);
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(size->width, 5);
  EXPECT_EQ(pixels[0], 10);
  ASSERT_TRUE(train->read(0, 2, value).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()), "p/1.png");
}

TEST_F(Folder, RefusesMorePicturesThanItMayHave) {
  for (const char* name : {"a/1.png", "a/2.png", "b/1.png"}) {
    write(name, png(4, 1));
  }
  const std::string archive = (root_ / "a.zip").string();
  write_zip(archive, {{"a/1.png", png(4, 1)}, {"a/2.png", png(4, 2)}, {"b/1.png", png(4, 3)}});
  for (const std::string& path : {root_.string(), archive}) {
    EXPECT_EQ(open_folder(folder({path}), nullptr, 3).value()->samples(), 3);
    EXPECT_EQ(open_folder(folder({path}, "1.png"), nullptr, 2).value()->samples(), 2) << "`match` may leave fewer";
    const auto refused = open_folder(folder({path}), nullptr, 2);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, "XG0412");
    EXPECT_THAT(refused.error().message, ::testing::StartsWith(path + "/"));
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("one picture more than the 2"));
  }
}

TEST_F(Folder, FollowsLinksAndRefusesCycles) {
  write("real/dog/1.png", png(4, 1));
  write("links/cat/1.png", png(4, 2));
  fs::create_directory_symlink("../real/dog", root_ / "links/dog");
  const auto reader = open_reader(folder({"links"}, "*", root_.string())).value();
  EXPECT_EQ(reader->samples(), 2);
  ASSERT_EQ(reader->classes(), 2);
  EXPECT_EQ(reader->class_name(1), "dog");
  fs::create_directory_symlink("..", root_ / "links/cat/back");
  const auto endless = open_reader(folder({"links"}, "*", root_.string()));
  ASSERT_FALSE(endless.ok());
  EXPECT_EQ(endless.error().code, "XG0401");
  EXPECT_NE(endless.error().message.find("links/cat/back"), std::string::npos) << endless.error().message;
}

// Each level has two links to the next one, so there are 2^30 paths to the last level.
TEST_F(Folder, DirectoriesThatLinksReachInTooManyWaysAreRefused) {
  for (int level = 0; level < 30; ++level) {
    const fs::path rung = root_ / ("d" + std::to_string(level));
    fs::create_directories(rung);
    for (const char* name : {"l", "r"}) {
      fs::create_directory_symlink("../d" + std::to_string(level + 1), rung / name);
    }
  }
  write("d30/1.png", png(4, 1));
  const auto endless = open_reader(folder({(root_ / "d0").string()}));
  ASSERT_FALSE(endless.ok());
  EXPECT_EQ(endless.error().code, "XG0401");
  EXPECT_NE(endless.error().message.find("reach in more than 64 ways"), std::string::npos) << endless.error().message;
  // Links may give a class several names.
  for (int i = 0; i < 60; ++i) {
    fs::create_directories(root_ / "names");
    fs::create_directory_symlink("../d30", root_ / "names" / std::to_string(i));
  }
  EXPECT_EQ(open_reader(folder({(root_ / "names").string()})).value()->samples(), 60);
}

TEST_F(Folder, CountsAndNamesFilesThatItDoesNotRead) {
  for (const char* name : {"a/1.png", "a/2.webp", "a/3.BMP", "a/4.ppm", "a/5.pgm"}) {
    write(name, png(4, 1));
  }
  EXPECT_TRUE(open_reader(folder({root_.string()})).value()->warnings().empty());
  write("a/6.gif", "GIF89a");
  write("b/7.tiff", "II");
  write("a/.hidden.gif", "GIF89a");
  const auto reader = open_reader(folder({root_.string()})).value();
  EXPECT_EQ(reader->samples(), 5);
  EXPECT_EQ(reader->classes(), 1) << "no class without a picture";
  EXPECT_EQ(reader->describe(), "folder: 5 images, 1 class, 2 other files");
  ASSERT_EQ(reader->warnings().size(), 1u);
  EXPECT_EQ(reader->warnings()[0].code, "XG0415");
  EXPECT_EQ(reader->warnings()[0].message,
            "2 files are not read, since pictures are PNG, JPEG, WebP, BMP, PGM and PPM files: a/6.gif, b/7.tiff");
  std::vector<std::pair<std::string, std::string>> files{{"train/a/1.png", png(4, 1)}};
  for (int i = 10; i < 40; ++i) {
    files.emplace_back("train/a/" + std::to_string(i) + ".heic", "x");
  }
  const std::string path = (root_ / "a.zip").string();
  write_zip(path, files);
  const std::string message = open_reader(folder({path + "/train"})).value()->warnings()[0].message;
  EXPECT_NE(message.find("30 files are not read"), std::string::npos) << message;
  EXPECT_NE(message.find("train/a/10.heic, train/a/11.heic"), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("train/a/29.heic and 10 more")) << message;
}

// Returns the classes and then the texts of the warnings.
std::string classes_and_warnings(const Reader& reader) {
  std::string text;
  for (int64_t i = 0; i < reader.classes(); ++i) {
    text += reader.class_name(i) + ";";
  }
  for (const Error& warning : reader.warnings()) {
    text += " " + warning.code + " " + warning.message;
  }
  return text;
}

TEST_F(Folder, LeavesOutPicturesThatLieInNoClassDirectory) {
  std::vector<std::pair<std::string, std::string>> files{{"b/1.png", png(4, 1)}, {"a/1.png", png(4, 2)}};
  const auto read = [&](const std::string& match = "*") {
    const std::string path = (root_ / "a.zip").string();
    write_zip(path, files);
    fs::remove_all(root_ / "dir");
    for (const auto& [name, bytes] : files) {
      write("dir/" + name, bytes);
    }
    const auto archive = open_reader(folder({path}, match)).value();
    const auto directory = open_reader(folder({(root_ / "dir").string()}, match)).value();
    EXPECT_EQ(classes_and_warnings(*archive), classes_and_warnings(*directory));
    EXPECT_EQ(archive->samples(), directory->samples());
    EXPECT_EQ(archive->describe(), open_header(folder({path}, match)).value()->describe());
    return classes_and_warnings(*directory) + " " + directory->describe();
  };
  EXPECT_EQ(read(), "a;b; folder: 2 images, 2 classes");
  files.emplace_back("overview.png", png(4, 3));
  EXPECT_EQ(read(),
            "a;b; XG0415 1 picture is left out, since it is in no class directory: overview.png "
            "folder: 2 images, 2 classes, 1 picture left out");
  files.emplace_back("another.png", png(4, 3));
  EXPECT_EQ(read(),
            "a;b; XG0415 2 pictures are left out, since they are in no class directory: another.png, overview.png "
            "folder: 2 images, 2 classes, 2 pictures left out");
  EXPECT_EQ(read("1.png"), "a;b; folder: 2 images, 2 classes") << "`match` takes none of them";
  files.erase(files.begin(), files.begin() + 2);
  EXPECT_EQ(read(), "; folder: 2 images, 1 class") << "a folder without class directories";
}

TEST_F(Folder, LeavesOutThePicturesOfAPathWithoutClasses) {
  write("one/a/1.png", png(4, 1));
  write("one/b/1.png", png(4, 1));
  write("two/1.png", png(4, 2));
  const auto reader = open_reader(folder({"one", "two"}, "*", root_.string())).value();
  EXPECT_EQ(classes_and_warnings(*reader),
            "a;b; XG0415 1 picture is left out, since it is in no class directory: 1.png");
  EXPECT_EQ(reader->samples(), 2);
}

TEST_F(Folder, LeavesOutDirectoriesOfTools) {
  const std::string path = (root_ / "a.zip").string();
  std::vector<std::pair<std::string, std::string>> files{{"a/1.png", png(4, 1)},
                                                         {"b/x/2.png", png(4, 2)},
                                                         {".thumbnails/normal/1.png", png(4, 3)},
                                                         {"a/@eaDir/1.png/t.png", png(4, 3)},
                                                         {"lost+found/1.png", png(4, 3)},
                                                         {"b/x/__pycache__/1.png", png(4, 3)},
                                                         {"__MACOSX/a/1.png", png(4, 3)},
                                                         {"b/.git/1.png", png(4, 3)},
                                                         {"#recycle/a/1.png", png(4, 3)}};
  write_zip(path, files);
  for (const auto& [name, bytes] : files) {
    write("dir/" + name, bytes);
  }
  const std::string expected =
      "a;b/x; XG0415 7 directories are left out, since hidden directories and those of tools hold no classes: "
      "#recycle, "
      ".thumbnails, __MACOSX, a/@eaDir, b/.git, b/x/__pycache__, lost+found";
  for (const std::string& source : {path, (root_ / "dir").string()}) {
    const auto reader = open_reader(folder({source})).value();
    EXPECT_EQ(classes_and_warnings(*reader), expected);
    EXPECT_EQ(reader->describe(), "folder: 2 images, 2 classes, 7 directories left out");
  }
  // A directory that the source names is read, whatever its name is.
  EXPECT_EQ(open_reader(folder({(root_ / "dir/.thumbnails").string()})).value()->samples(), 1);
  EXPECT_EQ(open_reader(folder({path + "/lost+found"})).value()->samples(), 1);
  // If a source holds only such directories, the error says why it is empty.
  write("only/.cache/1.png", png(4, 1));
  const auto empty = open_reader(folder({(root_ / "only").string()}));
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().message, "source `train` has no samples (folder: 0 images, 0 classes, 1 directory left out)");
}

// A plan needs only names, counts and the headers of some pictures.
TEST_F(Folder, OpenHeaderGivesCountsAndPictureHeadersOfAFewSamples) {
  std::vector<std::pair<std::string, std::string>> files;
  Bytes all = 0;
  for (int i = 0; i < 1000; ++i) {
    files.emplace_back("c" + std::to_string(i % 10) + "/" + std::to_string(i) + ".png",
                       png(40, static_cast<uint8_t>(i)));
    all += static_cast<Bytes>(files.back().second.size());
  }
  const std::string path = (root_ / "a.zip").string();
  write_zip(path, files);
  for (const auto& [name, bytes] : files) {
    write("dir/" + name, bytes);
  }
  for (const std::string& source : {path, (root_ / "dir").string()}) {
    const auto header = open_header(folder({source})).value();
    EXPECT_EQ(header->samples(), 1000);
    EXPECT_EQ(header->classes(), 10);
    const std::vector<int64_t> looked = looked_samples(1000);
    EXPECT_EQ(looked.size(), 64u);
    FieldValue value;
    for (const int64_t sample : looked) {
      ASSERT_TRUE(header->read(sample, 0, value).ok());
      const auto picture = read_picture_header(value.bytes);
      ASSERT_TRUE(picture.ok()) << picture.error().message;
      EXPECT_EQ(picture->width, 40);
    }
  }
  EXPECT_GE(open_header(folder({path})).value()->memory(), all) << "what the whole source would hold";
  const auto whole = open_reader(folder({path})).value();
  EXPECT_EQ(whole->memory(), open_header(folder({path})).value()->memory());
}

// The checksum and sizes of an entry are both in the directory of the archive and in the entry's header.
TEST_F(Folder, EntriesThatContradictTheirArchiveAreBroken) {
  const std::string path = (root_ / "a.zip").string();
  write_zip(path, {{"a/1.png", png(6, 100)}, {"a/2.png", png(6, 100)}});
  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  const size_t directory = good.find("PK\1\2");
  ASSERT_NE(directory, std::string::npos);
  FieldValue value;
  const size_t data = 30 + static_cast<size_t>(good[26]) + static_cast<size_t>(good[28]);  // after name and extra field
  for (const size_t at : {data + 10, directory + 16}) {  // a byte of the first entry's data, and one of its checksum
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    const auto reader = open_reader(folder({write("b.zip", damaged)}));
    ASSERT_TRUE(reader.ok()) << reader.error().message;
    ASSERT_EQ((*reader)->samples(), 2);
    const Status first = (*reader)->read(0, 0, value);
    ASSERT_FALSE(first.ok()) << at;
    EXPECT_TRUE(is_broken_sample(first.error()));
    EXPECT_NE(first.error().message.find("1.png"), std::string::npos) << first.error().message;
    EXPECT_TRUE((*reader)->read(1, 0, value).ok());
  }
}

TEST_F(Folder, ReadsNamesOfArchivesInAnyScriptWhateverTheLocale) {
  const std::string path = (root_ / "a.zip").string();
  {
    const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    ASSERT_NE(utf8, nullptr);
    const locale_t before = uselocale(utf8);
    write_zip(path, {{"\u732B/0.png", png(4, 1)}, {"\u72D7/0.png", png(4, 2)}, {"plain/0.png", png(4, 3)}});
    uselocale(before);
    freelocale(utf8);
  }
  const auto reader = open_reader(folder({path})).value();
  ASSERT_EQ(reader->classes(), 3);
  EXPECT_EQ(reader->class_name(1), "\u72D7");
  EXPECT_EQ(reader->class_name(2), "\u732B");
}

TEST_F(Folder, SharesClassesOfTwoPaths) {
  write("one/a/1.png", png(4, 1));
  write("two/a/2.png", png(4, 2));
  write("two/b/1.png", png(4, 3));
  const auto reader = open_reader(folder({"one", "two"}, "*", root_.string())).value();
  EXPECT_EQ(reader->classes(), 2);
  EXPECT_EQ(label_of(*reader, 0), 0);
  EXPECT_EQ(label_of(*reader, 1), 0);
  EXPECT_EQ(label_of(*reader, 2), 1);
}

TEST_F(Folder, ErrorsNameTheCauseAndThePath) {
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

TEST_F(Folder, FileThatVanishesOrIsTornIsABrokenSample) {
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

// If the system does not let us read a file, the sample is not at fault, so no other sample may replace it.
TEST_F(Folder, FilesThatTheSystemDoesNotOpenEndTheRun) {
  const std::string first = write("a/1.png", png(6, 100));
  write("a/2.png", png(6, 100));
  write_zip((root_ / "a.zip").string(), {{"a/1.png", png(6, 100)}});
  const Graph graph = inputs({{"image", picture_type(1, 6, 6)}});
  const DataSpec data{
      .name = "d",
      .sources = {folder({root_.string()})},
      .bindings = {{.target = "image", .field = "file", .stages = {{"decode", {{"channels", int64_t{1}}}, {}}}}}};
  auto rows = SampleRows::open(data, "train", graph).value();
  Batch batch(graph, 1);
  AugmentScratch scratch;
  const auto expect_world = [](const Error& error, const std::string& words) {
    EXPECT_EQ(error.code, "XG0401") << error.message;
    EXPECT_EQ(exit_code(error.kind), 4);
    EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
    EXPECT_NE(error.help, "");
  };
  {
    const NoMoreFiles guard;
    const Status done = rows->fill(0, {}, scratch, batch.view, 0);
    ASSERT_FALSE(done.ok());
    EXPECT_FALSE(is_broken_sample(done.error()));
    expect_world(done.error(), "a/1.png of source `train`: cannot be read: Too many open files");
    const auto archive = open_reader(folder({(root_ / "a.zip").string()}));
    ASSERT_FALSE(archive.ok());
    expect_world(archive.error(), "Too many open files");
  }
  EXPECT_TRUE(rows->fill(0, {}, scratch, batch.view, 0).ok());
  if (geteuid() != 0) {
    fs::permissions(first, fs::perms::none);
    const Status done = rows->fill(0, {}, scratch, batch.view, 0);
    ASSERT_FALSE(done.ok());
    expect_world(done.error(), "Permission denied");
    fs::permissions(first, fs::perms::owner_all);
  }
  // The loader returns the error, although it may replace every broken sample.
  auto loader = make_loader(std::move(rows), {.batch = 1, .max_bad = 1, .workers = 1}).value();
  ASSERT_TRUE(loader->start(0, {&batch.view, 1}).ok());
  ASSERT_TRUE(loader->wait(0).ok());
  loader->stop();
#if !defined( \
    __SANITIZE_ADDRESS__)  // such a build has UBSan, which opens a pipe to look at an object before a virtual call
  const NoMoreFiles guard;
  ASSERT_TRUE(loader->start(0, {&batch.view, 1}).ok());
  const Status waited = loader->wait(0);
  ASSERT_FALSE(waited.ok());
  expect_world(waited.error(), "Too many open files");
  EXPECT_EQ(loader->bad_samples(), 0);
  loader->stop();
#endif
}

TEST_F(Folder, PictureOfAnotherSizeThanTheInputIsNamed) {
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

}  // namespace
}  // namespace xrun::runtime
