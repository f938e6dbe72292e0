#include "runtime/data/augment/jitter.h"

namespace xrun::runtime {
namespace {

constexpr float kRed = 0.299F;
constexpr float kGreen = 0.587F;
constexpr float kBlue = 0.114F;

// The grey value of the pixel in column x and row y.
float grey_at(const Picture& picture, int y, int x) {
  return picture.channels() == 3
             ? kRed * picture.row(0, y)[x] + kGreen * picture.row(1, y)[x] + kBlue * picture.row(2, y)[x]
             : picture.row(0, y)[x];
}

float mean_grey(const Picture& picture) {
  double sum = 0;
  for (int y = 0; y < picture.height(); ++y) {
    for (int x = 0; x < picture.width(); ++x) {
      sum += static_cast<double>(grey_at(picture, y, x));
    }
  }
  return static_cast<float>(sum / (static_cast<double>(picture.height()) * picture.width()));
}

}  // namespace

void jitter(Picture& picture, float brightness, float contrast, float saturation) {
  // Contrast keeps the mean of the picture, and brightness multiplies it. So both together are one product and one sum.
  const float factor = brightness * contrast;
  const float offset = contrast == 1 ? 0 : (1 - contrast) * brightness * mean_grey(picture);
  const int channels = picture.channels();
  for (int y = 0; y < picture.height(); ++y) {
    for (int x = 0; x < picture.width(); ++x) {
      for (int c = 0; c < channels; ++c) {
        float& value = picture.row(c, y)[x];
        value = value * factor + offset;
      }
      if (channels == 3 && saturation != 1) {
        const float grey = grey_at(picture, y, x);
        for (int c = 0; c < channels; ++c) {
          float& value = picture.row(c, y)[x];
          value = grey + saturation * (value - grey);
        }
      }
    }
  }
}

}  // namespace xrun::runtime
