// Collects the children of a syntax node until they can be appended to their pool as consecutive elements.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "graph/os/large_pages.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

// The children of one node while they are parsed. Nested lists of one type share a stack. `into` appends the finished
// list to its pool.
template <typename T>
class Gather {
 public:
  explicit Gather(Pools& stacks) : stack_(std::get<std::vector<T>>(stacks)), base_(stack_.size()) {}
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;
  ~Gather() { stack_.resize(base_); }
  void push(T value) {
    grow(stack_, 1);
    stack_.push_back(std::move(value));
  }
  size_t size() const { return stack_.size() - base_; }
  T& front() { return stack_[base_]; }
  Run<T> into(Ast& ast) {
    std::vector<T>& pool = ast.pool<T>();
    const Run<T> run{static_cast<uint32_t>(pool.size()), static_cast<uint32_t>(size())};
    if (pool.empty() && base_ == 0) {
      std::swap(pool, stack_);  // a generated text is often one long list, so it is not copied
      return run;
    }
    grow(pool, size());
    pool.insert(pool.end(), stack_.begin() + static_cast<std::ptrdiff_t>(base_), stack_.end());
    return run;
  }

 private:
  static void grow(std::vector<T>& vector, size_t more) {
    if (vector.size() + more > vector.capacity()) {
      reserve_large(vector, 2 * vector.size() + more + 16);
    }
  }

  std::vector<T>& stack_;
  size_t base_;
};

}  // namespace xrun::lang
