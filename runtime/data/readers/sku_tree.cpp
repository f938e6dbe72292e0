#include "runtime/data/readers/sku_tree.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "graph/base/counted.h"

namespace xrun::runtime {
namespace {

// The last key of a random stream: the purpose of its draws.
enum class Draw : uint64_t { kDepartment = 0x736b7530, kGroup, kArticle, kNoise, kConflict, kRank, kPlace };

constexpr float kGroupWeight = 0.6F;
constexpr float kArticleWeight = 0.4F;
// A constant: the tree does not depend on the seed of the samples, so that two sources have the same classes.
constexpr uint64_t kTreeSeed = 0;

RandomStream stream(Draw what, uint64_t seed, int64_t number) {
  return {seed, static_cast<uint64_t>(number), 0, static_cast<uint64_t>(what)};
}

// Returns the smallest number whose cube is at least n.
int64_t cube_root(int64_t n) {
  auto root = static_cast<int64_t>(std::cbrt(static_cast<double>(n)));
  root -= root > 1 ? 1 : 0;
  while (root * root * root < n) {
    ++root;
  }
  return root;
}

// Adds normally distributed numbers of the stream, multiplied by `weight`, to `out`.
void add_normal(const RandomStream& numbers, float weight, std::span<float> out) {
  std::array<float, 64> part;
  for (size_t first = 0; first < out.size(); first += part.size()) {
    const size_t count = std::min(part.size(), out.size() - first);
    numbers.fill_normal(first, {part.data(), count});
    for (size_t i = 0; i < count; ++i) {
      out[first + i] += weight * part[i];
    }
  }
}

class SkuTreeReader final : public Reader {
 public:
  SkuTreeReader(const Attrs& args, std::vector<Field> fields) : tree_(args), fields_(std::move(fields)) {}

  int64_t samples() const override { return tree_.samples(); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return tree_.classes(); }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    if (field == 1) {
      out.set_integer(fields_[1].type.dtype, tree_.label_of(sample));
      return {};
    }
    const int64_t shape[] = {tree_.dim()};
    auto* pixels = reinterpret_cast<float*>(out.set_own(DType::kF32, shape));
    tree_.draw(sample, {pixels, static_cast<size_t>(tree_.dim())});
    return {};
  }

  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override { return fmt::format("sku_tree sample {}", sample); }
  std::string describe() const override {
    return fmt::format("sku_tree: {} of [{}], {} in groups of {}", counted(tree_.samples(), "sample"), tree_.dim(),
                       counted(tree_.classes(), "class"), tree_.branches());
  }

 private:
  SkuTree tree_;
  std::vector<Field> fields_;
};

}  // namespace

SkuTree::SkuTree(const Attrs& arguments)
    : classes_(arguments.integer("classes")),
      dim_(arguments.integer("dim")),
      samples_(arguments.integer("samples")),
      seed_(static_cast<uint64_t>(arguments.integer("seed"))),
      noise_(static_cast<float>(arguments.real("noise"))),
      tail_(arguments.real("tail")),
      conflicts_(static_cast<float>(arguments.real("conflicts"))),
      branches_(cube_root(classes_)),
      ranks_(static_cast<uint64_t>(classes_), kTreeSeed, static_cast<uint64_t>(Draw::kRank)) {}

double SkuTree::share_before(int64_t rank) const {
  return std::pow(static_cast<double>(rank) / static_cast<double>(classes_), 1 - tail_);
}

int64_t SkuTree::class_of(int64_t sample) const {
  const double within = stream(Draw::kPlace, seed_, sample).uniform(0);
  const double share = (static_cast<double>(sample) + within) / static_cast<double>(samples_);
  const double rank = std::pow(share, 1 / (1 - tail_)) * static_cast<double>(classes_);
  return class_at(std::min(static_cast<int64_t>(rank), classes_ - 1));
}

int64_t SkuTree::label_of(int64_t sample) const {
  const int64_t label = class_of(sample);
  const int64_t first = label / branches_ * branches_;
  const int64_t others = std::min(branches_, classes_ - first) - 1;
  const RandomStream draws = stream(Draw::kConflict, seed_, sample);
  if (others == 0 || draws.uniform(0) >= conflicts_) {
    return label;
  }
  const int64_t other = first + static_cast<int64_t>(draws.below(1, static_cast<uint64_t>(others)));
  return other < label ? other : other + 1;
}

void SkuTree::prototype(int64_t label, std::span<float> out) const {
  std::ranges::fill(out, 0.0F);
  add_normal(stream(Draw::kDepartment, kTreeSeed, label / branches_ / branches_), 1, out);
  add_normal(stream(Draw::kGroup, kTreeSeed, label / branches_), kGroupWeight, out);
  add_normal(stream(Draw::kArticle, kTreeSeed, label), kArticleWeight, out);
  double squares = 0;
  for (const float v : out) {
    squares += static_cast<double>(v) * v;
  }
  const auto scale = static_cast<float>(1 / std::sqrt(std::max(squares, 1e-30)));
  for (float& v : out) {
    v *= scale;
  }
}

void SkuTree::draw(int64_t sample, std::span<float> out) const {
  prototype(class_of(sample), out);
  const float length = std::sqrt(static_cast<float>(dim_));
  for (float& v : out) {
    v *= length;
  }
  add_normal(stream(Draw::kNoise, seed_, sample), noise_, out);
}

Result<std::unique_ptr<Reader>> open_sku_tree(const SourceSpec& spec, StopFlag) {
  const Attrs& args = spec.reader.args;
  XRUN_ASSIGN(auto fields, data_registry().find_reader("sku_tree")->fields(args));
  return std::unique_ptr<Reader>(std::make_unique<SkuTreeReader>(args, std::move(fields)));
}

}  // namespace xrun::runtime
