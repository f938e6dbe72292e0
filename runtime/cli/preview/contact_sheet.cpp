#include "runtime/cli/preview/contact_sheet.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/cli/preview/dot_letters.h"

namespace xrun::cli {
namespace {

using Colour = std::array<uint8_t, 3>;
constexpr Colour kInk = {32, 32, 32};
constexpr Colour kFrame = {192, 192, 192};

constexpr int kMargin = 8;
constexpr int kSmallestShown = 112;  // small pictures are enlarged to at least half of this, and labels get this width
constexpr int kMostLines = 3;
constexpr int kAdvance = kLetterWidth + 1;
constexpr int kLineHeight = kLetterHeight + 2;

// The size in which pictures are shown: each pixel `up` times, or the mean of `down` x `down` pixels.
struct Scale {
  int up = 1;
  int down = 1;

  static Scale of(int side) {
    return side > kLargestShown ? Scale{1, (side + kLargestShown - 1) / kLargestShown}
                                : Scale{std::max(1, kSmallestShown / std::max(side, 1)), 1};
  }
  int shown(int side) const { return std::max(1, side / down) * up; }
};

void set_pixel(ShownPicture& sheet, int x, int y, const Colour& colour) {
  const size_t at = 3 * (static_cast<size_t>(y) * static_cast<size_t>(sheet.width) + static_cast<size_t>(x));
  std::ranges::copy(colour, sheet.pixels.begin() + static_cast<ptrdiff_t>(at));
}

// The colour of pixel (x, y) of a picture that is shown in this scale.
Colour shown_pixel(const ShownPicture& picture, int x, int y, Scale scale) {
  std::array<int, 3> sums{};
  const int left = x / scale.up * scale.down;
  const int top = y / scale.up * scale.down;
  const int right = std::min(left + scale.down, picture.width);
  const int bottom = std::min(top + scale.down, picture.height);
  for (int v = top; v < bottom; ++v) {
    for (int u = left; u < right; ++u) {
      for (size_t c = 0; c < 3; ++c) {
        const size_t at = static_cast<size_t>(v) * static_cast<size_t>(picture.width) + static_cast<size_t>(u);
        sums[c] += picture.pixels[3 * at + c];
      }
    }
  }
  const int count = (right - left) * (bottom - top);
  Colour colour;
  std::ranges::transform(sums, colour.begin(),
                         [&](int sum) { return static_cast<uint8_t>((sum + count / 2) / count); });
  return colour;
}

// Splits a text into lines of at most `width` letters, after separators if the text then has few enough lines.
std::vector<std::string> lines_of(std::string text, size_t width) {
  const size_t most = kMostLines * width;
  if (text.size() > most) {
    const size_t kept = (most - 2) / 2;
    text = text.substr(0, kept) + ".." + text.substr(text.size() - kept);
  }
  std::vector<std::string> lines;
  while (text.size() > width && lines.size() + 1 < kMostLines) {
    const size_t separator = text.find_last_of(" /_-.", width - 1);
    const bool rest_fits =
        separator != std::string::npos && text.size() - separator - 1 <= (kMostLines - lines.size() - 1) * width;
    const size_t end = rest_fits ? separator + 1 : width;
    lines.push_back(text.substr(0, end));
    text.erase(0, end);
  }
  lines.push_back(text);
  return lines;
}

struct Layout {
  int columns = 1;
  int width = 0;    // width of a cell without its margin
  int height = 0;   // height of the picture
  int letters = 1;  // size of the dots of letters, in pixels
  int lines = 1;
  Scale scale;

  size_t line_width() const { return static_cast<size_t>(width / (kAdvance * letters)); }
  int text_height() const { return lines * kLineHeight * letters; }
};

Layout layout_of(std::span<const SheetCell> cells, int columns) {
  Layout layout{.columns = columns};
  int width = 1;
  int height = 1;
  size_t longest = 1;
  for (const SheetCell& cell : cells) {
    width = std::max(width, cell.picture.width);
    height = std::max(height, cell.picture.height);
    longest = std::max(longest, in_letters(cell.label).size());
  }
  layout.scale = Scale::of(std::max(width, height));
  layout.width = std::max(layout.scale.shown(width), kSmallestShown);
  layout.height = layout.scale.shown(height);
  layout.letters = 2;
  layout.letters = longest <= layout.line_width() ? 2 : 1;
  for (const SheetCell& cell : cells) {
    const auto lines = lines_of(in_letters(cell.label), layout.line_width());
    layout.lines = std::max(layout.lines, static_cast<int>(lines.size()));
  }
  return layout;
}

void draw_text(ShownPicture& sheet, const std::string& text, int left, int top, int size) {
  for (size_t i = 0; i < text.size(); ++i) {
    for (int y = 0; y < kLetterHeight * size; ++y) {
      for (int x = 0; x < kLetterWidth * size; ++x) {
        if (has_dot(text[i], x / size, y / size)) {
          set_pixel(sheet, left + static_cast<int>(i) * kAdvance * size + x, top + y, kInk);
        }
      }
    }
  }
}

// Draws a cell whose picture begins at (left, top).
void draw_cell(ShownPicture& sheet, const SheetCell& cell, const Layout& layout, int left, int top) {
  const int width = cell.picture.pixels.empty() ? layout.width : layout.scale.shown(cell.picture.width);
  const int at = left + (layout.width - width) / 2;
  for (int y = -1; y <= layout.height; ++y) {
    for (int x = -1; x <= width; ++x) {
      const bool inside = x >= 0 && y >= 0 && x < width && y < layout.height;
      if (!inside) {
        set_pixel(sheet, at + x, top + y, kFrame);
      } else if (!cell.picture.pixels.empty()) {
        set_pixel(sheet, at + x, top + y, shown_pixel(cell.picture, x, y, layout.scale));
      }
    }
  }
  const auto lines = lines_of(in_letters(cell.label), layout.line_width());
  for (size_t i = 0; i < lines.size(); ++i) {
    const int text_width = static_cast<int>(lines[i].size()) * kAdvance * layout.letters - layout.letters;
    draw_text(sheet, lines[i], left + (layout.width - text_width) / 2,
              top + layout.height + kMargin / 2 + static_cast<int>(i) * kLineHeight * layout.letters, layout.letters);
  }
}

}  // namespace

ShownPicture draw_sheet(std::span<const SheetCell> cells, int columns) {
  const Layout layout = layout_of(cells, columns);
  const int rows = (static_cast<int>(cells.size()) + columns - 1) / columns;
  const int cell_width = layout.width + kMargin;
  const int cell_height = layout.height + kMargin / 2 + layout.text_height() + kMargin;
  ShownPicture sheet{.width = columns * cell_width + kMargin, .height = rows * cell_height + kMargin};
  sheet.pixels.assign(3 * static_cast<size_t>(sheet.width) * static_cast<size_t>(sheet.height), 255);
  for (size_t i = 0; i < cells.size(); ++i) {
    const int column = static_cast<int>(i) % columns;
    const int row = static_cast<int>(i) / columns;
    draw_cell(sheet, cells[i], layout, kMargin + column * cell_width, kMargin + row * cell_height);
  }
  return sheet;
}

}  // namespace xrun::cli
