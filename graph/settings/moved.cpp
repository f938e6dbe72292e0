#include "graph/settings/moved.h"

#include "graph/settings/group_rules.h"

namespace xrun {
namespace {

struct Followed {
  std::string name;
  bool ends = false;  // whether the chain ends: no further move applies
};

// Follows moves from the names in member `from` to the names in member `to`, at most as often as there are moves.
Followed follow(std::span<const Moved> moved, std::string_view name, std::string Moved::*from, std::string Moved::*to) {
  Followed now{std::string(name)};
  for (size_t steps = 0; steps <= moved.size(); ++steps) {
    const Moved* best = nullptr;
    for (const Moved& one : moved) {
      if (is_below(one.*from, now.name) && (best == nullptr || (one.*from).size() > (best->*from).size())) {
        best = &one;
      }
    }
    if (best == nullptr) {
      now.ends = true;
      break;
    }
    now.name = best->*to + now.name.substr((best->*from).size());
  }
  return now;
}

}  // namespace

std::string first_name(std::span<const Moved> moved, std::string_view name) {
  return follow(moved, name, &Moved::to, &Moved::from).name;
}

std::string last_name(std::span<const Moved> moved, std::string_view name) {
  return follow(moved, name, &Moved::from, &Moved::to).name;
}

bool leads_back(std::span<const Moved> moved, std::string_view name) {
  return !follow(moved, name, &Moved::from, &Moved::to).ends;
}

}  // namespace xrun
