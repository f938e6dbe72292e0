// Collects the children of a syntax node before they move into their pool as one run.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "lang/syntax/syntax_expr.h"

namespace xrun::lang {

// Children of one node while they are read. Nested lists share one stack; `into` moves the finished run to its pool.
template <typename T>
class Gather {
 public:
  explicit Gather(std::vector<T>& stack) : stack_(stack), base_(stack.size()) {}
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;
  ~Gather() { stack_.resize(base_); }
  void push(T value) { stack_.push_back(std::move(value)); }
  size_t size() const { return stack_.size() - base_; }
  T& front() { return stack_[base_]; }
  Run<T> into(std::vector<T>& pool) const {
    const Run<T> run{static_cast<uint32_t>(pool.size()), static_cast<uint32_t>(size())};
    pool.insert(pool.end(), stack_.begin() + static_cast<std::ptrdiff_t>(base_), stack_.end());
    return run;
  }

 private:
  std::vector<T>& stack_;
  size_t base_;
};

}  // namespace xrun::lang
