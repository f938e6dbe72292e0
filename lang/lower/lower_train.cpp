// `train`: its settings become fields of TrainSpec; loss and metrics are in lower_loss.cpp, rates in lower_curves.cpp,
// the optimizer and what is frozen in lower_update.cpp.
#include <fmt/format.h>

#include "lang/lower/module_builder.h"
#include "lang/nearest.h"

namespace xrun::lang {
namespace {

constexpr int64_t kDefaultRows = 64;
constexpr int64_t kMostSamples = int64_t{1} << 30;  // of a batch; the planner looks at its divisors

std::string_view example_of(std::string_view key) {
  return key == "batch"       ? "batch = 64"
         : key == "loss"      ? "loss = softmax_ce(logits, label)"
         : key == "optimizer" ? "optimizer = sgd(momentum=0.9)"
         : key == "lr"        ? "lr = cosine(0.1 .. 0)"
                              : "epochs = 10";
}

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
  if (!settings.has_error) {
    ev_.refuse("XG0501", settings.root.key_span, fmt::format("`train` needs {}", list), "missing here",
               {fmt::format("set it: {}", example_of(*keys.begin()))});
  }
}

// Batch and precision come first: messages about the model's logits speak of them.
void ModuleBuilder::lower_batch(const Settings& settings, Scope& scope) {
  if (const SettingNode* node = settings.root.find("batch")) {
    module_.train.batch = whole(*node, scope, 1, kMostSamples).value_or(0);
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
  for (const Source& source : sources_) {
    for (const Field& field : source.fields) {
      scope.resolvable.push_back(field.name);
    }
  }
  for (const auto& [target, span] : targets_) {
    scope.resolvable.push_back(target);
  }
  scope.resolve = [this, file = scope.file, known = scope.resolvable](std::string_view name, Span at) {
    auto value = data_value(name, at);
    const bool elsewhere = name == "N" || file->find(name) || ev_.options().ops->find(name) != nullptr;
    return !value && !elsewhere && may_be_a_field(name, known) ? std::optional(Datum()) : value;
  };
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
    Diagnostic d = fault("XG0211", steps->key_span, "a run is measured in epochs or in steps, not in both",
                         "set here, too", {"leave one of both out"});
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
  if (train.batch > kMostSamples) {
    const SettingNode* node = settings.root.find("grad_accumulation");
    ev_.refuse("XG0214", node->has_value() ? (*node->ast)[node->value].span : node->key_span,
               fmt::format("an update cannot take {} samples", train.batch), "",
               {fmt::format("make `batch` or `grad_accumulation` smaller: their product is at most {}", kMostSamples)});
  }
}

void ModuleBuilder::train_setting(const SettingNode& node, Scope& scope) {
  TrainSpec& train = module_.train;
  const std::string& key = node.key;
  const auto later = [&](std::string_view what, std::string_view off) {
    Fix fix{fmt::format("leave `{}` out", node.key)};
    if (!off.empty()) {
      fix =
          replacement(fmt::format("leave it out, or write `{}`", off), (*node.ast)[node.value].span, std::string(off));
    }
    ev_.not_yet(node.key_span, fmt::format("`{}`", what), std::move(fix));
  };
  if (key == "batch" || key == "epochs" || key == "steps" || key == "loss" || key == "norm_rows") {
    return;  // done before the others
  }
  if (key == "metrics") {
    lower_metrics(node, scope);
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
    if (one_of(node, {"none"}, {"topk"}) && symbol(node) != "none") {
      const auto unused = arguments(node, "topk", "(p: float, per_layer: bool = false, on: symbol = all)", scope);
      (void)unused;
      later("compress", "none");
    }
  } else if (key == "active_classes") {
    if (one_of(node, {"all"}, {"sample", "knn"}) && symbol(node) != "all") {
      const auto bound =
          word(node) == "sample"
              ? arguments(node, "sample", "(p: float)", scope)
              : arguments(node, "knn", "(neighbours: int, active: float, rebuild: span, exact: bool = true)", scope);
      if (bound && word(node) == "knn") {
        const BoundArg& rebuild = (*bound)[2];
        const auto span = train_span(rebuild.value(), "`rebuild` of `knn`", rebuild.span);
        (void)span;
      }
      later("active_classes = " + word(node), "all");
    }
  } else if (key == "reduce") {
    train.reduce_sum = one_of(node, {"mean", "sum"}) && symbol(node) == "sum";
  } else if (key == "freeze") {
    lower_freeze(node);
  } else if (key == "init") {
    if (one_of(node, {"seed"}, {"checkpoint"}) && word(node) == "checkpoint") {
      if (const auto bound = arguments(node, "checkpoint", "(path: str)", scope)) {
        train.init_checkpoint = (*bound)[0].value().text;
        if (train.init_checkpoint.empty()) {
          ev_.refuse(
              "XG0214", (*bound)[0].span, "`checkpoint` cannot be \"\"", "no path",
              {"name a step directory or its parent, init = checkpoint(\"ckpt/t/latest\"), or leave `init` out"});
        }
        // As of data: a path of the command line starts where the model's file lies.
        const bool in_text = choice_.train && choice_.train.file->file == (*bound)[0].span.file;
        train.directory = in_text ? choice_.train.file->directory : main_.directory;
      }
    }
  } else if (key == "order") {
    train.shuffled = !one_of(node, {"shuffled", "sequential"}) || symbol(node) == "shuffled";
  } else if (key == "stop_when") {
    later("stop_when", "");
  } else if (key == "ema") {
    if (symbol(node) != "none" && real(node, scope, 0, 1)) {
      later("ema", "none");
    }
  } else {
    unknown_setting(node, DeclKind::kTrain, "train", {});
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
        ev_.not_yet(child.key_span, "`checkpoint.async`", {"leave `async` out, or set it to false"});
      }
    } else {
      unknown_setting(child, DeclKind::kError, "checkpoint", {"every", "keep", "dir", "async"});
    }
  }
  if (node.has_value()) {
    refuse_value(node, {.title = "write", .lines = {"checkpoint {", "  every = 1 epoch", "}"}});
  }
}

