// Templates of a verification set (IJB-B, IJB-C): a template is several pictures of one person, which are compared as
// one, by the mean of their features. Pairs are pairs of templates.
#pragma once

#include <cstdint>
#include <vector>

namespace xrun {

struct TemplatePairs {
  static constexpr uint32_t kMostTemplates = uint32_t{1} << 31;

  // The template that a picture belongs to, and the medium that it is from: a photograph or a video. Both are numbers
  // that count from 0 over the whole source.
  struct Sample {
    uint32_t of_template = 0;
    uint32_t medium = 0;
  };
  struct Pair {
    uint32_t first = 0;  // number of a template
    uint32_t second : 31 = 0;
    uint32_t same : 1 = 0;  // 1: both templates show one class
  };

  int64_t templates = 0;
  std::vector<Sample> samples;  // in the order of the source's samples: ascending by template, then by medium
  std::vector<Pair> pairs;      // 8 bytes each: IJB-C has 15.7 million
};
static_assert(sizeof(TemplatePairs::Pair) == 8);

}  // namespace xrun
