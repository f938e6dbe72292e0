// Rows of an input as pictures that can be looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/settings/reader_def.h"
#include "graph/settings/specs.h"
#include "graph/types/tensor_type.h"

namespace xrun::cli {

// A picture of bytes, [height, width, 3]: RGB.
struct ShownPicture {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;
};

// Turns rows of an input into pictures. The stages `scale` and `normalize` of its binding are inverted, so that pixels
// have values of 0 to 255 again. If that is impossible, since the source does not give such pixels or a stage
// multiplies them by 0, each picture is stretched from its smallest to its largest value. Three channels are RGB; of
// other numbers, the first is shown as grey.
class Display {
 public:
  // `binding` turns the field of a source into the input of the type `target`. REQUIRES: `target` is [N, C, H, W] of
  // f32, bf16 or f64, and the stages were checked.
  Display(const DataBinding& binding, const Field& field, const TensorType& target);

  bool is_stretched() const { return stretched_; }
  // `row`: one row of the input, [H, W, C], as SampleRows::fill writes it.
  ShownPicture show(const std::byte* row) const;

 private:
  TensorType target_;
  bool stretched_ = false;
  std::vector<double> factor_;  // a channel of the input is pixel · factor + offset
  std::vector<double> offset_;
};

}  // namespace xrun::cli
