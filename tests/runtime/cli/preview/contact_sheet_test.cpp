#include "runtime/cli/preview/contact_sheet.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "runtime/cli/preview/dot_letters.h"

namespace xrun::cli {
namespace {

SheetCell cell(int width, int height, uint8_t grey, std::string label) {
  return {{width, height, std::vector<uint8_t>(static_cast<size_t>(3 * width * height), grey)}, std::move(label)};
}

int at(const ShownPicture& sheet, int x, int y) { return sheet.pixels[3 * static_cast<size_t>(y * sheet.width + x)]; }

// The number of dark pixels, those of letters, in a rectangle.
int ink(const ShownPicture& sheet, int left, int top, int right, int bottom) {
  int count = 0;
  for (int y = top; y < bottom; ++y) {
    for (int x = left; x < right; ++x) {
      count += at(sheet, x, y) < 100;
    }
  }
  return count;
}

TEST(ContactSheet, PicturesLieInRowsAndColumnsWithWhiteBetween) {
  std::vector<SheetCell> cells;
  for (int i = 0; i < 5; ++i) {
    cells.push_back(cell(56, 56, static_cast<uint8_t>(110 + i * 20), ""));
  }
  const ShownPicture sheet = draw_sheet(cells, 3);
  // Pictures of 56 pixels are drawn twice as large. A cell is 112 wide, and 8 pixels are between them.
  ASSERT_EQ(sheet.width, 3 * 120 + 8);
  const int cell_height = (sheet.height - 8) / 2;
  for (int i = 0; i < 5; ++i) {
    const int left = 8 + i % 3 * 120;
    const int top = 8 + i / 3 * cell_height;
    for (const int d : {0, 1, 50, 111}) {
      EXPECT_EQ(at(sheet, left + d, top + d), 110 + i * 20) << i;
    }
    EXPECT_EQ(at(sheet, left - 3, top), 255);
    EXPECT_EQ(at(sheet, left, top + 116), 255);
  }
  EXPECT_EQ(at(sheet, 8 + 2 * 120 + 50, 8 + cell_height + 50), 255) << "the sixth cell is empty";
}

TEST(ContactSheet, LargePicturesBecomeMeansOfSquares) {
  SheetCell large = cell(512, 300, 0, "x");
  for (size_t i = 0; i < large.picture.pixels.size() / 3; ++i) {
    std::fill_n(large.picture.pixels.begin() + static_cast<ptrdiff_t>(3 * i), 3, i % 2 == 0 ? 100 : 151);
  }
  const ShownPicture sheet = draw_sheet(std::vector{large}, 1);
  EXPECT_EQ(sheet.width, 256 + 16);
  EXPECT_EQ(at(sheet, 8 + 100, 8 + 100), 126);
  EXPECT_EQ(at(sheet, 8 + 100, 8 + 149), 126);
}

TEST(ContactSheet, NoLabelReachesIntoAnotherCell) {
  const std::vector<std::string> labels = {"7",
                                           "a label of several words",
                                           "Alphabet_of_the_Magi/character01",
                                           std::string(200, 'W'),
                                           "\xe4\xb8\x80\xe4\xb8\x81",
                                           "\xff\x01"};
  for (const std::string& label : labels) {
    const std::vector<SheetCell> cells = {cell(32, 32, 200, ""), cell(32, 32, 200, label), cell(32, 32, 200, "")};
    const ShownPicture sheet = draw_sheet(cells, 3);
    const int left = 8 + 120;
    EXPECT_GT(ink(sheet, left, 8 + 96, left + 112, sheet.height), 5) << label;
    EXPECT_EQ(ink(sheet, 0, 0, left - 1, sheet.height), 0) << label;
    EXPECT_EQ(ink(sheet, left + 113, 0, sheet.width, sheet.height), 0) << label;
    EXPECT_EQ(ink(sheet, 0, sheet.height - 4, sheet.width, sheet.height), 0) << label;
    EXPECT_EQ(ink(sheet, left, 0, left + 112, 8 + 97), 0) << "on the picture: " << label;
  }
}

TEST(ContactSheet, AnEmptyCellHasAFrame) {
  const std::vector<SheetCell> cells = {cell(32, 32, 50, "good"), {{}, "broken"}};
  const ShownPicture sheet = draw_sheet(cells, 2);
  EXPECT_EQ(at(sheet, 8 + 120 + 50, 7), 192);
  EXPECT_EQ(at(sheet, 8 + 120 + 50, 8 + 40), 255);
}

TEST(DotLetters, EachCharacterHasItsOwnPattern) {
  std::set<std::string> patterns;
  for (char letter = ' '; letter <= '~'; ++letter) {
    std::string pattern;
    for (int y = 0; y < kLetterHeight; ++y) {
      for (int x = 0; x < kLetterWidth; ++x) {
        pattern += has_dot(letter, x, y) ? '#' : '.';
      }
    }
    EXPECT_EQ(pattern.find('#') == std::string::npos, letter == ' ') << letter;
    patterns.insert(pattern);
  }
  EXPECT_EQ(patterns.size(), 95U);
  EXPECT_FALSE(has_dot('\x7f', 2, 3));
}

TEST(DotLetters, OtherCharactersAreCodePoints) {
  EXPECT_EQ(in_letters("a \xe4\xb8\x80~"), "a U+4E00~");
  EXPECT_EQ(in_letters("\xf0\x9f\x8d\x8e"), "U+1F34E");
  EXPECT_EQ(in_letters("\xc3\xa9"), "U+00E9");
  EXPECT_EQ(in_letters("a\xff"), "a?");
  EXPECT_EQ(in_letters("\n"), "U+000A");
}

}  // namespace
}  // namespace xrun::cli
