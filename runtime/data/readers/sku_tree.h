// The reader `sku_tree`: an artificial shop with very many articles, for which the accuracy of the Bayes rule is known.
// The classes are the articles, in a tree of departments and groups. Articles of one group resemble each other, and a
// few articles have many samples while most have few.
//
//   prototype of class c    the unit vector along  D(department of c) + 0.6 G(group of c) + 0.4 A(c)
//   sample of class c       sqrt(dim) prototype(c) + noise, normal in each dimension with the deviation `noise`
//   classes by frequency    the r most frequent of C classes have the share (r / C)^(1 - tail) of the samples
//   conflicts               in this share of the samples the label is that of another article of the group
//
// D, G and A are normal vectors keyed by the number of the department, group or article. A department has as many
// groups as a group has articles. A sample is a function of its number and the arguments alone: reading it takes
// O(dim) time and no memory that grows with the number of classes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "graph/base/random.h"
#include "graph/base/stop.h"
#include "graph/types/attr.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

class SkuTree {
 public:
  // REQUIRES: `arguments` are those of the reader `sku_tree`, within its bounds (graph/settings/reader_def.cpp).
  explicit SkuTree(const Attrs& arguments);

  int64_t classes() const { return classes_; }
  int64_t samples() const { return samples_; }
  int64_t dim() const { return dim_; }
  // The number of articles in a group and of groups in a department; the last group and department may have fewer.
  int64_t branches() const { return branches_; }

  // The class whose prototype a sample is made from. The interval of all frequencies is cut into one part for each
  // sample, and sample i is at a random place in part i. So any number of samples has the frequencies of the tree.
  int64_t class_of(int64_t sample) const;
  // The label that the reader returns: class_of, except that a conflict returns another article of the same group.
  int64_t label_of(int64_t sample) const;

  // The class with this rank by frequency; rank 0 is the most frequent class. Class numbers do not depend on frequency.
  int64_t class_at(int64_t rank) const { return static_cast<int64_t>(ranks_(static_cast<uint64_t>(rank))); }
  // The probability of the class with this rank.
  double share_of(int64_t rank) const { return share_before(rank + 1) - share_before(rank); }

  // Both write dim() numbers: the prototype of a class, and the values of a sample.
  void prototype(int64_t label, std::span<float> out) const;
  void draw(int64_t sample, std::span<float> out) const;

 private:
  double share_before(int64_t rank) const;

  int64_t classes_;
  int64_t dim_;
  int64_t samples_;
  uint64_t seed_;
  float noise_;
  double tail_;
  float conflicts_;
  int64_t branches_;
  Permutation ranks_;
};

Result<std::unique_ptr<Reader>> open_sku_tree(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
