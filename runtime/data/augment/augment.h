// Augmentation: the stages of a data binding. Each one is a step on the working value of one sample.
//
// Definitions (x is the picture; every draw is RandomStream(seed, epoch, sample, number of the stage in its binding),
// so it depends on nothing else; `epoch` is the number of earlier draws of the sample):
//   decode         RGB or grey, transparent pixels over the background; with a size, resized (bilinear)
//   resize         resizer.h; no rounding to bytes. With `shorter`, the longer side keeps the ratio of the sides
//   random_crop    pads with zeros, then a square at a uniform place; outside training the square in the middle
//   random_resized_crop  ten attempts: a rectangle of area · (the picture's), area uniform in an interval, the
//   logarithm
//                  of its width over its height uniform between those of `ratio`, sides rounded; the first one that
//                  fits lies at a uniform place and is resized. Else the largest rectangle in the middle whose ratio is
//                  allowed. Outside training, the largest square in the middle.
//                  Places in the middle, and sides, are rounded half to even, as in torchvision
//   random_flip    left and right swapped with probability 1/2
//   random_affine  out(p) = x(A^-1 (p - c - t) + c), A = rotation · shear · diag(sx, sy); angle, shear uniform in ±,
//                  sx, sy in 1 ± scale, t in ± shift · size; bilinear, zero outside
//   affine         out(p) = x(A^-1 (p - c - t) + c), A = scale · rotation · shear, as
//   torchvision.transforms.RandomAffine:
//                  t in whole pixels; bilinear, `fill` outside
//   random_stroke  u uniform in ±w; u > 0: x + u·(dilate3(x) - x), else x + |u|·(erode3(x) - x)
//   random_blur    with probability p: x + w·(mean3(x) - x), w uniform in [0, 1)
//   blur           with probability p, the Gaussian filter of picture.h, sigma uniform in an interval
//   random_erasing with probability p, a rectangle (rectangle.h) with constant values or standard normal numbers
//   rand_augment   rand_augment.h
//   color_jitter   jitter.h, with factors uniform in 1 ± each
//   random_noise   x + sigma·z, clamped to 0..1; z: picture.h
//   mixup, cutmix  mixing.h, once the rows of the sample and of its partner are finished
// The other random stages do nothing outside training.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/settings/reader_def.h"
#include "graph/settings/specs.h"
#include "runtime/data/augment/ngrams.h"
#include "runtime/data/pictures/picture.h"
#include "runtime/data/pictures/resizer.h"
#include "runtime/data/readers/reader.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::runtime {

// The key of the random draws of one sample.
struct DrawKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t sample = 0;
  bool training = true;
};

struct AugmentStep;

// Working memory of one worker; after the first samples nothing more is allocated.
struct AugmentScratch {
  FieldValue source;  // the field as the reader returned it
  // kFile: `source` is an encoded picture that the next stage decodes, as the step `decode` says.
  enum Form { kSource, kFile, kPicture, kRow, kNumber } form = kSource;
  const AugmentStep* decode = nullptr;
  PictureHeader header;  // header of that picture, once a stage has read it
  Picture picture;
  Picture other;  // the result of stages that cannot work in place; swapped with the working picture afterwards
  std::vector<double> row;  // exact, unlike the f32 of a picture
  double number = 0;
  Resizer resizer;
  std::vector<uint8_t> decoded;
  std::vector<uint32_t> draws;
  std::vector<float> line;         // a row of a picture with its reflected border
  std::vector<int32_t> labels;     // labels of one sample, for counting them if the batch does not contain the input
  std::vector<std::byte> partner;  // the row of a sample that is mixed with another one
  NgramScratch ngrams;

  // If set, is called at the end of each part of the work on a sample with the name of the part: "read", "decode",
  // "resize", the name of a stage, or "store". Used by measurements.
  std::function<void(std::string_view part)> on_part;
  void end_part(std::string_view part) const {
    if (on_part) {
      on_part(part);
    }
  }
};

// A compiled stage: the function that runs, with its arguments.
struct AugmentStep {
  Status (*run)(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) = nullptr;
  uint64_t stage = 0;
  std::vector<float> a;  // arguments; their meaning depends on the kind of stage
  std::vector<float> b;
  int64_t size = 0;
  int64_t extra = 0;
  int64_t height = 0;  // size of the result of `decode` and `resize`; 0: that of the picture, or by `shorter`
  int64_t width = 0;
  int64_t shorter = 0;  // length of the shorter side after `resize`
  ResizeMethod method;
  bool fast = false;               // `decode` may approximate pictures that are resized to at most half of their size
  bool defers = false;             // `decode` leaves the decoding to the next stage
  std::string_view name;           // name of the stage
  std::vector<int64_t> columns;    // positions of the columns that the stage reads
  std::vector<std::string> names;  // names of these columns, if they have names
  std::vector<double> values;      // numbers of `ignore`, the value of `fill_missing`, the means of `standardize`
  std::vector<double> deviations;  // deviations of `standardize`, one for each mean
  NgramForm ngrams;                // arguments of `ngrams`
  bool missing = false;            // missing values are kept for a later stage `ignore` or `fill_missing`
};

// Makes the step of one stage of a binding; its `run` is null if this version has no stage of that name.
AugmentStep augment_step(const CallSpec& call);

// Makes the source's value the working picture. A value that is not a picture becomes rows of a single plane.
void load_picture(AugmentScratch& scratch);

// Makes the numbers in the source's value the working row.
void load_row(AugmentScratch& scratch);

// The working number, or the first number of the working picture or row.
double number_of(const AugmentScratch& scratch);

// Checks a label. Errors: XG0402 `number` is not a class in 0..classes - 1 (classes = 0: no upper bound). If the number
// is too large, the error has a label but no help: perhaps the model needs more classes, which explain_label proposes.
Status check_label(double number, int64_t classes);

}  // namespace xrun::runtime
