// Curves, the values of `lr`, as records. The checker reads them, and the table of docs/reference/calls_and_settings.md
// is generated from them.
#pragma once

#include <span>
#include <string_view>

namespace xrun::lang {

struct CurveKind {
  std::string_view name;
  std::string_view
      signature;  // conventions of graph/settings/reader_def.h; `rates` is a range of rates, `span` a time of the run
  std::string_view doc;
  std::string_view example;  // a value of `lr`
};

std::span<const CurveKind> curve_kinds();
// The curve with this name. REQUIRES: it exists.
const CurveKind& curve_kind(std::string_view name);

}  // namespace xrun::lang
