// Lowers `init` (initial weights), `log.prometheus`, `checkpoint` (which checkpoints are saved) and `stop_when` (early
// stop). Metrics in these settings are keys of evaluations, which are known only after all of `train` has been read.
// Tests: tests/lang/check_test.cpp, tests/lang/lower/lower_schedule_test.cpp
#include <algorithm>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

std::optional<StopSpec::Test> test_of(Op op) {
  switch (op) {
    case Op::kLt:
      return StopSpec::kLess;
    case Op::kLe:
      return StopSpec::kLessEqual;
    case Op::kGt:
      return StopSpec::kGreater;
    case Op::kGe:
      return StopSpec::kGreaterEqual;
    default:
      return std::nullopt;
  }
}

// The arguments of a call such as highest(METRIC, SECOND). The second is null if it is left out.
struct MetricCall {
  const Arg* metric = nullptr;
  const Arg* second = nullptr;
};
std::optional<MetricCall> metric_call(std::span<const Arg> args, std::string_view second) {
  const bool good = !args.empty() && args.size() <= 2 && (!args[0].name || args[0].name.text == "metric") &&
                    (args.size() < 2 || !args[1].name || args[1].name.text == second);
  return good ? std::optional(MetricCall{&args[0], args.size() < 2 ? nullptr : &args[1]}) : std::nullopt;
}

// Whether a text is an IPv4 address with a port; the library of the server does not support IPv6. Host names are not
// accepted: the address of a host may change while the run waits in a queue.
bool is_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return false;
  }
  in_addr parsed{};
  const std::string port = text.substr(colon + 1);
  constexpr int kMostPorts = 65535;
  return inet_pton(AF_INET, text.substr(0, colon).c_str(), &parsed) == 1 && !port.empty() && port.size() <= 5 &&
         port.find_first_not_of("0123456789") == std::string::npos && port[0] != '0' && std::stoi(port) <= kMostPorts;
}

}  // namespace

void ModuleBuilder::lower_init(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto choice = choose(node, def);
  if (!choice || choice->word != "checkpoint") {
    return;
  }
  // `skip` lists names of parts, which are not expressions that could be evaluated.
  const Ast& ast = *node.ast;
  const Expr& expr = ast[node.value];
  std::vector<Arg> args;
  for (const Arg& arg : expr.kind == ExprKind::kCall ? ast[expr.args] : std::span<const Arg>()) {
    if (arg.name && arg.name.text == "skip") {
      run_.init_skip = paths(ast, arg.value, "skip");
    } else {
      args.push_back(arg);
    }
  }
  const auto bound = arguments(node, *choice, args, "skip", scope);
  if (!bound) {
    return;
  }
  const BoundArg& path = bound->front();
  if (path.value().text.empty()) {
    ev_.refuse("XG0214", path.span, "`checkpoint` cannot be \"\"", "no path",
               {"name a step directory or its parent, init = checkpoint(\"ckpt/t/latest\"), or leave `init` out"});
  }
  module_.train.init_checkpoint = path.value().text;
  run_.init_span = path.span;
  module_.train.directory = directory_of(node);
}

void ModuleBuilder::lower_prometheus(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (symbol(node) == def.fallback) {
    return;
  }
  const auto address = text(node, scope, def);
  if (address && !is_address(*address)) {
    ev_.refuse("XG0214", value_span(node), {"`prometheus` cannot be \"{}\"", *address},
               "not an IPv4 address with a port",
               {"write one of this machine: \"127.0.0.1:9464\", or for all networks \"0.0.0.0:9464\""});
    return;
  }
  module_.train.log_prometheus = address.value_or("");
}

void ModuleBuilder::lower_checkpoint_every(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (word(node) != "auto") {
    if (const auto span = train_span(node, scope, def)) {
      module_.train.checkpoint_every = *span;
    }
    return;
  }
  const auto choice = choose(node, def);
  const auto bound = choice ? arguments(node, *choice, scope) : std::nullopt;
  if (!bound) {
    return;
  }
  const BoundArg& mtbf = bound->front();
  const auto seconds = quantity(mtbf.value(), "mtbf", mtbf.span, Dimension::kTime);
  if (!seconds) {
    return;
  }
  constexpr double kLeast = 1;
  constexpr double kMost = 1e10;
  if (!(*seconds >= kLeast && *seconds <= kMost)) {
    ev_.refuse("XG0214", mtbf.span, {"`mtbf` cannot be {}", to_text(mtbf.value())}, "",
               {"write the mean time between two failures, 1s or more: auto(mtbf=24h)"});
    return;
  }
  run_.auto_save = AutoSave{.mtbf = *seconds, .span = value_span(node)};
}

// Lowers `checkpoint.copy`. Each host has this directory on its own disk, so the path must be absolute: the working
// directory is shared by the hosts.
void ModuleBuilder::lower_copy(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (symbol(node) == def.fallback) {
    return;
  }
  const auto path = text(node, scope, def);
  if (path && !path->starts_with('/')) {
    ev_.refuse("XG0214", value_span(node), {"`copy` cannot be \"{}\"", *path}, "not an absolute path",
               {"name a directory on a disk of each host: \"/local/copies\""});
    return;
  }
  run_.copy = path.value_or("");
  run_.copy_span = value_span(node);
}

