// Lowers `compress`, which sends only the largest gradients between replicas or nodes.
#include <algorithm>
#include <fmt/format.h>

#include "graph/layouts/compression.h"
#include "graph/settings/group_rules.h"
#include "graph/settings/known_update.h"
#include "lang/lower/module_builder.h"

namespace xrun::lang {

void ModuleBuilder::lower_compress(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto choice = choose(node, def);
  if (!choice || choice->word == def.fallback) {
    return;
  }
  // `on` lists paths of the model, which are not expressions that could be evaluated.
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  CompressSpec compress{.span = value_span(node)};
  std::vector<Arg> args;
  for (const Arg& arg : expr.kind == ExprKind::kCall ? ast[expr.args] : std::span<const Arg>()) {
    if (!arg.name || arg.name.text != "on") {
      args.push_back(arg);
      continue;
    }
    if (path_text(ast, arg.value) != "all") {
      compress.on = paths(ast, arg.value, "on");
      if (compress.on.empty()) {
        return;  // already reported
      }
    }
  }
  const auto bound = arguments(node, *choice, args, "on", scope);
  if (!bound) {
    return;
  }
  for (const BoundArg& arg : *bound) {
    const Datum& value = arg.value();
    const Span at = value.span.valid() ? value.span : arg.span;
    if (arg.param->name.text == "p") {
      compress.density = value.as_double();
      if (!(compress.density > 0 && compress.density <= 1)) {
        ev_.refuse("XG0214", at, {"`topk` cannot send {:g} % of the gradients", 100 * compress.density}, "",
                   {"write a share above 0% and up to 100%, such as 0.1%"});
        return;
      }
    } else if (arg.param->name.text == "per_layer" && !value.flag) {
      ev_.not_yet(at, "`per_layer = false` of `topk`", {"leave it out: each tensor sends its own largest gradients"});
    } else if (arg.param->name.text == "warmup" && value.kind != DatumKind::kNone) {
      compress.warmup = train_span(value, "`warmup` of `topk`", at);
    } else if (arg.param->name.text == "per_node") {
      compress.per_node = value.flag;
    }
  }
  module_.train.compress = std::move(compress);
}

// Checks that the optimizer leaves its momentum to the compression, and that each path has weights to compress.
void ModuleBuilder::check_compress() {
  const TrainSpec& train = module_.train;
  const CompressSpec& compress = train.compress;
  const Graph& graph = ev_.graph();
  if (!compress.is_on() || graph.params.empty()) {
    return;
  }
  // Each replica applies the momentum before it selects elements. Rules other than those of sgd and lars would first
  // need the sum of all gradients.
  const KnownUpdate::Kind kind = known_update(train.optimizer).kind;
  if (!train.optimizer.name.empty() && kind != KnownUpdate::kSgd && kind != KnownUpdate::kLars) {
    ev_.not_yet(compress.span, {"`compress` with the optimizer `{}`", train.optimizer.name},
                {"write optimizer = sgd(momentum=0.9) or lars(momentum=0.9), or compress = none"});
  }
  // A weight that several operators read has a gradient for each reader; these are sent whole.
  const auto readers = consumers_of(graph);
  const auto is_tied = [&](ParamId param) { return readers[graph.param(param).value].size() > 1; };
  const auto all = [](ParamId) { return true; };
  const auto any = [&](const auto& wanted) {
    for (size_t p = 0; p < graph.params.size(); ++p) {
      if (is_compressed(train, graph, ParamId(p)) && !is_tied(ParamId(p)) && wanted(ParamId(p))) {
        return true;
      }
    }
    return false;
  };
  for (const std::string& path : compress.on) {
    if (!names_a_part(path) || any([&](ParamId param) { return is_below(path, graph.param(param).name); })) {
      continue;  // an unknown name was reported
    }
    const auto names_tied = [&](const std::string& named) {
      for (size_t p = 0; p < graph.params.size(); ++p) {
        if (is_below(named, graph.params[p].name) && is_tied(ParamId(p))) {
          return true;
        }
      }
      return false;
    };
    const bool is_head = std::ranges::any_of(
        graph.params, [&](const Parameter& parameter) { return parameter.head && is_below(path, parameter.name); });
    ev_.refuse(
        "XG0217", compress.span,
        is_head ? fmt::format("`on` names `{}`, whose class weights are sharded: no gradients of them are sent", path)
        : names_tied(path)
            ? fmt::format("`on` names `{}`, which several operators read: its gradients are sent whole", path)
            : fmt::format("`on` names `{}`, which has no weights of two dimensions or more that are trained", path),
        "nothing to compress", {"leave it out, or name layers or blocks outside of heads"});
  }
  if (compress.on.empty() && !any(all)) {
    ev_.refuse("XG0205", compress.span, "no weight outside of heads has two dimensions or more and is trained",
               "nothing to compress", {"write compress = none"});
  }
}

}  // namespace xrun::lang
