// Overloaded, which joins lambdas to one function object for std::visit.
#pragma once

namespace xrun {

// A function object that has the overloads of all its functions.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace xrun
