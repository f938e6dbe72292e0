// Resizes pictures.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/units.h"
#include "runtime/data/pictures/picture.h"

namespace xrun::runtime {

// Resizes by a triangle filter, widened if the picture shrinks (antialiased bilinear); pixel centres are at 0.5.
class Resizer {
 public:
  // Resizes `from` to the size of `to`. Keeps the filter weights of the last pair of sizes, and one row of memory. The
  // width of a picture is determined by its file, so memory must not grow with the product of that width and the height
  // of `to`.
  void resize(const Picture& from, Picture& to);
  // Gives the same result, bit for bit, for the interleaved bytes [height, width, channels of `to`] of a decoded
  // picture; only the rows under the filter are in f32 at a time.
  void resize(const uint8_t* from, int height, int width, Picture& to);
  // The memory that the object keeps after it has resized a picture of [height, width] bytes to the height `to_height`.
  static Bytes bytes(int64_t height, int64_t width, int64_t to_height);

 private:
  struct Axis {
    int from = 0;
    int to = 0;
    int taps = 0;
    std::vector<int> first;
    std::vector<float> weights;  // weights of the filter: [to, taps]
    void prepare(int from_size, int to_size);
  };
  template <typename Rows>
  void resize_rows(int width, Rows rows, Picture& to);  // REQUIRES: vertical_.prepare was called
  template <typename Rows>
  void blend(int width, int y, const Rows& rows);  // fills middle_ for row y of `to`

  Axis vertical_;
  Axis horizontal_;
  std::vector<float> middle_;  // one row of `to`, still as wide as `from`
  std::vector<float> held_;    // rows of a plane, converted from bytes
};

}  // namespace xrun::runtime
