// `train`: loss and metrics become nodes of the graph, everything else a field of TrainSpec.
#include <cmath>
#include <fmt/format.h>

#include "graph/optimizer_def.h"
#include "lang/module_builder.h"

namespace xrun::lang {
namespace {

constexpr int64_t kDefaultRows = 64;

}  // namespace

void ModuleBuilder::require(const Settings& settings, std::string_view key) {
  if (settings.root.find(key) == nullptr) {
    ev_.refuse("XG0501", settings.root.key_span, fmt::format("`train` needs `{}`", key), "missing here");
  }
}

// Batch and precision come first: messages about the model's logits speak of them.
void ModuleBuilder::lower_batch(const Settings& settings, Scope& scope) {
  if (const SettingNode* node = settings.root.find("batch")) {
    module_.train.batch = whole(*node, scope, 1, int64_t{1} << 40).value_or(0);
    module_.train.batch_span = node->has_value() ? (*node->ast)[node->value].span : node->key_span;
  }
  PrecisionMode mode = PrecisionMode::kF32;
  if (const SettingNode* node = settings.root.find("precision")) {
    mode = precision(*node, scope, true);
  }
  ev_.set_gather_hint(module_.train.batch, mode == PrecisionMode::kF32 ? 4 : 2);
}

void ModuleBuilder::lower_train(const DeclRef& decl) {
  Settings settings = settings_of(decl, DeclKind::kTrain);
  Scope scope = constants(decl);
  scope.parent = &model_scope_;
  scope.resolve = [this](std::string_view name, Span at) { return data_value(name, at); };
  for (const Source& source : sources_) {
    for (const Field& field : source.fields) {
      scope.resolvable.push_back(field.name);
    }
  }
  for (const auto& [target, span] : targets_) {
    scope.resolvable.push_back(target);
  }
  TrainSpec& train = module_.train;
  train.name = decl ? std::string(decl.decl->name.text) : "";
  train.span = settings.root.span;
  module_.has_train = true;
  for (const std::string_view key : {"batch", "loss", "optimizer", "lr"}) {
    require(settings, key);
  }
  const SettingNode* epochs = settings.root.find("epochs");
  const SettingNode* steps = settings.root.find("steps");
  if (epochs != nullptr && steps != nullptr) {
    Diagnostic d = Evaluator::fault("XG0211", steps->key_span, "a run is measured in epochs or in steps, not in both",
                                    "set here, too");
    d.secondary.push_back({epochs->key_span, "set here"});
    ev_.report(std::move(d));
  } else if (epochs != nullptr) {
    train.duration = {real(*epochs, scope, 1e-9, 1e12).value_or(1), TrainSpan::kEpochs};
  } else if (steps != nullptr) {
    train.duration = {static_cast<double>(whole(*steps, scope, 1, int64_t{1} << 50).value_or(1)), TrainSpan::kSteps};
  } else {
    ev_.refuse("XG0501", settings.root.key_span, "`train` needs `epochs` or `steps`", "missing here");
  }
  // The loss first, so that its nodes come before those of metrics, whatever the order of the text.
  if (const SettingNode* node = settings.root.find("loss")) {
    lower_loss(*node, scope);
  }
  for (const SettingNode& node : settings.root.children) {
    train_setting(node, scope);
  }
  lower_norm_rows(settings, scope);
}

void ModuleBuilder::train_setting(const SettingNode& node, Scope& scope) {
  TrainSpec& train = module_.train;
  const std::string& key = node.key;
  const auto later = [&](std::string_view what) { ev_.not_yet(node.key_span, fmt::format("`{}`", what)); };
  if (key == "batch" || key == "epochs" || key == "steps" || key == "loss" || key == "norm_rows") {
    return;  // done before the others
  }
  if (key == "metrics") {
    const Ast* ast = node.ast;
    if (!node.has_value() || (*ast)[node.value].kind != ExprKind::kList) {
      ev_.refuse("XG0205", node.key_span, "`metrics` is a list of metrics", "[accuracy(logits, label)]");
      return;
    }
    for (const ExprId item : (*ast)[(*ast)[node.value].items]) {
      if (auto spec = metric(*ast, item, "", scope)) {
        train.metrics.push_back(std::move(*spec));
      }
    }
  } else if (key == "optimizer") {
    lower_optimizer(node, scope);
  } else if (key == "lr") {
    lower_rate(node, scope);
  } else if (key == "precision") {
    train.precision = precision(node, scope, false);
  } else if (key == "groups") {
    lower_groups(node, "", scope);
  } else if (key == "seed") {
    train.seed = static_cast<uint64_t>(whole(node, scope, 0, INT64_MAX).value_or(1));
  } else if (key == "deterministic") {
    train.deterministic = flag(node, scope).value_or(false);
  } else if (key == "eval") {
    lower_eval(node, scope);
  } else if (key == "log") {
    lower_log(node, scope);
  } else if (key == "checkpoint") {
    lower_checkpoint(node, scope);
  } else if (key == "grad_accumulation") {
    train.grad_accumulation = whole(node, scope, 1, 1 << 20).value_or(1);
    if (train.grad_accumulation > 1) {
      later("grad_accumulation");
    }
  } else if (key == "clip") {
    lower_clip(node, scope);
  } else if (key == "compress") {
    if (one_of(node, {"none", "topk"}) && symbol(node) != "none") {
      const auto unused = arguments(node, "topk", "(p: float, per_layer: bool = false, on: symbol = all)", scope);
      (void)unused;
      later("compress");
    }
  } else if (key == "active_classes") {
    if (one_of(node, {"all", "sample", "knn"}) && symbol(node) != "all") {
      const auto bound =
          symbol(node) == "sample"
              ? arguments(node, "sample", "(p: float)", scope)
              : arguments(node, "knn", "(neighbours: int, active: float, rebuild: span, exact: bool = true)", scope);
      if (bound && symbol(node) == "knn") {
        const BoundArg& rebuild = (*bound)[2];
        const auto span = train_span(rebuild.value(), "`rebuild` of `knn`", rebuild.span);
        (void)span;
      }
      later("active_classes = " + symbol(node));
    }
  } else if (key == "reduce") {
    train.reduce_sum = one_of(node, {"mean", "sum"}) && symbol(node) == "sum";
  } else if (key == "freeze") {
    train.freeze = paths(node);
    if (!train.freeze.empty()) {
      later("freeze");
    }
  } else if (key == "init") {
    if (one_of(node, {"seed", "checkpoint"}) && symbol(node) == "checkpoint") {
      if (const auto bound = arguments(node, "checkpoint", "(path: str)", scope)) {
        train.init_checkpoint = (*bound)[0].value().text;
        later("init = checkpoint");
      }
    }
  } else if (key == "order") {
    train.shuffled = !one_of(node, {"shuffled", "sequential"}) || symbol(node) == "shuffled";
  } else if (key == "stop_when") {
    later("stop_when");
  } else if (key == "ema") {
    if (symbol(node) != "none" && real(node, scope, 0, 1)) {
      later("ema");
    }
  } else {
    unknown_setting(node, DeclKind::kTrain, "train", {});
  }
}

void ModuleBuilder::lower_loss(const SettingNode& node, Scope& scope) {
  if (!node.has_value()) {
    ev_.refuse("XG0205", node.key_span, "`loss` is an expression, not a group", "write `loss = ...`");
    return;
  }
  ev_.names().enter(*ev_.names().leaf("loss", ""));
  const Datum value = ev_.eval(*node.ast, node.value, scope);
  ev_.names().leave();
  if (value.hole()) {
    return;
  }
  const Span at = (*node.ast)[node.value].span;
  if (value.kind != DatumKind::kTensor) {
    ev_.refuse("XG0504", at, fmt::format("a loss is a tensor with one value a sample, not {}", kind_text(value)));
    return;
  }
  const TensorType& type = ev_.type_of(value);
  if (type.dims != std::vector<int64_t>{kBatch} || type.classes > 0) {
    ev_.refuse("XG0504", at, "a loss has one value a sample", fmt::format("this is {}", to_text(type)));
    return;
  }
  // The pass over all shards of a head gives the loss of each row itself: nothing can be computed from it yet.
  for (const Node& loss_node : ev_.graph().nodes) {
    const NodeId logits = loss_node.inputs.empty() ? NodeId() : ev_.graph().value(loss_node.inputs[0]).producer;
    const bool of_head =
        loss_node.op->margin != nullptr && logits.valid() && ev_.graph().node(logits).op->head != nullptr;
    if (of_head && loss_node.outputs[0] != value.tensor) {
      ev_.not_yet(at, "a loss that is computed from the loss of a sharded head");
    }
  }
  module_.train.loss = value.tensor;
  ev_.graph().loss = value.tensor;
}

void ModuleBuilder::lower_optimizer(const SettingNode& node, Scope& scope) {
  const std::string name = symbol(node);
  const Span at = node.has_value() ? (*node.ast)[node.value].span : node.key_span;
  if (const DeclRef own = scope.file->find(name); own && own.decl->kind == DeclKind::kOptimizer) {
    ev_.refuse("XG0199", at, fmt::format("`optimizer {}` of your own is not available yet", name),
               "of a later edition of xrun");
    return;
  }
  const OptimizerDef* def = find_optimizer(name);
  if (def == nullptr) {
    std::vector<std::string> names;
    std::string list;
    for (const OptimizerDef* known : all_optimizers()) {
      names.emplace_back(known->name);
      list += (list.empty() ? "" : ", ") + std::string(known->name);
    }
    Span named = at;
    named.end = name.empty() ? at.end : at.begin + static_cast<uint32_t>(name.size());
    Diagnostic d = Evaluator::fault(
        "XG0201", named,
        name.empty() ? "an optimizer is named, and may be called" : fmt::format("there is no optimizer `{}`", name),
        "known are " + list);
    if (const std::string near = nearest(name, names); !near.empty()) {
      d.fixes.push_back({.title = "did you mean `" + near + "`?", .edits = {{named, near}}});
    }
    ev_.report(std::move(d));
    return;
  }
  const auto bound = arguments(node, def->name, def->signature, scope);
  const auto attrs = bound ? ev_.attributes(ev_.signature_of(def->name, def->signature), *bound) : std::nullopt;
  if (!attrs) {
    return;
  }
  if (def->availability == Availability::kNotYet) {
    ev_.not_yet(at, fmt::format("the optimizer `{}`", name));
  }
  module_.train.optimizer = {name, *attrs, at};
}

void ModuleBuilder::lower_groups(const SettingNode& node, const std::string& path, Scope& scope) {
  if (node.has_value()) {
    ev_.refuse("XG0205", node.key_span, "`groups` holds a group for each tensor prefix",
               "groups { PATH { lr = 0.1 } }");
    return;
  }
  GroupSpec group{.path = path, .lr = {}, .weight_decay = {}, .span = node.span};
  for (const SettingNode& child : node.children) {
    const std::string below = path.empty() ? child.key : path + "." + child.key;
    if (!child.has_value()) {
      lower_groups(child, below, scope);
    } else if (child.key == "lr") {
      group.lr = real(child, scope, 0, HUGE_VAL);
    } else if (child.key == "weight_decay") {
      group.weight_decay = real(child, scope, 0, HUGE_VAL);
    } else {
      unknown_setting(child, DeclKind::kHole, "groups", {"lr", "weight_decay"});
    }
  }
  if (path.empty() || (!group.lr && !group.weight_decay)) {
    return;
  }
  if (!names_a_tensor(path)) {
    ev_.refuse("XG0217", node.key_span, fmt::format("no tensor is called `{}`", path),
               "nothing in the model has this prefix");
  }
  module_.train.groups.push_back(std::move(group));
}

void ModuleBuilder::lower_eval(const SettingNode& node, Scope& scope) {
  if (node.has_value()) {
    ev_.refuse("XG0205", node.key_span, "`eval` is a group", "eval { every = 1 epoch  NAME = metric(...) }");
    return;
  }
  for (const SettingNode& child : node.children) {
    if (child.key == "every") {
      module_.train.eval_every = train_span(child, scope);
    } else if (!child.has_value() || nearest(child.key, {"every"}) == "every") {
      unknown_setting(child, DeclKind::kHole, "eval", {"every"});
    } else if (auto spec = metric(*child.ast, child.value, child.key, scope)) {
      spec->span = child.span;
      module_.train.eval.push_back(std::move(*spec));
    }
  }
  if (!module_.train.eval_every) {
    module_.train.eval_every = TrainSpan{1, TrainSpan::kEpochs};
  }
}

// accuracy(logits, label, source=val): a node of the graph, and the source that it is measured on.
std::optional<MetricSpec> ModuleBuilder::metric(const Ast& ast, ExprId id, std::string name, Scope& scope) {
  const Expr& expr = ast[id];
  if (expr.kind == ExprKind::kHole) {
    return std::nullopt;
  }
  if (expr.kind != ExprKind::kCall || ast[expr.lhs].kind != ExprKind::kName) {
    ev_.refuse("XG0505", expr.span, "a metric is called: accuracy(logits, label)", "not a call");
    return std::nullopt;
  }
  constexpr size_t kMostMetrics = 256;
  if (ev_.graph().metrics.size() >= kMostMetrics) {
    ev_.refuse("XG0216", expr.span, fmt::format("a run has at most {} metrics", kMostMetrics), "one too many");
    return std::nullopt;
  }
  const Name& op_name = ast[expr.lhs].name;
  const Callee callee = ev_.find_callee(ast, std::span(&op_name, 1), scope);
  if (callee.kind == Callee::kUnknown) {
    return std::nullopt;
  }
  if (callee.kind != Callee::kOp) {
    ev_.refuse("XG0505", expr.span, fmt::format("`{}` is no metric", callee.name), "accuracy, topk, ...");
    return std::nullopt;
  }
  // `source` belongs to the harness: it is not an argument of the node, unless the operator cannot do without it.
  const Signature& signature = ev_.signature_of(*callee.op);
  const auto own = std::find_if(signature.params.begin(), signature.params.end(),
                                [](const Param& param) { return param.name.text == "source"; });
  const bool needed = own != signature.params.end() && !own->value.valid();
  MetricSpec spec{.name = name.empty() ? callee.name : std::move(name), .span = expr.span};
  std::vector<Arg> args;
  bool good = true;
  auto place = signature.params.begin();
  for (const Arg& arg : ast[expr.args]) {
    const bool names_source = arg.name ? arg.name.text == "source" : place == own && place != signature.params.end();
    place += !arg.name && place != signature.params.end() ? 1 : 0;
    if (!names_source || needed) {
      args.push_back(arg);
    }
    if (!names_source) {
      continue;
    }
    if (ast[arg.value].kind == ExprKind::kNone) {
      continue;
    }
    spec.source = path_text(ast, arg.value);
    std::vector<std::string> known;
    for (const Source& source : sources_) {
      known.push_back(source.spec.name);
    }
    if (std::find(known.begin(), known.end(), spec.source) == known.end()) {
      Diagnostic d = Evaluator::fault("XG0201", ast[arg.value].span,
                                      fmt::format("the data has no source `{}`", spec.source), "unknown source");
      if (const std::string near = nearest(spec.source, known); !near.empty()) {
        d.fixes.push_back({.title = "did you mean `" + near + "`?", .edits = {{ast[arg.value].span, near}}});
      }
      ev_.report(std::move(d));
      good = false;
    }
  }
  if (callee.op->availability == Availability::kNotYet && callee.op->infer == nullptr) {
    ev_.not_yet(op_name.span, fmt::format("the metric `{}`", callee.name));
    return std::nullopt;
  }
  // Equal calls share a node: evaluation on three sources is one metric of the graph.
  const size_t nodes = ev_.graph().nodes.size();
  ev_.names().enter(*ev_.names().leaf("metrics", ""));
  const Datum value = ev_.eval_call(
      callee, {.ast = &ast, .args = args, .label = {}, .span = expr.span, .name_span = op_name.span}, scope);
  ev_.names().leave();
  if (value.hole() || !good) {
    return std::nullopt;
  }
  Graph& graph = ev_.graph();
  const ValueId made = value.kind == DatumKind::kTensor ? value.tensor : ValueId();
  if (!made.valid() || graph.value(made).type.dims != std::vector<int64_t>{kBatch}) {
    ev_.refuse("XG0505", expr.span, fmt::format("`{}` is no metric", callee.name), "a metric has one value a sample");
    return std::nullopt;
  }
  spec.value = made;
  if (graph.nodes.size() == nodes + 1 && graph.nodes.back().outputs.size() == 1) {
    for (const ValueId known : graph.metrics) {
      const Node& node = graph.node(graph.value(known).producer);
      const Node& last = graph.nodes.back();
      if (node.op == last.op && node.inputs == last.inputs && node.attrs == last.attrs) {
        spec.value = known;
        graph.nodes.pop_back();
        graph.values.pop_back();
        break;
      }
    }
  }
  graph.metrics.push_back(spec.value);
  return spec;
}

void ModuleBuilder::lower_checkpoint(const SettingNode& node, Scope& scope) {
  TrainSpec& train = module_.train;
  for (const SettingNode& child : node.children) {
    if (child.key == "every") {
      train.checkpoint_every = train_span(child, scope).value_or(train.checkpoint_every);
    } else if (child.key == "keep") {
      train.checkpoint_keep = whole(child, scope, 1, 1 << 20).value_or(train.checkpoint_keep);
    } else if (child.key == "dir") {
      train.checkpoint_dir = text(child, scope).value_or("");
    } else if (child.key == "async") {
      train.checkpoint_async = flag(child, scope).value_or(false);
      if (train.checkpoint_async) {
        ev_.not_yet(child.key_span, "`checkpoint.async`");
      }
    } else {
      unknown_setting(child, DeclKind::kHole, "checkpoint", {"every", "keep", "dir", "async"});
    }
  }
  if (node.has_value()) {
    ev_.refuse("XG0205", node.key_span, "`checkpoint` is a group", "checkpoint { every = 1 epoch }");
  }
}

void ModuleBuilder::lower_log(const SettingNode& node, Scope& scope) {
  for (const SettingNode& child : node.children) {
    if (child.key == "every") {
      module_.train.log_every = train_span(child, scope).value_or(module_.train.log_every);
    } else if (child.key == "tensorboard" || child.key == "prometheus") {
      ev_.not_yet(child.key_span, fmt::format("`log.{}`", child.key));
    } else {
      unknown_setting(child, DeclKind::kHole, "log", {"every", "tensorboard", "prometheus"});
    }
  }
  if (node.has_value()) {
    ev_.refuse("XG0205", node.key_span, "`log` is a group", "log { every = 10 steps }");
  }
}

void ModuleBuilder::lower_clip(const SettingNode& node, Scope& scope) {
  if (!one_of(node, {"none", "norm", "value"}) || symbol(node) == "none") {
    return;
  }
  const bool norm = symbol(node) == "norm";
  const auto bound = arguments(node, symbol(node), norm ? "(x: float, heads: bool = false)" : "(x: float)", scope);
  if (!bound) {
    return;
  }
  ClipSpec& clip = module_.train.clip;
  clip.kind = norm ? ClipSpec::kNorm : ClipSpec::kValue;
  clip.limit = (*bound)[0].value().as_double();
  clip.heads = norm && (*bound)[1].value().flag;
  if (!(clip.limit > 0)) {
    ev_.refuse("XG0214", (*bound)[0].span, fmt::format("`clip` cannot be {:g}", clip.limit), "more than 0");
  }
}

PrecisionMode ModuleBuilder::precision(const SettingNode& node, Scope& scope, bool quiet) {
  if (quiet) {
    return symbol(node) == "mixed" ? PrecisionMode::kMixedBf16 : PrecisionMode::kF32;
  }
  if (!one_of(node, {"f32", "mixed"}) || symbol(node) == "f32") {
    return PrecisionMode::kF32;
  }
  const auto bound = arguments(node, "mixed", "(dtype: symbol, loss_scale: symbol = none)", scope);
  if (bound) {
    const std::string& dtype = (*bound)[0].value().text;
    if (dtype == "f16") {
      ev_.not_yet((*bound)[0].span, "`mixed(f16)`");
    } else if (dtype != "bf16") {
      ev_.refuse("XG0205", (*bound)[0].span, fmt::format("`mixed` takes bf16 or f16, not `{}`", dtype));
    }
  }
  return PrecisionMode::kMixedBf16;
}

// The row block: what batch norm takes together, and the unit of every kernel call (DETERMINISM 1).
void ModuleBuilder::lower_norm_rows(const Settings& settings, Scope& scope) {
  TrainSpec& train = module_.train;
  const int64_t batch = train.batch;
  train.norm_rows = batch > 0 ? std::min(kDefaultRows, batch) : kDefaultRows;
  Span at = train.batch_span;
  if (const SettingNode* node = settings.root.find("norm_rows")) {
    if (symbol(*node) == "global") {
      ev_.not_yet(node->key_span, "`norm_rows = global`");
      return;
    }
    const auto rows = whole(*node, scope, 1, 1 << 20);
    if (!rows) {
      return;
    }
    train.norm_rows = *rows;
    at = (*node->ast)[node->value].span;
  }
  if (batch <= 0 || batch % train.norm_rows == 0) {
    return;
  }
  std::string divisors;
  for (int64_t rows = std::min<int64_t>(batch, 1024); rows >= 1; --rows) {
    if (batch % rows == 0) {
      divisors = divisors.empty() ? std::to_string(rows) : std::to_string(rows) + ", " + divisors;
    }
  }
  Diagnostic d = Evaluator::fault(
      "XG0507", at, fmt::format("row blocks of {} samples do not divide a batch of {}", train.norm_rows, batch),
      fmt::format("{} / {} leaves {} samples over", batch, train.norm_rows, batch % train.norm_rows));
  if (at != train.batch_span) {
    d.secondary.push_back({train.batch_span, "the batch"});
  } else {
    d.notes.push_back("`norm_rows` is 64 unless it is set, or the batch where that is less");
  }
  d.fixes.push_back({.title = "norm_rows may be one of " + divisors});
  ev_.report(std::move(d));
}

}  // namespace xrun::lang
