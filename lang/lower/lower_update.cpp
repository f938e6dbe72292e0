// Lowers the optimizer, the groups of tensors, and the frozen weights.
// Tests: tests/lang/lower/lower_train_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "graph/settings/group_rules.h"
#include "graph/settings/optimizer_facts.h"
#include "graph/settings/update_rule.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

constexpr const char* kLibrary = "std/optimizers";

// Whether the signature, such as "sgd(momentum: float = 0)", has a parameter `name`.
bool has_parameter(std::string_view signature, std::string_view name) {
  for (size_t at = signature.find(name); at != std::string_view::npos; at = signature.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at > 0 && (signature[at - 1] == '(' || signature[at - 1] == ' ');
    if (begins && end < signature.size() && (signature[end] == ':' || signature[end] == ' ')) {
      return true;
    }
  }
  return false;
}

}  // namespace

void ModuleBuilder::lower_optimizer(const SettingNode& node, Scope& scope, const SettingDef&) {
  if (!node.has_value()) {
    ev_.refuse("XG0205", node.key_span, "`optimizer` is a name or a call, not a group", "",
               {"write optimizer = adamw(weight_decay=0.05)"});
    return;
  }
  const std::string name = word(node);
  if (const DeclRef own = scope.file->find(name); own && own.decl->kind == DeclKind::kOptimizer) {
    lower_own_optimizer(own, node, scope);
    return;
  }
  if (scope.file->is_missing(name)) {
    return;  // the fault was reported at the import
  }
  const DeclRef known = ev_.find_in_library(kLibrary, name);
  if (!known) {
    refuse_optimizer(node, name);
    return;
  }
  lower_own_optimizer(known, node, scope);
}

// The optimizer of the library that `"adam"` or `torch.optim.SGD(...)` means; empty if there is no such optimizer.
std::string ModuleBuilder::library_optimizer(const SettingNode& node, const std::vector<std::string>& names) {
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  const bool is_call = expr.kind == ExprKind::kCall;
  const std::string path = path_text(ast, is_call ? expr.lhs : node.value);
  const bool is_plain = expr.kind == ExprKind::kName || (is_call && ast[expr.lhs].kind == ExprKind::kName);
  const std::string last = path.substr(path.rfind('.') + 1);
  for (const std::string& name : names) {
    if (!is_plain && !last.empty() && is_spelling_of(last, name)) {
      return name;
    }
  }
  return {};
}

void ModuleBuilder::refuse_optimizer(const SettingNode& node, const std::string& name) {
  const Span at = value_span(node);
  const std::vector<std::string> names = ev_.names_in_library(kLibrary);
  if (const std::string ours = library_optimizer(node, names); !ours.empty()) {
    const std::string_view text = ev_.sources().text(at);
    const size_t bracket = text.front() == '"' ? text.size() : std::min(text.find('('), text.size());
    const Span name_span{at.file, at.begin, at.begin + static_cast<uint32_t>(bracket)};
    ev_.refuse("XG0201", name_span, {"there is no optimizer `{}`", ev_.sources().text(name_span)}, "unknown optimizer",
               replacement({"write `{}`", ours}, name_span, ours, true));
    return;
  }
  Span named = at;
  named.end = name.empty() ? at.end : at.begin + static_cast<uint32_t>(name.size());
  Fix fix = our_name(NameKind::kOptimizer, name, names, named,
                     {"write one of {}, as in adamw(weight_decay=0.05)",
                      listed(names, [](const std::string& known) { return fmt::format("`{}`", known); })});
  // If the call has an argument that the meant optimizer does not have, the fix shows the signature: with the new name
  // alone, that argument would be the next fault.
  const std::string meant = fix.edits.empty() ? "" : fix.edits[0].text;
  const std::string known = meant.empty() ? "" : signature_of(meant);
  for (const Arg& arg : (*node.ast)[(*node.ast)[node.value].args]) {
    if (!known.empty() && arg.name && !has_parameter(known, arg.name.text)) {
      fix = {fmt::format("{}, called as {}; the rate is `lr` of `train`", fix.title, known)};
      break;
    }
  }
  ev_.refuse(
      "XG0201", named,
      name.empty() ? "an optimizer is named, and may be called" : fmt::format("there is no optimizer `{}`", name),
      name.empty() ? "" : "unknown optimizer", std::move(fix));
}

std::string ModuleBuilder::signature_of(const std::string& optimizer) {
  const DeclRef known = ev_.find_in_library(kLibrary, optimizer);
  return known ? ev_.signatures().of(known).text : std::string();
}

bool ModuleBuilder::check_arguments(const std::string& optimizer, const std::vector<BoundArg>& bound) {
  for (const BoundArg& arg : bound) {
    const std::string_view argument = arg.param->name.text;
    const Datum& value = arg.value();
    if (argument == "weight_decay" && !value.plain_number()) {
      ev_.refuse("XG0205", value.span.valid() ? value.span : arg.span,
                 {"`weight_decay` of `{}` expects a number, but gets {}", optimizer, kind_text(value)}, "",
                 {"write a number here: groups and tensors of one dimension have others"});
      return false;
    }
    const std::string_view allowed =
        value.plain_number() ? refused_argument(argument, value.as_double()) : std::string_view();
    if (!allowed.empty()) {
      ev_.refuse("XG0214", value.span.valid() ? value.span : arg.span,
                 {"`{}` of `{}` cannot be {}", argument, optimizer, value.as_double()}, "",
                 {"write a number of {}", allowed});
      return false;
    }
  }
  return true;
}

