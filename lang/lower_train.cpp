// `train`: its settings become fields of TrainSpec; loss and metrics are in lower_loss.cpp, rates in lower_curves.cpp.
#include <cmath>
#include <fmt/format.h>

#include "graph/optimizer_def.h"
#include "lang/module_builder.h"
#include "lang/nearest.h"

namespace xrun::lang {
namespace {

constexpr int64_t kDefaultRows = 64;

}  // namespace

// One of `keys` is set; silent where a fault of its own says why it is not: a misspelt one, or one that has no value.
void ModuleBuilder::require(const Settings& settings, std::initializer_list<std::string_view> keys) {
  std::string list;
  for (const std::string_view key : keys) {
    if (settings.root.find(key) != nullptr) {
      return;
    }
    for (const SettingNode& child : settings.root.children) {
      if (!is_setting(DeclKind::kTrain, child.key) && nearest(child.key, {std::string(key)}) == key) {
        return;
      }
    }
    list += fmt::format("{}`{}`", list.empty() ? "" : " or ", key);
  }
  if (!settings.has_hole) {
    ev_.refuse("XG0501", settings.root.key_span, fmt::format("`train` needs {}", list), "missing here");
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
    require(settings, {key});
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
    require(settings, {"epochs", "steps"});
  }
  // The loss first, so that its nodes come before those of metrics, whatever the order of the text.
  if (const SettingNode* node = settings.root.find("loss")) {
    lower_loss(*node, scope);
  }
  for (const SettingNode& node : settings.root.children) {
    train_setting(node, scope);
  }
  lower_norm_rows(settings, scope);
  // An update sums the gradients of that many batches: the mathematics of one batch as large as all of them.
  train.batch *= train.grad_accumulation;
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
      Diagnostic d =
          Evaluator::fault("XG0205", node.key_span, "`metrics` is a list of metrics", "[accuracy(logits, label)]");
      if (node.has_value() && (*ast)[node.value].kind == ExprKind::kCall) {
        const Span call = (*ast)[node.value].span;
        d.fixes.push_back(
            {.title = "put it into a list", .edits = {{call, fmt::format("[{}]", ev_.sources().text(call))}}});
      }
      ev_.report(std::move(d));
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
    lower_freeze(node);
  } else if (key == "init") {
    if (one_of(node, {"seed", "checkpoint"}) && symbol(node) == "checkpoint") {
      if (const auto bound = arguments(node, "checkpoint", "(path: str)", scope)) {
        train.init_checkpoint = (*bound)[0].value().text;
        // As of data: a path of the command line starts where the model's file lies.
        const bool in_text = choice_.train && choice_.train.file->file == (*bound)[0].span.file;
        train.directory = in_text ? choice_.train.file->directory : main_.directory;
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
  const auto attrs = bound ? ev_.attributes(ev_.signatures().of(def->name, def->signature), *bound) : std::nullopt;
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

// Weights below the paths get no gradient, so that nothing updates them and nothing is kept for it. Running statistics
// are no weights: they go on following the data, since the layers behind them see what batch norm makes of these.
void ModuleBuilder::lower_freeze(const SettingNode& node) {
  module_.train.freeze = paths(node);
  std::vector<Parameter>& params = ev_.graph().params;
  for (const std::string& path : module_.train.freeze) {
    bool any = false;
    for (Parameter& parameter : params) {
      if (parameter.trained && is_prefix(path, parameter.name)) {
        parameter.frozen = any = true;
      }
    }
    if (!any && names_a_part(path)) {
      ev_.refuse("XG0217", node.key_span, fmt::format("`freeze` names `{}`, which has no weights", path),
                 "a layer or block with weights, or one of its tensors");
    }
  }
  if (!params.empty() && std::none_of(params.begin(), params.end(), [](const auto& p) { return p.updated(); })) {
    ev_.refuse("XG0509", node.key_span, "`freeze` leaves nothing to train", "every weight is frozen");
  }
  // A sweep over class rows updates weight and bias together.
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
      ev_.not_yet(node.key_span, fmt::format("freezing a part of the head `{}`", head.name));
    }
  }
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