void ModuleBuilder::lower_log(const SettingNode& node, Scope& scope) {
  for (const SettingNode& child : node.children) {
    if (child.key == "every") {
      module_.train.log_every = train_span(child, scope).value_or(module_.train.log_every);
    } else if (child.key == "tensorboard" || child.key == "prometheus") {
      ev_.not_yet(child.key_span, fmt::format("`log.{}`", child.key),
                  {"leave it out: --progress json gives every step as an event"});
    } else {
      unknown_setting(child, DeclKind::kError, "log", {"every", "tensorboard", "prometheus"});
    }
  }
  if (node.has_value()) {
    refuse_value(node, {.title = "write", .lines = {"log {", "  every = 10 steps", "}"}});
  }
}

void ModuleBuilder::lower_clip(const SettingNode& node, Scope& scope) {
  if (!one_of(node, {"none"}, {"norm", "value"}) || symbol(node) == "none") {
    return;
  }
  const bool norm = word(node) == "norm";
  const auto bound = arguments(node, word(node), norm ? "(x: float, heads: bool = false)" : "(x: float)", scope);
  if (!bound) {
    return;
  }
  ClipSpec& clip = module_.train.clip;
  clip.kind = norm ? ClipSpec::kNorm : ClipSpec::kValue;
  clip.limit = (*bound)[0].value().as_double();
  clip.heads = norm && (*bound)[1].value().flag;
  if (!(clip.limit > 0)) {
    ev_.refuse("XG0214", (*bound)[0].span, fmt::format("`clip` cannot be {:g}", clip.limit), "",
               {"write a number above 0, or clip = none"});
  }
}

PrecisionMode ModuleBuilder::precision(const SettingNode& node, Scope& scope, bool quiet) {
  if (quiet) {
    return word(node) == "mixed" ? PrecisionMode::kMixedBf16 : PrecisionMode::kF32;
  }
  if (!one_of(node, {"f32"}, {"mixed"}) || symbol(node) == "f32") {
    return PrecisionMode::kF32;
  }
  const auto bound = arguments(node, "mixed", "(dtype: symbol, loss_scale: symbol = none)", scope);
  if (bound) {
    const std::string& dtype = (*bound)[0].value().text;
    if (dtype == "f16") {
      ev_.not_yet((*bound)[0].span, "`mixed(f16)`", replacement("write bf16", (*bound)[0].span, "bf16"));
    } else if (dtype != "bf16") {
      ev_.refuse("XG0205", (*bound)[0].span, fmt::format("`mixed` takes bf16 or f16, not `{}`", dtype), "",
                 replacement("write bf16", (*bound)[0].span, "bf16"));
    }
    if ((*bound)[1].value().kind != DatumKind::kNone) {
      ev_.not_yet((*bound)[1].span, "`loss_scale` of `mixed`", {"leave it out: bf16 needs none"});
    }
  }
  return PrecisionMode::kMixedBf16;
}

// The row block: what batch norm takes together, and the unit of every kernel call (docs/determinism.md,
// "Row blocks").
void ModuleBuilder::lower_norm_rows(const Settings& settings, Scope& scope) {
  TrainSpec& train = module_.train;
  const int64_t batch = train.batch;
  train.norm_rows = batch > 0 ? std::min(kDefaultRows, batch) : kDefaultRows;
  Span at = train.batch_span;
  if (const SettingNode* node = settings.root.find("norm_rows")) {
    if (word(*node) == "global") {
      if (!one_of(*node, {"global"})) {
        return;
      }
      ev_.not_yet(node->key_span, "`norm_rows = global`",
                  {"leave it out, or write a number that divides the batch, as large as the memory allows"});
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
  Diagnostic d =
      fault("XG0507", at, fmt::format("row blocks of {} samples do not divide a batch of {}", train.norm_rows, batch),
            fmt::format("{} / {} leaves {} samples over", batch, train.norm_rows, batch % train.norm_rows),
            {"norm_rows may be one of " + divisors});
  if (at != train.batch_span) {
    d.secondary.push_back({train.batch_span, "the batch"});
  } else {
    d.notes.push_back("`norm_rows` is 64 unless it is set, or the batch where that is less");
  }
  ev_.report(std::move(d));
}

}  // namespace xrun::lang
