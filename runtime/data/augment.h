// Augmentation: the compiled form of a data binding, `image = pixels -> scale(1 / 255) -> random_affine(...)`, from a
// field of a source to one row of an input of the graph.
//
// Definitions (x is the picture; every draw is RandomStream(seed, epoch, sample, number of the stage in its binding),
// so it depends on nothing else):
//   decode         RGB or grey; with a size, resized
//   resize         triangle filter, widened by the ratio when it shrinks (antialiased bilinear); no rounding to bytes
//   random_crop    pads with zeros, then a square at a uniform place; outside training the square in the middle
//   random_flip    left and right swapped with probability 1/2
//   random_affine  out(p) = x(A^-1 (p - c - t) + c), A = rotation · shear · diag(sx, sy); angle, shear uniform in ±,
//                  sx, sy in 1 ± scale, t in ± shift · size; bilinear, zero outside
//   random_stroke  u uniform in ±w; u > 0: x + u·(dilate3(x) - x), else x + |u|·(erode3(x) - x)
//   random_blur    with probability p: x + w·(mean3(x) - x), w uniform in [0, 1)
//   random_noise   x + sigma·z, clamped to 0..1; z: picture.h
// Random stages do nothing outside training.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/reader_def.h"
#include "graph/specs.h"
#include "runtime/data/picture.h"
#include "runtime/data/reader.h"

namespace xrun::runtime {

// What the draws of one sample are for.
struct DrawKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t sample = 0;
  bool training = true;
};

// Working memory of one worker; after the first samples nothing more is allocated.
struct AugmentScratch {
  FieldValue source;  // what the reader gave
  enum Form { kSource, kPicture, kNumber } form = kSource;
  Picture picture;
  Picture other;  // the result of stages that cannot work in place; then swapped
  double number = 0;
  Resizer resizer;
  std::vector<uint8_t> decoded;
  std::vector<uint32_t> draws;
};

class Transform {
 public:
  // Compiles `binding` for a field of the given (found) type and the input that it feeds. Errors, with the span of the
  // stage or the binding: XG0404 the sample has another shape than the input, XG0409 a stage does not fit what comes
  // in, XG0410 a stage of a later version.
  static Result<Transform> compile(const DataBinding& binding, const Field& field, const TensorType& target);

  // Runs on the value in scratch.source and writes one row of the input: pictures channels-last, numbers in the
  // input's dtype. Errors: XG0412 a broken file, XG0402 a label out of range, XG0404 a sample of another size; without
  // the sample's name.
  Status run(AugmentScratch& scratch, const DrawKey& key, std::byte* out) const;

  // Bytes of one row.
  Bytes row_bytes() const { return row_bytes_; }

  struct Step {
    Status (*run)(const Step& step, AugmentScratch& scratch, const DrawKey& key) = nullptr;
    uint64_t stage = 0;
    std::vector<float> a;  // arguments, by kind of stage
    std::vector<float> b;
    int64_t size = 0;
    int64_t extra = 0;
  };

 private:
  std::vector<Step> steps_;
  TensorType target_;
  Bytes row_bytes_ = 0;
};

}  // namespace xrun::runtime
