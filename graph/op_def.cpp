#include "graph/op_def.h"

#include <algorithm>

#include "graph/base/check.h"

namespace xrun {

OpRegistry::OpRegistry(std::vector<const OpDef*> ops) : ops_(std::move(ops)) {
  std::sort(ops_.begin(), ops_.end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  const auto twin =
      std::adjacent_find(ops_.begin(), ops_.end(), [](const OpDef* a, const OpDef* b) { return a->name == b->name; });
  XRUN_CHECK(twin == ops_.end(), "two operators named " + std::string((*twin)->name));
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const auto at = std::lower_bound(ops_.begin(), ops_.end(), name,
                                   [](const OpDef* op, std::string_view n) { return op->name < n; });
  return at != ops_.end() && (*at)->name == name ? *at : nullptr;
}

}  // namespace xrun
