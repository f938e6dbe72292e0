// "did you mean `x`?": finds what was meant where a name is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xrun::lang {

// The candidate nearest to `name` where it is near enough for a typing slip; else empty.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace xrun::lang
