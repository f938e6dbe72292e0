#include "runtime/checkpoint/tensors/class_match.h"

#include "graph/layouts/class_rows.h"

namespace xrun::runtime {
namespace {

void match_by_name(const ClassTable& run, const ClassTable& stored, ClassPart& part) {
  part.by_name = true;
  part.map.to = positions_of(stored.names, run.names);
  part.classes = std::ssize(run.names);
  part.matched = std::ranges::count_if(part.map.to, [](int64_t place) { return place >= 0; });
  // If the names are equal, all rows keep their numbers, including rows after the last class.
  part.map.same_rows = run.names == stored.names;
}

}  // namespace

std::vector<ClassPart> match_classes(const TrainState& state, const ClassTables& run, const ClassTables& stored) {
  std::vector<ClassPart> parts;
  for (const ClassRows& rows : class_rows(state.graph())) {
    const Parameter& parameter = state.graph().param(rows.param);
    if (!parts.empty() && parts.back().path == rows.part) {
      parts.back().params.push_back(parameter.name);
      continue;
    }
    const int64_t classes = state.graph().value(parameter.value).type.dims[0];
    ClassPart part{.path = rows.part,
                   .params = {parameter.name},
                   .head = rows.kind == ClassRows::kHead,
                   .map = {.to = {}, .same_rows = false, .rows = classes},
                   .classes = classes};
    const ClassTable* own = find_table(run, rows.input);
    const ClassTable* old = table_for(stored, run, rows.input);
    if (own != nullptr && own->named && old != nullptr && old->named) {
      match_by_name(*own, *old, part);
    } else {
      const bool is_unknown = own == nullptr || (old == nullptr && stored.empty());
      part.map.same_rows = is_unknown || (!own->named && (old == nullptr || !old->named));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace xrun::runtime