void ModuleBuilder::lower_best(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const Ast* ast = node.ast;
  const std::string name = word(node);
  if (node.has_value() && symbol(node) == def.fallback) {
    return;
  }
  const Expr* expr = node.has_value() ? &(*ast)[node.value] : nullptr;
  const bool is_call = expr != nullptr && expr->kind == ExprKind::kCall && (name == "highest" || name == "lowest");
  const auto call = is_call ? metric_call((*ast)[expr->args], "keep") : std::nullopt;
  const std::string metric = call ? path_text(*ast, call->metric->value) : "";
  if (metric.empty()) {
    ev_.refuse("XG0205", value_span(node), "`best` is highest(METRIC, keep) or lowest(METRIC, keep)", "not one of them",
               {"name what is measured, and how many are kept: best = highest(test, 3)"});
    return;
  }
  BestSpec best{.metric = metric, .highest = name == "highest", .span = (*ast)[call->metric->value].span};
  if (call->second != nullptr) {
    const Datum keep = ev_.eval(*ast, call->second->value, scope);
    if (keep.is_error()) {
      return;
    }
    constexpr int64_t kMost = 1 << 20;
    best.keep = whole_number(keep).value_or(0);
    if (best.keep < 1 || best.keep > kMost) {
      ev_.refuse("XG0214", call->second->span, {"`keep` cannot be {}", to_text(keep)}, "",
                 {"write a whole number of 1 to {}", kMost});
      return;
    }
  }
  run_.best = best;
}

void ModuleBuilder::lower_stop(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (node.has_value() && symbol(node) == def.fallback) {
    return;
  }
  const Ast* ast = node.ast;
  const Expr* expr = node.has_value() ? &(*ast)[node.value] : nullptr;
  StopSpec stop{.text = expr == nullptr ? "" : std::string(ev_.sources().text(expr->span))};
  const auto test = expr != nullptr && expr->kind == ExprKind::kBinary ? test_of(expr->op) : std::nullopt;
  const auto call = expr != nullptr && expr->kind == ExprKind::kCall && word(node) == "plateau"
                        ? metric_call((*ast)[expr->args], "length")
                        : std::nullopt;
  const ExprId metric = test ? expr->lhs : call && call->second != nullptr ? call->metric->value : ExprId();
  stop.metric = metric.valid() ? path_text(*ast, metric) : "";
  if (stop.metric.empty()) {
    ev_.refuse("XG0205", value_span(node), "`stop_when` is plateau(METRIC, SPAN), or a metric compared with a number",
               "not one of them", {"write stop_when = plateau(test, 3 epochs), or stop_when = test >= 99%"});
    return;
  }
  stop.span = (*ast)[metric].span;
  const ExprId other = test ? expr->rhs : call->second->value;
  const Datum value = ev_.eval(*ast, other, scope);
  if (value.is_error()) {
    return;
  }
  if (!test) {
    const auto length = train_span(value, "`plateau`", (*ast)[other].span);
    if (!length) {
      return;
    }
    stop.length = *length;
  } else if (!value.plain_number()) {
    ev_.refuse("XG0205", value.span, {"a metric is compared with a number, not with {}", kind_text(value)}, "",
               {"write a share, such as 99%"});
    return;
  } else {
    stop.test = *test;
    stop.limit = value.as_double();
  }
  run_.stop_when = std::move(stop);
}

// The keys of evaluations; measures_of in runtime/train/evaluation/inference.h makes the same names.
std::vector<std::string> ModuleBuilder::measured_keys() const {
  const TrainSpec& train = module_.train;
  std::vector<std::string> keys;
  for (const MetricSpec& metric : train.measured()) {
    if (!metric.source.empty()) {
      keys.push_back(metric.name);
      continue;
    }
    for (const Source& source : sources_) {
      if (metric.reads(source.spec.name)) {
        keys.push_back(train.measured().size() == 1 ? source.spec.name : source.spec.name + "." + metric.name);
      }
    }
  }
  return keys;
}

void ModuleBuilder::check_watched(const Settings& settings) {
  const SettingNode* const eval = settings.root.find("eval");
  if (settings.has_error || metrics_are_partial_ || (eval != nullptr && eval->has_error)) {
    return;  // the metric may be one that could not be read
  }
  const std::vector<std::string> keys = measured_keys();
  std::vector<std::string> known = keys;
  known.insert(known.end(), unmeasured_.begin(), unmeasured_.end());
  const auto check = [&](const std::string& metric, Span at) {
    if (std::ranges::find(keys, metric) == keys.end() && !unmeasured_.contains(metric) && !data_is_partial_ &&
        broken_sources_.empty()) {
      ev_.refuse("XG0201", at, {"no evaluation gives `{}`", metric}, "not measured",
                 did_you_mean(metric, known, at,
                              {known.empty() ? "declare it: eval { test = accuracy(logits, label, source=test) }"
                                             : fmt::format("name one of {}", fmt::join(known, ", "))}));
    }
  };
  if (run_.best) {
    check(run_.best->metric, run_.best->span);
  }
  if (run_.stop_when) {
    check(run_.stop_when->metric, run_.stop_when->span);
  }
}

}  // namespace xrun::lang
