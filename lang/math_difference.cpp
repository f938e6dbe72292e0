// Tests: tests/lang/lower/lower_rows_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "graph/base/sha256.h"
#include "graph/layouts/class_rows.h"
#include "lang/frontend.h"
#include "lang/lower/math_text.h"
#include "lang/print_module.h"

namespace xrun::lang {
namespace {

// The value in the first line of a part: the text after ` = `, or else all words but the first ("cosine 0.1 0 rest" of
// "rate cosine 0.1 0 rest"). The text of a part is empty if its setting is not set.
std::string value_of(const std::string& text) {
  if (text.empty()) {
    return "not set";
  }
  const std::string line = text.substr(0, text.find('\n'));
  const size_t equals = line.find(" = ");
  return equals != std::string::npos ? line.substr(equals + 3) : line.substr(std::min(line.find(' ') + 1, line.size()));
}

// The value as print_module shows it. If print_module does not show it, the value in the part.
std::string shown(const MathPart* part, const CheckedFile& file) {
  const std::string text = part == nullptr ? "" : setting_text(file.module, part->what);
  return text.empty() ? value_of(part == nullptr ? "" : part->text) : text;
}

// Adds each setting of `groups` that differs. Returns false if all are equal: the groups may differ in their order.
bool add_groups(const Module& then, const Module& now, std::vector<MathDifference>& differences) {
  const auto before = group_settings(then);
  const auto after = group_settings(now);
  const auto value_in = [](const auto& settings, const std::string& path) {
    const auto at = std::ranges::find(settings, path, [](const auto& setting) { return setting.first; });
    return at == settings.end() ? std::string("not set") : at->second;
  };
  auto all = after;
  std::ranges::copy_if(before, std::back_inserter(all),
                       [&](const auto& setting) { return value_in(after, setting.first) == "not set"; });
  const size_t others = differences.size();
  for (const auto& [path, value] : all) {
    const MathDifference one{"train." + path, value_in(before, path), value_in(after, path)};
    if (one.then != one.now) {
      differences.push_back(one);
    }
  }
  return differences.size() > others;
}

// Replaces the number of classes in the arguments of a call by 1.
void hide_count(Attrs& attrs) {
  for (const char* name : {"classes", "out", "rows"}) {
    if (attrs.has(name) && std::holds_alternative<int64_t>(*attrs.find(name))) {
      attrs.set(name, int64_t{1});
    }
  }
}

// Returns a copy of the module in which every number of classes is 1: in inputs, class weights and arguments of calls.
// Two modules that differ only in their numbers of classes then have equal texts.
Module without_class_counts(Module module) {
  Graph& graph = module.graph;
  for (const NamedValue& input : graph.inputs) {
    TensorType& type = graph.value(input.value).type;
    type.classes = type.classes > 0 ? 1 : 0;
  }
  for (const ClassRows& rows : class_rows(graph)) {
    const ValueId weight = graph.param(rows.param).value;
    const int64_t classes = graph.value(weight).type.dims[0];
    graph.value(weight).type.dims[0] = 1;
    for (Node& node : graph.nodes) {
      if (std::ranges::find(node.inputs, weight) == node.inputs.end()) {
        continue;
      }
      hide_count(node.attrs);
      TensorType& made = graph.value(node.outputs[0]).type;
      made.dims.back() = made.dims.back() == classes && rows.kind != ClassRows::kEmbedding ? 1 : made.dims.back();
    }
  }
  for (DataBinding& binding : module.data.bindings) {
    for (CallSpec& stage : binding.stages) {
      hide_count(stage.args);
    }
  }
  for (SourceSpec& source : module.data.sources) {
    hide_count(source.reader.args);
  }
  return module;
}

}  // namespace

std::vector<MathDifference> math_differences(const CheckedFile& then, const CheckedFile& now) {
  std::vector<MathDifference> differences;
  const auto before = math_parts(then.module, then.run);
  const auto after = math_parts(now.module, now.run);
  const auto before_without = math_parts(without_class_counts(then.module), then.run);
  const auto after_without = math_parts(without_class_counts(now.module), now.run);
  const auto add = [&](const MathPart* a, const MathPart* b) {
    MathDifference one{.what = b != nullptr ? b->what : a->what};
    if (one.what == "train.groups" && add_groups(then.module, now.module, differences)) {
      return;
    }
    if (one.what != "model") {
      one.then = shown(a, then);
      one.now = shown(b, now);
      if (one.then == one.now) {  // the printed values are equal, only the exact ones differ
        one.then = value_of(a == nullptr ? "" : a->text);
        one.now = value_of(b == nullptr ? "" : b->text);
      }
    }
    const auto is_this = [&](const MathPart& part) { return part.what == one.what; };
    const auto then_without = std::ranges::find_if(before_without, is_this);
    const auto now_without = std::ranges::find_if(after_without, is_this);
    one.is_class_count = then_without != before_without.end() && now_without != after_without.end() &&
                         then_without->text == now_without->text;
    differences.push_back(std::move(one));
  };
  const auto find = [](const std::vector<MathPart>& parts, const std::string& what) {
    const auto is_length = [](const std::string& name) { return name == "train.epochs" || name == "train.steps"; };
    const auto at = std::ranges::find_if(
        parts, [&](const MathPart& part) { return part.what == what || (is_length(part.what) && is_length(what)); });
    return at == parts.end() ? nullptr : &*at;
  };
  for (const MathPart& part : after) {
    const MathPart* old = find(before, part.what);
    if (old == nullptr || old->text != part.text) {
      add(old, &part);
    }
  }
  for (const MathPart& part : before) {
    if (find(after, part.what) == nullptr) {
      add(&part, nullptr);
    }
  }
  return differences;
}

std::string earlier_math_digest(const CheckedFile& file) {
  return sha256_hex(earlier_math_text(file.module, file.run));
}

}  // namespace xrun::lang
