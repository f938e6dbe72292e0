// Pictures that are named on the command line are read as the model's own source would read them.
#include "runtime/data/readers/picture_files.h"

#include <gmock/gmock.h>

#include "runtime/formats/pictures/decode.h"
#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;
using testing::png;

class PictureFiles : public testing::Files {
 protected:
  const Field encoded_{.name = "file", .type = {DType::kU8, {kBatch, 0}}, .encoded = true};
  const Field pixels_{.name = "pixels", .type = {DType::kU8, {kBatch, 1, 6, 4}}};

  void expect_fault(const std::vector<std::string>& paths, const Field& like, const char* code,
                    const std::string& words) const {
    const auto opened = open_picture_files({.paths = paths}, like);
    ASSERT_FALSE(opened.ok()) << words;
    EXPECT_EQ(opened.error().code, code) << opened.error().message;
    EXPECT_THAT(opened.error().message, HasSubstr(words));
  }
};

TEST_F(PictureFiles, ArePassedUnchangedToAnEncodedField) {
  const std::string bytes = png(8, 200);
  const auto reader =
      open_picture_files({.paths = {write("a.png", bytes), write("b.png", png(3, 7))}}, encoded_).value();
  EXPECT_EQ(reader->samples(), 2);
  EXPECT_THAT(reader->sample_name(1), HasSubstr("b.png"));
  FieldValue value;
  ASSERT_TRUE(reader->read(0, 0, value).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()), bytes);
}

TEST_F(PictureFiles, AreDecodedAndResizedForAFieldOfPixels) {
  const auto reader = open_picture_files({.paths = {write("a.png", png(12, 16, 200))}}, pixels_).value();
  FieldValue value;
  ASSERT_TRUE(reader->read(0, 0, value).ok());
  ASSERT_EQ(value.bytes.size(), 6u * 4);
  EXPECT_TRUE(std::ranges::all_of(value.bytes, [](std::byte b) { return b == std::byte{200}; }));
}

TEST_F(PictureFiles, FaultsNameTheFile) {
  expect_fault({(root_ / "none.png").string()}, encoded_, "XG0401", "none.png");
  expect_fault({write("a.png", png(8, 1))}, {.name = "row", .type = {DType::kF32, {kBatch, 4}}}, "XG0412", "`row`");
  const std::string large = write("large.png", "");
  std::filesystem::resize_file(large, 256 * kMiB + 1);  // a sparse file
  expect_fault({large}, encoded_, "XG0412", "large.png: a picture of more than 256.0 MiB");

  const auto reader = open_picture_files({.paths = {write("text.png", "no picture")}}, pixels_).value();
  FieldValue value;
  const Status read = reader->read(0, 0, value);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, "XG0412");
  EXPECT_THAT(read.error().message, HasSubstr("text.png: "));
}

// Files with every extension of the table, and a file without an extension, which is recognised by its content.
TEST_F(PictureFiles, AreFoundInADirectoryByExtensionOrContent) {
  std::vector<std::string> wanted;
  for (const char* name : {"a.apng", "b.bmp", "c.DIB", "d.jfif", "e.jpe", "f.jpeg", "g.jpg", "h.pgm", "i.png", "j.pnm",
                           "k.ppm", "l.webp", "m", "n/p"}) {
    wanted.push_back(write(std::string("in/") + name, png(4, 1)));
  }
  write("in/README", "P3rhaps BMW, RIFF and \x89PN are words");
  write("in/BMW", "BMW is no bitmap");
  write("in/empty", "");
  write("in/notes.txt", png(4, 1));
  write("in/archive.tar.gz", "x");
  write("in/.hidden", png(4, 1));
  const PictureList list = list_pictures({(root_ / "in").string()}).value();
  EXPECT_EQ(list.paths, wanted);
  EXPECT_EQ(list.left_out.others.count(), 5);
  const auto reader = open_picture_files(list, encoded_).value();
  ASSERT_EQ(reader->warnings().size(), 1u);
  EXPECT_EQ(reader->warnings()[0].code, "XG0415");
  EXPECT_THAT(reader->warnings()[0].message,
              HasSubstr("5 files are not read, since pictures are PNG, JPEG, WebP, BMP, PGM and PPM files"));
  EXPECT_THAT(reader->warnings()[0].message, HasSubstr("in/BMW"));
  // A file that is named on the command line is read, whatever its extension is.
  EXPECT_TRUE(list_pictures({(root_ / "in/notes.txt").string()}).value().left_out.others.count() == 0);
}

TEST_F(PictureFiles, MessagesAndDocumentationListTheSameFormats) {
  const ReaderDef* folder = data_registry().find_reader("folder");
  ASSERT_NE(folder, nullptr);
  EXPECT_THAT(std::string(folder->doc), ::testing::StartsWith(picture_formats() + " files"));
  EXPECT_TRUE(has_picture_extension("a/b.c/d.JPE"));
  for (const char* name : {"png", "a.png/b", "a.", "a.pn", "a.p", "a. ", "a.pngx", "a.png .jpg ", ""}) {
    EXPECT_FALSE(has_picture_extension(name)) << name;
  }
}

}  // namespace
}  // namespace xrun::runtime
