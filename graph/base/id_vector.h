// A vector whose elements have strong ids: `values[id]`. An id of another kind does not compile.
#pragma once

#include <vector>

#include "graph/base/id.h"

namespace xrun {

template <class IdType, class T>
class IdVector : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using Base::Base;
  IdVector() = default;
  IdVector(Base elements) : Base(std::move(elements)) {}

  // REQUIRES: the vector has an element with this id.
  using Base::operator[];
  typename Base::reference operator[](IdType id) { return Base::operator[](static_cast<size_t>(id.index)); }
  typename Base::const_reference operator[](IdType id) const { return Base::operator[](static_cast<size_t>(id.index)); }
  bool has(IdType id) const { return id.valid() && static_cast<size_t>(id.index) < this->size(); }
};

}  // namespace xrun
