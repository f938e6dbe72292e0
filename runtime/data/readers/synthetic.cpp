#include "runtime/data/readers/synthetic.h"

#include <cmath>
#include <fmt/format.h>
#include <numbers>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/random.h"

namespace xrun::runtime {
namespace {

constexpr uint64_t kPrototype = 0x70726f74;  // separates the draws of prototypes from those of samples
constexpr uint64_t kNoise = 0x6e6f6973;

class SyntheticReader final : public Reader {
 public:
  SyntheticReader(const Attrs& args, std::vector<Field> fields)
      : fields_(std::move(fields)),
        shape_(args.integers("shape")),
        classes_(args.integer("classes")),
        samples_(args.integer("samples")),
        seed_(static_cast<uint64_t>(args.integer("seed"))),
        noise_(static_cast<float>(args.real("noise"))) {}

  int64_t samples() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return classes_; }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    const int64_t label = sample % classes_;
    if (field == 1) {
      out.set_integer(fields_[1].type.dtype, label);
      return {};
    }
    auto* pixels = reinterpret_cast<float*>(out.set_own(DType::kF32, shape_));
    const auto count = static_cast<uint64_t>(out.elements());
    const RandomStream prototype(0, static_cast<uint64_t>(label), 0, kPrototype);
    const RandomStream noise(seed_, static_cast<uint64_t>(sample), 0, kNoise);
    // Box-Muller makes two numbers from a pair of draws, so one block of draws serves four pixels.
    for (uint64_t i = 0; i < count; i += 4) {
      const auto base = four_normals(prototype.block(i / 4));
      const auto extra = four_normals(noise.block(i / 4));
      for (uint64_t j = 0; j < 4 && i + j < count; ++j) {
        pixels[i + j] = base[j] + noise_ * extra[j];
      }
    }
    return {};
  }

  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override { return fmt::format("synthetic sample {}", sample); }
  std::string describe() const override {
    return fmt::format("synthetic: {} of [{}], {}", counted(samples_, "sample"), fmt::join(shape_, ", "),
                       counted(classes_, "class"));
  }

 private:
  static std::array<float, 4> four_normals(const std::array<uint32_t, 4>& bits) {
    std::array<float, 4> out{};
    for (size_t pair = 0; pair < 2; ++pair) {
      const float radius = std::sqrt(-2 * std::log(to_open_unit(bits[2 * pair])));
      const float angle = 2 * std::numbers::pi_v<float> * to_unit(bits[2 * pair + 1]);
      out[2 * pair] = radius * std::cos(angle);
      out[2 * pair + 1] = radius * std::sin(angle);
    }
    return out;
  }

  std::vector<Field> fields_;
  std::vector<int64_t> shape_;
  int64_t classes_;
  int64_t samples_;
  uint64_t seed_;
  float noise_;
};

}  // namespace

Result<std::unique_ptr<Reader>> open_synthetic(const SourceSpec& spec, StopFlag) {
  const Attrs& args = spec.reader.args;
  XRUN_ASSIGN(auto fields, data_registry().find_reader("synthetic")->fields(args));
  if (args.integers("shape").size() > 4) {
    return content_error("XG0413", "`shape` has more than four dimensions", "give at most four");
  }
  return std::unique_ptr<Reader>(std::make_unique<SyntheticReader>(args, std::move(fields)));
}

}  // namespace xrun::runtime
