// Lowers the declarations of a run in the order batch, model, data, train, cluster, schedule; then computes the math
// digest.
// Tests: tests/lang/check_test.cpp, tests/lang/lower/lower_schedule_test.cpp
#include "lang/lower/module_builder.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/sha256.h"
#include "graph/settings/group_rules.h"
#include "lang/lower/math_text.h"

namespace xrun::lang {

// Whether the command line sets something in a declaration of this kind. The file need not have such a declaration.
bool ModuleBuilder::has_flags(DeclKind kind) const {
  const std::string prefix = std::string(keyword_of(kind)) + ".";
  return std::any_of(flags_.begin(), flags_.end(), [&](const SetFlag& flag) { return flag.path.starts_with(prefix); });
}

Settings ModuleBuilder::settings_of(const DeclRef& decl, DeclKind kind) {
  Settings settings;
  if (decl) {
    settings = read_settings(decl, ev_.diagnostics());
  } else {
    settings.root.key = std::string(keyword_of(kind));
  }
  const std::string prefix = std::string(keyword_of(kind)) + ".";
  for (const SetFlag& flag : flags_) {
    if (flag.path.starts_with(prefix) && flag.ast.value.valid()) {
      override_setting(settings, std::string_view(flag.path).substr(prefix.size()), flag.ast, flag.ast.value,
                       ev_.diagnostics());
    }
  }
  return settings;
}

const std::string& ModuleBuilder::directory_of(const SettingNode& node) const {
  if (node.file != nullptr) {
    return node.file->directory;
  }
  const auto flag = std::ranges::find_if(flags_, [&](const SetFlag& one) { return &one.ast == node.ast; });
  XRUN_CHECK(flag != flags_.end(), "a setting without a file is a flag");
  return flag->directory;
}

Scope ModuleBuilder::constants(const DeclRef& decl) { return {.file = decl ? decl.file : &main_}; }

// The names that are visible to a setting: those of its own file, which may differ from the file of the declaration.
Scope ModuleBuilder::scope_of(const SettingNode& node, const Scope& scope) {
  Scope own = scope;
  own.file = node.file != nullptr ? node.file : scope.file;
  return own;
}

bool ModuleBuilder::names_a_tensor(std::string_view prefix) const {
  if (!choice_.model) {
    return true;  // a file without a model may have hints for the model of another file
  }
  const auto& params = ev_.graph().params;
  return std::any_of(params.begin(), params.end(), [&](const Parameter& p) { return is_below(prefix, p.name); });
}

bool ModuleBuilder::names_a_part(std::string_view prefix) const {
  const auto& nodes = ev_.graph().nodes;
  return names_a_tensor(prefix) ||
         std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return is_below(prefix, node.path); });
}

Module ModuleBuilder::build(const Choice& choice) {
  choice_ = choice;
  const bool has_data = choice.data || has_flags(DeclKind::kData);
  const bool has_train = choice.train || has_flags(DeclKind::kTrain);
  if (has_train) {
    const Settings settings = settings_of(choice.train, DeclKind::kTrain);
    Scope scope = constants(choice.train);
    lower_batch(settings, scope);
  }
  if (choice.model) {
    module_.model = choice.model.decl->name ? std::string(choice.model.decl->name.text) : "model";
    model_scope_.file = choice.model.file;
    ev_.build_model(choice.model, model_scope_);
  }
  data_is_partial_ = choice.has_unknown_data;
  if (has_data) {
    lower_data(choice.data);
  }
  if (has_train && choice.model) {
    lower_train(choice.train);
  }
  if (has_data && choice.model) {
    bind_inputs();
    check_metric_sources();
    check_pairs();
    check_partial_labels();
    check_mixed_samples();
    warn_unused_bindings();
  }
  for (const auto& [name, label] : data_inputs_) {
    if (const Span counted = ev_.recorded().class_count_of(label.tensor); counted.valid()) {
      module_.data.class_counts.push_back({name, counted});
    }
  }
  if (choice.model && has_train) {
    ev_.warn_unused(model_scope_);
  }
  if (choice.cluster || has_flags(DeclKind::kCluster)) {
    lower_cluster(choice.cluster);
  }
  if (choice.schedule || has_flags(DeclKind::kSchedule)) {
    lower_schedule(choice.schedule);
  }
  if (!has_train || !module_.train.loss.empty()) {  // otherwise the loss was rejected
    check_head_readers();
  }
  check_norms();
  check_moved();
  module_.graph = std::move(ev_.graph());
  ev_.graph() = {};
  module_.not_yet = ev_.take_not_yet();
  if (!ev_.diagnostics().has_errors()) {
    module_.math_digest = sha256_hex(math_text(module_, run_));
  }
  return std::move(module_);
}

// Warns of bindings of `data` that neither the model nor the loss uses.
void ModuleBuilder::warn_unused_bindings() {
  for (const auto& [target, span] : targets_) {
    const auto& inputs = ev_.graph().inputs;
    const bool used = std::any_of(inputs.begin(), inputs.end(),
                                  [&name = target](const NamedValue& input) { return input.name == name; });
    // A declared input that could not be made was reported at its declaration.
    if (!used && !module_.train.loss.empty() && !asked_.contains(target) && declared_input(target) == nullptr) {
      ev_.diagnostics().add(warning("XG0423", span, {"`{}` is bound in `data`, but nothing uses it", target},
                                    "neither an input of the model nor a part of the loss", {"leave the line out"}));
    }
  }
}

void ModuleBuilder::check_unchosen(const DeclRef& ref) {
  const DeclKind kind = ref.decl->kind;
  if (!has_settings(kind)) {
    return;
  }
  for (const DeclRef& chosen :
       {choice_.data, choice_.cluster, choice_.schedule, choice_.model ? choice_.train : DeclRef()}) {
    const std::vector<DeclRef> read = chosen ? lineage(chosen) : std::vector<DeclRef>();
    if (std::ranges::find(read, ref.decl, &DeclRef::decl) != read.end()) {
      return;
    }
  }
  const Settings settings = read_own_settings(ref, ev_.diagnostics());
  for (const SettingNode& node : settings.root.children) {
    const bool is_binding = kind == DeclKind::kData && node.has_value();
    if (!is_binding && find_setting(kind, {}, node.key) == nullptr) {
      unknown_setting(node, kind, {});
    }
  }
  for (const SettingNode& source : settings.sources) {
    const std::string name = word(source);
    if (!name.empty() && registry_.find_reader(name) == nullptr) {
      refuse_reader(source);
    }
  }
}

}  // namespace xrun::lang
