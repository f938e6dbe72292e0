// Resizes pictures as Pillow does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/base/units.h"
#include "runtime/data/pictures/picture.h"
#include "runtime/formats/pictures/pixels.h"

namespace xrun::runtime {

// The filter over the distance d of a source pixel from the centre of a pixel of the result, in source pixels:
//   bilinear  1 - |d| up to 1
//   bicubic   Keys' cubic convolution with a = -0.5, up to 2 ("Cubic convolution interpolation for digital image
//             processing", 1981)
enum class ResizeFilter : uint8_t { kBilinear, kBicubic };

struct ResizeMethod {
  ResizeFilter filter = ResizeFilter::kBilinear;
  bool antialias = true;  // widens the filter by the ratio of the sizes if a side shrinks
  // Whether the pixels are 0 to 255, so that a cubic's overshoot is cut off: after the columns and after the rows, as
  // in Pillow.
  bool is_bytes = true;
};

// Resizes a picture to another one; pixel centres are at 0.5. Weights of pixels outside the source are shared among the
// pixels inside. Results are f32 and are not rounded.
class Resizer {
 public:
  // Resizes `from` to the size of `to`. Keeps the filter weights of the last pair of sizes, and a few rows of memory.
  // The width of a picture is determined by its file, so memory must not grow with the product of that width and the
  // height of `to`.
  void resize(const Picture& from, const ResizeMethod& method, Picture& to);
  // Resizes the part `box` of the interleaved bytes [height, width, channels of `to`] of a decoded picture. Pixels
  // outside of the box do not count, except those that its sides divide. If the box is the whole picture, the result is
  // that of the other function, bit for bit.
  void resize(const uint8_t* from, int width, const PictureBox& box, const ResizeMethod& method, Picture& to);
  // The most memory that the object keeps after it has resized a picture of [height, width] to [to_height, to_width].
  static Bytes bytes(int channels, int64_t height, int64_t width, int64_t to_height, int64_t to_width);

 private:
  // The weights of one side, for source pixels counted from the first one that the box touches.
  struct Axis {
    int from = 0;      // number of source pixels
    double begin = 0;  // begin and length of the box in them
    double length = 0;
    int to = 0;
    ResizeMethod method;
    int taps = 0;                // the largest number of weights of a pixel
    std::vector<int> first;      // [to] first source pixel with a weight
    std::vector<int> count;      // [to] number of its weights
    std::vector<float> weights;  // [to, taps]
    void prepare(double box_begin, double box_length, int to_size, const ResizeMethod& how);
    std::span<const float> weights_of(int i) const {
      const auto at = static_cast<size_t>(i);
      return {weights.data() + at * static_cast<size_t>(taps), static_cast<size_t>(count[at])};
    }
  };
  // Rows of a source, `stride` elements apart: pixels of `lanes` interleaved channels.
  template <typename T>
  struct Rows {
    const T* first;
    ptrdiff_t stride;
    int lanes;
    const T* operator()(int y) const { return first + y * stride; }
  };

  // These fill the planes channel .. channel + lanes - 1 of `to`. REQUIRES: the axes are prepared.
  template <typename T>
  void rows_first(const Rows<T>& rows, int channel, Picture& to);
  template <typename T>
  void columns_first(const Rows<T>& rows, int channel, Picture& to);
  template <typename T>
  void resize_rows(const Rows<T>& rows, int channel, Picture& to);
  void resize_row(const float* from, int lanes, float* const* to) const;

  Axis vertical_;
  Axis horizontal_;
  std::vector<float> row_;   // a row as wide as the source
  std::vector<float> ring_;  // columns_first: rows as wide as the result; row y replaces row y - vertical_.taps
};

}  // namespace xrun::runtime
