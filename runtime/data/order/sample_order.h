// The sample at each position of a run (docs/internals/determinism.md, "Order of samples").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/base/units.h"
#include "graph/settings/specs.h"

namespace xrun::runtime {

struct SamplePlace {
  int64_t epoch = 0;
  int64_t position = 0;  // position in the epoch
  int64_t sample = 0;
  int64_t pass = 0;  // how often the sample was drawn before; a key of its augmentation
};

// Maps each position of a run to a sample. With n samples, position p lies in epoch e = p / n.
//   sequential  sample p mod n
//   shuffled    sample perm(n, e)(p mod n), where perm(n, e) is the permutation of epoch e
//   balanced    if K classes have samples, round r = p / K draws each of them once, in the order of perm(K, r). A class
//               with m samples then gives its sample r mod m of perm(m, class, r / m), so all of its samples are drawn
//               once before one is drawn again
// Immutable. Threads: any.
class SampleSequence {
 public:
  // `classes`: the class of each sample, for a balanced order; a sample with a negative class is never drawn. REQUIRES:
  // at least one sample can be drawn.
  SampleSequence(SampleOrder order, int64_t samples, uint64_t seed, std::span<const int32_t> classes = {});

  SamplePlace at(int64_t position) const;  // `position`: position in the run
  // Returns the sample that replaces a broken one after `attempt` + 1 broken samples. In a balanced order it has the
  // same class as the broken sample, and after many attempts any class.
  int64_t substitute(const SamplePlace& place, uint64_t attempt) const;

  // The memory that an order of this number of samples takes.
  static Bytes memory(SampleOrder order, int64_t samples);

 private:
  // The class at a position of a balanced order: its index among the classes with samples, the round, its samples.
  struct Draw {
    int64_t group = 0;
    int64_t round = 0;
    std::span<const int64_t> samples;
  };
  Draw draw_at(int64_t position) const;

  SampleOrder order_;
  int64_t samples_;
  uint64_t seed_;
  std::vector<int64_t> by_class_;  // samples, sorted by class
  std::vector<int64_t> begins_;    // start in by_class_ of each class with samples, and the end
};

}  // namespace xrun::runtime
