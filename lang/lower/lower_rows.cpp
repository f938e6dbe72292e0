// Checks the settings of groups that apply only to class weights of a sharded head: their formats, the treatment of
// rows of inactive classes, and the place of rows.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/layouts/rows_layout.h"
#include "graph/settings/group_rules.h"
#include "graph/settings/known_update.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// The code of all faults in these settings.
constexpr const char* kCode = "XG0515";

}  // namespace

void ModuleBuilder::check_rows() {
  for (const GroupSetting& setting : group_settings_) {
    const auto group = std::ranges::find(module_.train.groups, setting.path, &GroupSpec::path);
    const CallSpec& optimizer = module_.train.optimizer;
    if (setting.key == "weight_decay" && !optimizer.name.empty() && !optimizer.args.has("weight_decay")) {
      ev_.refuse("XG0210", setting.key_span, {"the optimizer `{}` has no `weight_decay`", optimizer.name}, "",
                 {"leave it out, or give the optimizer such a parameter and let its update use it"});
    }
    const bool is_rows =
        setting.key == "weights" || setting.key == "states" || setting.key == "untouched" || setting.key == "rows";
    if (!is_rows || group == module_.train.groups.end() || !choice_.model || !check_owner(setting)) {
      continue;
    }
    if (setting.key == "weights" && group->weights == RowFormat::kFp8) {
      check_fp8(setting);
    } else if (setting.key == "untouched" && group->untouched == Untouched::kExact) {
      check_exact(setting, *group);
    } else if (setting.key == "rows" && group->rows == RowPlace::kMapped) {
      check_mapped(setting, *group);
    }
  }
}

// Whether the path names class weights and no other tensors. A path that also names other tensors is reported.
bool ModuleBuilder::check_owner(const GroupSetting& setting) {
  const Graph& graph = ev_.graph();
  bool any = false;
  bool rows = false;
  bool others = false;
  for (const Parameter& parameter : graph.params) {
    if (is_below(setting.path, parameter.name)) {
      any = true;
      rows = rows || (parameter.head && graph.value(parameter.value).type.rank() > 1);
      others = others || !parameter.head;
    }
  }
  if (!any || (rows && !others)) {
    return any;  // a path without tensors is reported by another check
  }
  const std::string heads = fmt::format("{}", fmt::join(names_of(graph.heads, &Head::name), ", "));
  ev_.refuse(kCode, setting.key_span, {"`{}` is for the class weights of a sharded head", setting.key},
             fmt::format("`{}` has other tensors", setting.path),
             heads.empty() ? Help("leave it out: the model has no sharded head")
                           : Help("put it in the group of a head: {}", heads));
  return false;
}

// Checks that class weights in fp8 have an optimizer whose updates vanish with the gradients. Stochastic rounding keeps
// the mean of the weights right, but each update adds noise that grows with its size. For most rows the gradients
// become small. Updates that are sums with factors, such as those of sgd and lars, then also become small. Updates that
// are divided by second moments do not: they are about as large as the rate for every element, so their noise adds up
// in every row with each step. Other rules are not known to vanish.
void ModuleBuilder::check_fp8(const GroupSetting& setting) {
  const CallSpec& optimizer = module_.train.optimizer;
  if (optimizer.name.empty() || steps_vanish(optimizer)) {
    return;
  }
  ev_.report(fault(kCode, setting.value_span, {"class weights in fp8 cannot hold the updates of `{}`", optimizer.name},
                   "rounded to 3 bits", replacement("write bf16, or train with sgd", setting.value_span, "bf16"))
                 .also(optimizer.span, "not a sum of weight, gradient and states with factors")
                 .note("when gradients vanish, such sums stop changing the weights, as in sgd; updates divided by "
                       "second moments continue, and the noise of their rounding adds up"));
}

