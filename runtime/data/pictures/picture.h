// A picture as the augmentations process it: planar f32 with a border around each plane for vector code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/base/random.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// Planes [channels, height, width] of f32. Rows are `stride` apart, a multiple of 8; around each plane lies a border of
// one pixel, and to the right of a row vector code may read and write up to seven more.
class Picture {
 public:
  // Gives the picture this size; its contents are undefined. Reuses its memory if that is large enough.
  void reshape(int channels, int height, int width);

  // The memory that a picture of this size takes.
  static Bytes bytes(int channels, int64_t height, int64_t width);

  int channels() const { return channels_; }
  int height() const { return height_; }
  int width() const { return width_; }
  int stride() const { return stride_; }
  int64_t elements() const { return int64_t{channels_} * height_ * width_; }
  // Row y of plane c, for y in [-1, height]; -1 and height are rows of the border.
  float* row(int c, int y) { return data_.data() + offset(c, y); }
  const float* row(int c, int y) const { return data_.data() + offset(c, y); }

  void zero_border();
  void replicate_border();

 private:
  ptrdiff_t offset(int c, int y) const { return (static_cast<ptrdiff_t>(c) * (height_ + 2) + y + 1) * stride_ + kLead; }
  static int64_t stride_of(int64_t width) { return (kLead + width + 8 + 7) / 8 * 8; }
  static constexpr int kLead = 8;  // start of a row: pixel -1 is its last float, and pixel 0 is aligned

  int channels_ = 0;
  int height_ = 0;
  int width_ = 0;
  int stride_ = 0;
  std::vector<float> data_;
};

// These convert planar u8 or f32, or interleaved u8, to a planar f32 picture.
void load_planar(const uint8_t* from, Picture& to);
void load_planar(const float* from, Picture& to);
void load_interleaved(const uint8_t* from, Picture& to);
// The rows of interleaved pixels begin `row_bytes` apart.
void load_interleaved(const uint8_t* from, ptrdiff_t row_bytes, Picture& to);

// x = x · factor[c] + offset[c] for channel c; a span with one value applies to all channels.
void scale_shift(Picture& picture, std::span<const float> factor, std::span<const float> offset);

// Copies the rectangle at (top, left) with the size of `to`; the part of it outside `from` becomes zeros.
void crop(const Picture& from, int top, int left, Picture& to);
void flip_horizontally(Picture& picture);

// Sets pixel p of `to` to the value of `from` at the point matrix · (p - centre - shift) + centre, bilinear, zero
// outside. `matrix` is row-major 2x2 over (x, y); `shift` is in pixels. Both pictures have the same size.
struct Affine {
  float matrix[4];
  float shift_x;
  float shift_y;
};
void warp(Picture& from, const Affine& affine, Picture& to);

// u > 0: x + u · (dilate3(x) - x); else x + |u| · (erode3(x) - x). Pixels outside the picture do not count.
void stroke(Picture& from, float u, Picture& to);
// x + weight · (mean3(x) - x), edges replicated.
void blur(Picture& from, float weight, Picture& to);

// A Gaussian filter of `kernel` x `kernel` pixels, an odd number, whose weights sum to 1; the border is reflected
// without repeating the pixel at the edge, as in torchvision. REQUIRES: kernel / 2 is below both sides. `line` is
// working memory.
void gaussian_blur(const Picture& from, int kernel, float sigma, Picture& to, std::vector<float>& line);

// Adds sigma · z, then clamps to 0..1. z is the sum of the four bytes of one 32-bit draw, centred and scaled to unit
// variance (Irwin-Hall of order 4: bell-shaped, within ±3.45; excess kurtosis -0.3). Pixel i in [C, H, W] order uses
// draw i of the stream. `draws` is working memory.
void add_noise(Picture& picture, float sigma, const RandomStream& stream, std::vector<uint32_t>& draws);

}  // namespace xrun::runtime