// Lowers an optimizer from the file or the library, such as `optimizer = lion`. `train` sets its rate, so a call gives
// only the other parameters.
void ModuleBuilder::lower_own_optimizer(const DeclRef& own, const SettingNode& node, Scope& scope) {
  Signature signature = ev_.signatures().of(own);
  const auto rate = std::ranges::find(signature.params, "lr", [](const Param& param) { return param.name.text; });
  if (rate == signature.params.begin() && rate != signature.params.end()) {
    signature.params = signature.params.subspan(1);
  } else if (rate != signature.params.end()) {
    ev_.refuse("XG0224", rate->name.span, "`lr` comes first among the parameters of an optimizer", "",
               {"move it to the front, or leave it out: the rate is `lr` of `train`"});
    return;
  }
  const Expr& written = (*node.ast)[node.value];
  Call call{.ast = node.ast, .span = written.span, .name_span = written.span};
  if (written.kind == ExprKind::kCall) {
    call.args = (*node.ast)[written.args];
    call.name_span = (*node.ast)[written.lhs].span;
  }
  Scope env{.file = own.file};
  const auto bound = ev_.bind(signature, call, scope, env);
  if (!bound || !check_arguments(signature.name, *bound)) {
    return;
  }
  const auto made = ev_.eval_optimizer(own, env);
  auto arguments = made ? ev_.attributes(signature, *bound) : std::nullopt;
  if (arguments) {
    store_update_rule(made->rule, made->states, *arguments);
    module_.train.optimizer = {signature.name, *std::move(arguments), value_span(node)};
  }
}

void ModuleBuilder::lower_tensors(const SettingNode& node, Scope& scope, const SettingDef&) {
  if (node.has_value()) {
    ev_.refuse(
        "XG0210", node.key_span, {"`{}` belongs in the group of a tensor prefix", node.key}, "not in such a group",
        Fix{.title = "write the prefix of the tensors", .lines = {"groups {", "  PATH {", "    lr = 0.1", "  }", "}"}});
    return;
  }
  lower_tensors_at(node, node.key, scope);
}

void ModuleBuilder::lower_tensors_at(const SettingNode& node, const std::string& path, Scope& scope) {
  group_ = {};
  group_.path = path;
  group_.span = node.span;
  for (const SettingNode& child : node.children) {
    if (child.has_value()) {
      lower_setting(child, DeclKind::kTrain, "groups PATH", scope);
      group_settings_.push_back({path, child.key, child.key_span, value_span(child)});
    }
  }
  GroupSpec group = std::move(group_);
  for (const SettingNode& child : node.children) {
    if (!child.has_value()) {
      lower_tensors_at(child, path + "." + child.key, scope);
    }
  }
  const bool sets_nothing =
      !group.lr && !group.weight_decay && !group.weights && !group.states && !group.untouched && !group.rows;
  const bool is_prefix_alone = sets_nothing && !node.children.empty();
  if (is_prefix_alone) {
    return;
  }
  if (!names_a_tensor(path)) {
    if (names_a_part(path)) {
      ev_.refuse("XG0217", node.key_span, {"`{}` has no weights", path}, "",
                 {"leave it out, or name a layer or block with weights, or one of its tensors"});
    } else {
      refuse_path(node.key_span, path);
    }
  }
  if (sets_nothing) {
    return;
  }
  module_.train.groups.push_back(std::move(group));
}

// Freezes the weights below the paths: they get no gradient, no update and no optimizer state. Running statistics are
// not weights. They still follow the data, because later layers are trained on values normalised by the batch.
void ModuleBuilder::lower_freeze(const SettingNode& node, Scope&, const SettingDef&) {
  module_.train.freeze = paths(node);
  std::vector<Parameter>& params = ev_.graph().params;
  for (const std::string& path : module_.train.freeze) {
    bool any = false;
    for (Parameter& parameter : params) {
      if (parameter.trained && is_below(path, parameter.name)) {
        parameter.frozen = any = true;
      }
    }
    if (!any && names_a_part(path)) {
      ev_.refuse("XG0217", node.key_span, {"`freeze` names `{}`, which has no weights", path}, "",
                 {"leave it out, or name a layer or block with weights, or one of its tensors"});
    }
  }
  if (!params.empty() && std::none_of(params.begin(), params.end(), [](const auto& p) { return p.updated(); })) {
    ev_.refuse("XG0509", node.key_span, "`freeze` leaves nothing to train", "every weight is frozen",
               {"leave some parts out of `freeze`"});
  }
  // The head sweep updates the weight and the bias of a head together, so either both are frozen or neither.
  for (const Head& head : ev_.graph().heads) {
    const Node& classifier = ev_.graph().node(head.node);
    bool some = false;
    bool all = true;
    for (const ValueId input : classifier.inputs) {
      const ParamId param = ev_.graph().value(input).param;
      if (param.valid()) {
        some = some || ev_.graph().param(param).frozen;
        all = all && ev_.graph().param(param).frozen;
      }
    }
    if (some && !all) {
      ev_.not_yet(node.key_span, {"freezing a part of the head `{}`", head.name},
                  {"freeze all of it, `{}`, or nothing", head.name});
    }
  }
}

}  // namespace xrun::lang
