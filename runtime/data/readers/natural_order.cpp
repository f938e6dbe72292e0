#include "runtime/data/readers/natural_order.h"

#include <algorithm>
#include <cstddef>

namespace xrun::runtime {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
int rank_of(char c) { return c == '/' ? -1 : static_cast<unsigned char>(c); }

// Removes the digits at the start of `text`, and returns them without leading zeros.
std::string_view take_number(std::string_view& text) {
  const size_t zeros = std::min(text.find_first_not_of('0'), text.size());
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(zeros, end - std::min(zeros, end));
  text.remove_prefix(end);
  return digits;
}

}  // namespace

bool comes_before(std::string_view a, std::string_view b) {
  std::string_view x = a;
  std::string_view y = b;
  while (!x.empty() && !y.empty()) {
    if (is_digit(x[0]) && is_digit(y[0])) {
      const std::string_view m = take_number(x);
      const std::string_view n = take_number(y);
      if (m != n) {
        return m.size() != n.size() ? m.size() < n.size() : m < n;
      }
      continue;
    }
    if (x[0] != y[0]) {
      return rank_of(x[0]) < rank_of(y[0]);
    }
    x.remove_prefix(1);
    y.remove_prefix(1);
  }
  return x.empty() != y.empty() ? x.empty() : a < b;
}

}  // namespace xrun::runtime