// Checks that the updates that a row has missed have a closed form, as those of a velocity that only decays have, w -=
// rate · velocity. A row in a narrow format catches up in f32, and is rounded when a step stores it.
void ModuleBuilder::check_exact(const GroupSetting& setting, const GroupSpec& group) {
  const TrainSpec& train = module_.train;
  const CallSpec& optimizer = train.optimizer;
  if (optimizer.name.empty()) {
    return;  // the fault of the optimizer was reported
  }
  const auto refuse = [&](Span cause, std::string why, const std::string& fix) {
    Diagnostic d = fault(kCode, setting.value_span, "`untouched = exact` needs sgd with momentum in f32 and no decay",
                         "", replacement(fix + ", or write as_is", setting.value_span, "as_is"));
    if (cause.valid()) {
      d.also(cause, std::move(why));
    }
    ev_.report(std::move(d));
  };
  const KnownUpdate update = known_update(optimizer);
  for (const Parameter& parameter : ev_.graph().params) {
    if (!is_below(group.path, parameter.name) || ev_.graph().value(parameter.value).type.rank() < 2) {
      continue;
    }
    const RowRules rules = row_rules(train, parameter.name);
    const double decay =
        group_rule(train, parameter.name, &GroupSpec::weight_decay).value_or(optimizer.args.real("weight_decay", 0));
    if (update.kind != KnownUpdate::kSgd) {
      return refuse(optimizer.span, "its rule is not that of sgd", "take sgd(momentum=0.9)");
    }
    if (update.momentum == 0) {
      return refuse(optimizer.span, "leaves such rows as they are", "give sgd a momentum");
    }
    if (!(update.momentum > 0 && update.momentum <= kMostCatchUpMomentum)) {
      return refuse(optimizer.span, update.momentum > 0 ? "moves rows for too many steps" : "its momentum is negative",
                    fmt::format("take a momentum above 0 and at most {}", kMostCatchUpMomentum));
    }
    if (decay != 0) {
      return refuse(optimizer.span, fmt::format("decay is {}", decay), "set weight_decay = 0 in the group");
    }
    if (rules.states != RowFormat::kF32) {
      return refuse(group.span, "momentum in a narrow format", "leave `states` at f32");
    }
  }
  if (train.loss_scale.kind == LossScaleSpec::kDynamic) {
    ev_.report(fault(kCode, setting.value_span,
                     "`untouched = exact` repeats the updates of all steps, but a dynamic scale of the loss skips some",
                     "", replacement("write as_is, or mixed(f16, loss_scale=1024)", setting.value_span, "as_is")));
  }
  if (train.active_classes.kind == ActiveSpec::kAll && !active_is_wrong_) {
    ev_.report(fault(kCode, setting.value_span,
                     "`untouched = exact` applies to classes that are not active, but all classes are active", "",
                     replacement("choose some of the classes: active_classes = sample(10%), or write as_is",
                                 setting.value_span, "as_is")));
  }
}

// Checks the settings that cannot be combined with mapped rows. A step reads and logs only the rows of its active
// classes, and only the newest checkpoint has its rows.
void ModuleBuilder::check_mapped(const GroupSetting& setting, const GroupSpec& group) {
  const TrainSpec& train = module_.train;
  const auto refuse = [&](Span cause, std::string why, std::string_view what, const std::string& fix) {
    Diagnostic d = fault(kCode, setting.value_span, {"`rows = mapped` {}", what}, "",
                         replacement(fix + ", or write memory", setting.value_span, "memory"));
    if (cause.valid()) {
      d.also(cause, std::move(why));
    }
    ev_.report(std::move(d));
  };
  for (const Parameter& parameter : ev_.graph().params) {
    const TensorType& type = ev_.graph().value(parameter.value).type;
    if (!is_below(group.path, parameter.name) || type.rank() < 2) {
      continue;
    }
    const int64_t classes = type.dims[0];
    if (classes < kLeastMappedClasses) {
      return refuse(parameter.span, fmt::format("has {}", format_count(classes)),
                    fmt::format("is for heads of {} classes or more", format_count(kLeastMappedClasses)),
                    "keep this few rows in memory");
    }
    if (train.active_classes.of(classes) >= classes) {
      return refuse(train.active_classes.span, "all of them",
                    "needs active classes: a step that uses all would read and write the whole file",
                    "choose some of the classes: active_classes = sample(1%)");
    }
  }
  if (group.untouched == Untouched::kExact) {
    return refuse(
        group.span, "rows that catch up",
        "cannot be combined with `untouched = exact`: an evaluation reads rows that have caught up, a second copy of "
        "all of them",
        "take `untouched = as_is`");
  }
  if (run_.auto_save) {
    return refuse(
        run_.auto_save->span, "a time, not steps",
        "cannot be combined with `checkpoint { every = auto }`: how much disk the undo log takes follows from the "
        "steps between two saves",
        "give `every` a span: every = 1000 steps");
  }
  if (train.checkpoint_async) {
    return refuse(
        train.span, "saves while training continues",
        "cannot be combined with `checkpoint { async = true }`: the undo log follows one checkpoint at a time",
        "leave `async` out: a save of rows in a file writes only the pages that have changed");
  }
  if (!run_.copy.empty()) {
    return refuse(run_.copy_span, "copies of checkpoints",
                  "cannot be combined with `checkpoint { copy }`: the file has the rows of the newest checkpoint "
                  "alone, and steps "
                  "change them while it is copied",
                  "leave `copy` out");
  }
  if (run_.best) {
    refuse(run_.best->span, "keeps older steps",
           "cannot be combined with `checkpoint { best }`: the file has the rows of the newest checkpoint alone",
           "leave `best` out");
  }
}

}  // namespace xrun::lang
