// Lowers a batch that grows, `batch = grow(256 .. 2048, over=2 epochs)`, and its rate, `lr = fccs(0.4)`.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "lang/lower/curves.h"
#include "lang/lower/module_builder.h"

namespace xrun::lang {
namespace {

// The largest factor by which a batch may grow. A plan has a program for each multiple of the first size.
constexpr int64_t kMostTimes = 64;

constexpr std::string_view kGrow = "(sizes: sizes, over: span, after: span = none)";
constexpr std::string_view kGrowExample = "batch = grow(64 .. 256, over=2 epochs, after=1 epoch)";

}  // namespace

// Reads the batch and the precision before the model is built, because messages about the model's logits use them.
void ModuleBuilder::lower_batch(const Settings& settings, const Scope& scope) {
  TrainSpec& train = module_.train;
  if (const SettingNode* node = settings.root.find("batch")) {
    train.batch_span = value_span(*node);
    Scope own = scope_of(*node, scope);
    if (node->has_value() && word(*node) == "grow") {
      train.batch = lower_growth(*node, own) ? train.growth->first : 0;
    } else {
      train.batch = whole(*node, own, setting(DeclKind::kTrain, "batch")).value_or(0);
    }
  }
  const SettingNode* precision = settings.root.find("precision");
  ev_.recorded().gather_batch = train.batch;
  ev_.recorded().gather_bytes = precision != nullptr && word(*precision) == "mixed" ? 2 : 4;
}

bool ModuleBuilder::lower_growth(const SettingNode& node, Scope& scope) {
  GrowthSpec growth{.span = value_span(node)};
  const auto bound = arguments(*node.ast, node.value, "grow", kGrow, scope);
  if (!bound) {
    return false;
  }
  for (const BoundArg& arg : *bound) {
    const std::string_view param = arg.param->name.text;
    const Datum& value = arg.value();
    if (param == "sizes") {
      if (!lower_sizes(arg, growth)) {
        return false;
      }
    } else if (value.kind != DatumKind::kNone) {
      const auto span = train_span(value, fmt::format("`{}` of `grow`", param), value.span);
      if (!span) {
        return false;
      }
      (param == "over" ? growth.over : growth.after) = *span;
      if (span->unit == TrainSpan::kSteps) {
        ev_.refuse("XG0511", value.span, {"`{}` of `grow` is in epochs or samples, not in steps", param},
                   "steps grow with the batch", {"write it in epochs: {}", kGrowExample});
        return false;
      }
    }
  }
  module_.train.growth = growth;
  return true;
}

bool ModuleBuilder::lower_sizes(const BoundArg& arg, GrowthSpec& growth) {
  const Datum& value = arg.value();
  const double most = setting(DeclKind::kTrain, "batch").high;
  if (value.kind != DatumKind::kRange) {
    ev_.refuse("XG0205", arg.span, "`grow` goes from size to size: a .. b", {"this is {}", kind_text(value)},
               {"write both sizes with two dots between: {}", kGrowExample});
    return false;
  }
  const auto first = whole_number((*value.items)[0]);
  const auto last = whole_number((*value.items)[1]);
  if (!first || !last || *first < 1 || static_cast<double>(*last) > most) {
    ev_.refuse("XG0214", value.span, {"`grow` cannot go {}", to_text(value)}, "",
               {"write whole numbers of samples of 1 to {:.0f}: {}", most, kGrowExample});
    return false;
  }
  if (*last <= *first || *last % *first != 0 || *last / *first > kMostTimes) {
    const int64_t times = std::clamp<int64_t>(*last / *first, 2, kMostTimes);
    ev_.refuse("XG0511", value.span, {"a batch of {} cannot grow to {}", *first, *last},
               "a step takes whole batches of the first size",
               replacement({"write 2 to {} times the first size", kMostTimes}, value.span,
                           fmt::format("{} .. {}", *first, times * *first)));
    return false;
  }
  growth.first = *first;
  growth.times = *last / *first;
  return true;
}

// Checks the settings that cannot be combined with a growing batch, after all settings were read.
void ModuleBuilder::check_growth(const Settings& settings) {
  TrainSpec& train = module_.train;
  if (!train.growth) {
    return;
  }
  const GrowthSpec& growth = *train.growth;
  if (const SettingNode* node = settings.root.find("grad_accumulation");
      node != nullptr && train.grad_accumulation > 1) {
    ev_.report(fault("XG0511", node->key_span, "a batch that grows accumulates gradients by itself", "also set here",
                     {"leave `grad_accumulation` out, and make the first size of `grow` larger"})
                   .also(growth.span, "grows"));
  }
  if (const SettingNode* node = settings.root.find("steps")) {
    ev_.report(fault("XG0511", node->key_span, "a run whose batch grows is measured in epochs",
                     "steps grow with the batch", {"write epochs = 10"})
                   .also(growth.span, "grows"));
  }
  for (const CurveSpec& curve : train.lr) {
    const bool in_steps =
        (curve.span && curve.span->unit == TrainSpan::kSteps) ||
        std::ranges::any_of(curve.at, [](const TrainSpan& at) { return at.unit == TrainSpan::kSteps; });
    if (in_steps) {
      ev_.report(fault("XG0511", curve.source, "if the batch grows, curves are measured in epochs or samples",
                       "steps grow with the batch", {"write its span in epochs"})
                     .also(growth.span, "grows"));
    }
  }
  if (const CompressSpec& compress = train.compress; compress.warmup && compress.warmup->unit == TrainSpan::kSteps) {
    ev_.report(fault("XG0511", compress.span,
                     "if the batch grows, the warm-up of `topk` is measured in epochs or samples",
                     "steps grow with the batch", {"write its span in epochs"})
                   .also(growth.span, "grows"));
  }
  const TrainSpan& run = train.duration;
  const bool comparable = growth.over.unit == run.unit && (growth.after.amount == 0 || growth.after.unit == run.unit);
  if (const double end = growth.after.amount + growth.over.amount;
      comparable && run.amount > 0 && end > run.amount * (1 + 1e-9)) {
    TrainSpan grown = run;
    grown.amount = end;
    ev_.refuse("XG0511", growth.span, {"the batch grows for {} of a run of {}", to_text(grown), to_text(run)},
               "it never has its last size", {"make `over` or `after` shorter, or the run longer"});
  }
  train.batch *= growth.times;
}

// Lowers `lr = fccs(peak)`: the rate rises until the batch starts to grow, is constant while the batch grows, and falls
// afterwards.
void ModuleBuilder::lower_fccs(const Ast& ast, ExprId id, Scope& scope) {
  TrainSpec& train = module_.train;
  const auto bound = arguments(ast, id, "fccs", curve_kind("fccs").signature, scope);
  if (!bound) {
    return;
  }
  const Span span = ast[id].span;
  const double peak = (*bound)[0].value().as_double();
  const double end = (*bound)[1].value().as_double();
  if (!(peak >= 0) || !(end >= 0) || !std::isfinite(peak + end)) {
    ev_.refuse("XG0214", span, "rates must be 0 or more", "", {"write numbers without `-`, and not too large"});
    return;
  }
  if (!train.growth) {
    // A fault in the batch was already reported.
    if (train.batch > 0 || !train.batch_span.valid()) {
      ev_.report(fault("XG0511", span, "`fccs` needs a batch that grows, and this one does not", "its rate",
                       {"write {}", kGrowExample})
                     .also(train.batch_span, "one size"));
    }
    return;
  }
  const GrowthSpec& growth = *train.growth;
  if (growth.after.amount > 0) {
    train.lr.push_back({.kind = "warmup", .from = 0, .to = peak, .span = growth.after, .source = span});
  }
  train.lr.push_back({.kind = "constant", .from = peak, .to = peak, .span = growth.over, .source = span});
  train.lr.push_back({.kind = "cosine", .from = peak, .to = end, .source = span});
}

}  // namespace xrun::lang
