// The rules that all cuts of a chain obey: pins, joined layers, the last legal cut, and a layer for each stage.
#pragma once

#include <vector>

#include "planner/partition/partition.h"

namespace xrun::planner {

class CutRules {
 public:
  // The request must outlive this object.
  explicit CutRules(const PartitionRequest& request);

  // Whether a stage may have a layer.
  bool may_have(int stage, int layer) const;
  // Whether a cut before a layer is legal.
  bool may_cut(int layer) const;
  // Whether a stage may begin at a layer: the first one at layer 0 alone.
  bool may_begin(int stage, int layer) const;
  // The last end of a stage that has `layer`, or less than or equal to `layer` if there is none. Later stages need a
  // layer each.
  int last_end(int stage, int layer) const;
  // Whether a stage may end before a layer: the last one after the last layer, another one where the next may begin.
  bool may_end(int stage, int layer) const;

 private:
  // The first pinned layer from a layer on, and the first one that is pinned to another stage than that.
  struct NextPins {
    int first = 0;
    int other = 0;
  };

  // The stage to which a layer is pinned; -1: any, or the layer is the end of the chain.
  int pin_of(int layer) const;

  const PartitionRequest& request_;
  int layers_;
  std::vector<NextPins> next_pins_;  // index: layer; the end of the chain if there is none
};

}  // namespace xrun::planner
