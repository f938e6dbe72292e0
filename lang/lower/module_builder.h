// Lowers the declarations of one run to a Module. One thread; used once; the evaluator and the files outlive it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "graph/settings/reader_def.h"
#include "graph/settings/run_spec.h"
#include "lang/elaborate/evaluator.h"
#include "lang/lower/setting_def.h"
#include "lang/lower/settings.h"
#include "lang/text/foreign_names.h"

namespace xrun::lang {

struct Figure;

// The declarations of one run; empty if the file does not have them.
struct Choice {
  DeclRef model, data, train, cluster, schedule;
  bool has_unknown_data = false;  // the run names data that was not found
};

// A parsed --set PATH=VALUE.
struct SetFlag {
  std::string path;
  Ast ast;
  std::string directory;  // that of SetValue
};

// A unit that could be missing after a bare number: the text that adds it, and a comment for the end of the line.
struct UnitChoice {
  std::string text;
  std::string comment;
};

class ModuleBuilder {
 public:
  ModuleBuilder(Evaluator& evaluator, const SourceFile& main, const DataRegistry& registry,
                const std::deque<SetFlag>& flags)
      : ev_(evaluator), main_(main), registry_(registry), flags_(flags) {}

  // Reads the `moved` declarations of all files. REQUIRES: before `build`.
  void read_moved(const std::deque<SourceFile>& files);
  Module build(const Choice& choice);
  // The settings of the run outside its steps: `init`, `checkpoint`, `stop_when`. REQUIRES: after `build`.
  const RunSpec& run() const { return run_; }
  // Checks the keys of a declaration that the run did not choose; its values are checked by a run that chooses it.
  // REQUIRES: after `build`.
  void check_unchosen(const DeclRef& ref);
  int64_t earlier_norm_rows() const { return earlier_norm_rows_; }  // see CheckedFile

  // The actions of setting records (SettingDef::action). Many settings share the first ones.
  template <auto kMember>
  void store(const SettingNode& node, Scope& scope, const SettingDef& def);  // stores a value of the member's type
  template <auto kMember>
  void store_choice(const SettingNode& node, Scope& scope, const SettingDef& def);
  void check_choice(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_group(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_classes(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_moved_class(const SettingNode& node, const std::string& input);
  void refuse_class(const SettingNode& node);
  void check_moved_classes();
  void lower_binding(const SettingNode& node, Scope& scope, const SettingDef& def);
  void refuse_optimizer(const SettingNode& node, const std::string& name);  // for an unknown name
  std::string library_optimizer(const SettingNode& node, const std::vector<std::string>& names);
  std::string signature_of(const std::string& optimizer);  // from the library; empty: unknown optimizer
  bool check_arguments(const std::string& optimizer, const std::vector<BoundArg>& bound);
  void lower_own_optimizer(const DeclRef& own, const SettingNode& node, Scope& scope);
  void lower_optimizer(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_rate(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_tensors(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_freeze(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_precision(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_loss_scale(const BoundArg& scale);
  void check_f16_inputs();
  void lower_clip(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_init(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_order(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_class_weights(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_active_classes(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_compress(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_ema(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_metrics(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_eval(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_eval_metric(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_prometheus(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_checkpoint_every(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_copy(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_best(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_stop(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_cpu(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_network(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_device(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_calibration(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_recompute(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_pipeline(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_shard(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_over(const SettingNode& node, Scope& scope, const SettingDef& def);
  void lower_pin(const SettingNode& node, Scope& scope, const SettingDef& def);

 private:
  // One source of the data with its fields.
  struct Source {
    SourceSpec spec;
    std::vector<Field> fields;
    // Key: target. The field that a binding makes from this source.
    std::map<std::string, Field> bound;
  };

  // module_builder.cpp
  void warn_unused_bindings();
  bool has_flags(DeclKind kind) const;
  Settings settings_of(const DeclRef& decl, DeclKind kind);
  Scope constants(const DeclRef& decl);
  static Scope scope_of(const SettingNode& node, const Scope& scope);
  // The directory where relative paths in the setting start.
  const std::string& directory_of(const SettingNode& node) const;
  bool names_a_tensor(std::string_view prefix) const;
  bool names_a_part(std::string_view prefix) const;

  // setting_values.cpp, setting_quantities.cpp: each function reads a value of one kind; it reports a value of another
  // kind and returns nullopt.
  std::optional<Datum> value_of(const SettingNode& node, Scope& scope, const SettingDef& def);
  std::optional<int64_t> whole(const SettingNode& node, Scope& scope, const SettingDef& def);
  std::optional<double> real(const SettingNode& node, Scope& scope, const SettingDef& def);
  void refuse_unit(const SettingNode& node, const Datum& value);  // for a setting that expects a plain number
  void refuse_bare(Span at, std::string message, const std::vector<UnitChoice>& units, std::string otherwise);
  void refuse_path(Span at, const std::string& path);  // for a path that names no part of the model
  std::optional<bool> flag(const SettingNode& node, Scope& scope, const SettingDef& def);
  std::optional<std::string> text(const SettingNode& node, Scope& scope, const SettingDef& def);
  std::optional<TrainSpan> train_span(const SettingNode& node, Scope& scope, const SettingDef& def);
  std::optional<TrainSpan> train_span(const Datum& value, std::string_view what, Span at);
  std::optional<double> quantity(const SettingNode& node, Scope& scope, const SettingDef& def, Dimension dimension);
  std::optional<double> quantity(const Datum& value, std::string_view what, Span at, Dimension dimension);
  std::optional<Bytes> size(const SettingNode& node, Scope& scope, const SettingDef& def);
  std::vector<std::string> paths(const SettingNode& node);
  std::vector<std::string> paths(const Ast& ast, ExprId value, std::string_view key);
  // Matches the arguments of `word(...)` with the parameters of a signature.
  std::optional<std::vector<BoundArg>> arguments(const Ast& ast, ExprId id, std::string_view name,
                                                 std::string_view signature, Scope& scope);
  std::optional<std::vector<BoundArg>> arguments(const SettingNode& node, const SettingChoice& choice, Scope& scope);
  // Leaves out the argument `read_apart`, which consists of paths and cannot be evaluated. `args` has the other
  // arguments.
  std::optional<std::vector<BoundArg>> arguments(const SettingNode& node, const SettingChoice& choice,
                                                 std::span<const Arg> args, std::string_view read_apart, Scope& scope);

  // lower_settings.cpp: used by all records of settings
  void lower_settings(const SettingNode& parent, DeclKind kind, std::string_view group, Scope& scope);
  void lower_setting(const SettingNode& node, DeclKind kind, std::string_view group, Scope& scope);
  void unknown_setting(const SettingNode& node, DeclKind kind, std::string_view group);
  Fix our_setting(const SettingNode& node, DeclKind kind, std::string_view group, const std::vector<std::string>& known,
                  Help otherwise);
  Fix our_choice(const SettingNode& node, const SettingDef& def, const std::vector<std::string>& names);
  Fix without_quotes(const SettingNode& node, const SettingDef& def, Help otherwise);
  void refuse_value(const SettingNode& node, const SettingDef& def);  // reports a value for a setting that is a group
  // The choice in the text; reports a word that is not a choice, and arguments of a choice without arguments.
  std::optional<SettingChoice> choose(const SettingNode& node, const SettingDef& def);
  void say_later(const SettingNode& node, const SettingDef& def);

  // setting_store.h: templates over the type of a spec's member
  template <class Spec, class T>
  Spec& spec_of(T Spec::*);
  template <class T>
  std::optional<T> read(const SettingNode& node, Scope& scope, const SettingDef& def);
  template <class T>
  std::optional<T> check_value(const SettingNode& node, Scope& scope, const SettingDef& def);

  // placement/device_group.cpp, placement/calibration_group.cpp. The first two functions read a figure and check its
  // unit and its range.
  std::optional<double> figure(const Datum& value, std::string_view what, const Figure& wanted);
  std::optional<double> figure(const SettingNode& node, Scope& scope, const SettingDef& def, const Figure& wanted);
  void refuse_figure(const SettingNode& node, std::string_view group, const std::vector<std::string>& known);
  void lower_flops(const SettingNode& node, const Scope& scope, const SettingDef& def, GpuDef& device);
  const std::vector<Datum>* figures_of(const Datum& value, std::string_view what, size_t width,
                                       std::string_view example);
  void lower_list(const SettingNode& node, Scope& scope, const SettingDef& def, const Figure& wanted,
                  std::vector<double>& list);
  void lower_exchange(const SettingNode& node, Scope& scope, const SettingDef& def, ExchangeTime& time);
  void lower_calls(const SettingNode& node, const Scope& scope, const SettingDef& def, CallTimes& calls);
  void lower_calibrated(const SettingNode& node, Scope& scope, const SettingDef& def, Calibration& calibration);

  // lower_data.cpp
  void lower_data(const DeclRef& decl);
  void refuse_reader(const SettingNode& node);
  bool lower_source(const SettingNode& node, Scope& scope);
  std::optional<CallSpec> data_stage(const Ast& ast, const Name& name, std::span<const Arg> args, Span span,
                                     Scope& scope, const AugmentDef** def);
  bool read_binding(const SettingNode& node, Scope& scope, DataBinding& binding, std::vector<const AugmentDef*>& defs);
  bool bind_field(Source& source, const DataBinding& binding, const std::vector<const AugmentDef*>& defs,
                  const Expr& first);

  // lower_partial.cpp
  void check_partial_labels();
  void check_order_of_ignore(const DataBinding& binding);
  void check_readers_of_partial(const DataBinding& binding, ValueId input);

  // lower_mix.cpp
  void check_mixed_samples();
  void check_mixing_stages(const DataBinding& binding);
  int check_readers_of_mixed(const DataBinding& binding, const CallSpec& stage);
  void check_losses_of_mixed(const CallSpec& stage);

  // lower_inputs.cpp
  void bind_inputs();
  void bind_input(const NamedValue& input);
  const Field* given(const Source& source, std::string_view name) const;
  void check_metric_sources();
  void check_pairs();  // lower_verification.cpp
  void check_bound_fields(const MetricSpec& metric, const Source& source);
  bool fits(const TensorType& input, const Field& field) const;
  const Name* declared_input(std::string_view name) const;  // NAME of `input NAME`; null if undeclared
  std::optional<Datum> data_value(std::string_view name, Span at);
  bool may_be_a_field(std::string_view name, const std::vector<std::string>& known) const;

  bool is_callable(std::string_view name, const Scope& scope) const;
  bool refuse_unknown_op(const Name& name, std::string_view what, const Ast& ast, const Expr& expr, Scope& scope);

  // lower_train.cpp, lower_loss.cpp, lower_update.cpp
  void lower_train(const DeclRef& decl);
  void lower_duration(const Settings& settings, const Scope& scope);
  void lower_norm_rows(const Settings& settings, const Scope& scope);
  const Node* coupled_node() const;  // the first node that combines the rows of a block; null if there is no such node
  void set_default_rows(int64_t batch);
  void require(const Settings& settings, std::initializer_list<std::string_view> keys);
  void lower_loss(const SettingNode& node, Scope& scope);
  void lower_tensors_at(const SettingNode& node, const std::string& path, Scope& scope);

  // lower_metrics.cpp
  std::string differences(const MetricSpec& metric);
  std::optional<MetricSpec> metric(const Ast& ast, ExprId id, const std::string& name, Scope& scope);
  std::optional<Callee> metric_callee(const Ast& ast, const Expr& expr, Scope& scope);
  bool read_source(const Ast& ast, const Expr& expr, const OpDef& op, MetricSpec& spec, std::vector<Arg>& args);

  // lower_growth.cpp
  void lower_batch(const Settings& settings, const Scope& scope);
  bool lower_growth(const SettingNode& node, Scope& scope);
  bool lower_sizes(const BoundArg& arg, GrowthSpec& growth);
  void check_growth(const Settings& settings);
  void lower_fccs(const Ast& ast, ExprId id, Scope& scope);

  // lower_rows.cpp
  // A setting in the text of the tensor group `path`.
  struct GroupSetting {
    std::string path;
    std::string key;
    Span key_span;
    Span value_span;
  };
  void check_rows();  // checks formats and rules of class rows against heads and optimizer
  bool check_owner(const GroupSetting& setting);
  void check_fp8(const GroupSetting& setting);
  void check_exact(const GroupSetting& setting, const GroupSpec& group);
  void check_mapped(const GroupSetting& setting, const GroupSpec& group);

  // lower_curves.cpp
  bool refuse_unknown_curve(const Expr& called, bool is_call, Scope& scope);
  std::optional<CurveSpec> curve(const Ast& ast, ExprId id, Scope& scope);
  bool read_curve_argument(const BoundArg& arg, std::string_view name, CurveSpec& spec);
  bool read_times(const BoundArg& arg, const std::string& what, CurveSpec& spec);
  bool is_reached(const TrainSpan& at, Span place);
  void check_spans(const SettingNode& node);

  // lower_moved.cpp
  void check_moved();

  // lower_run.cpp
  std::vector<std::string> measured_keys() const;
  void check_readers();
  void check_head_readers();  // lower_loss.cpp
  void check_watched(
      const Settings& settings);  // checks that evaluations measure the metrics of `best` and `stop_when`

  // lower_active.cpp
  std::optional<ActiveSpec> active_spec(const SettingNode& node, Scope& scope, const SettingDef& def);
  std::optional<double> active_amount(const BoundArg& arg, std::string_view word);
  void check_active_classes();
  void warn_of_few_others(const std::string& head, int64_t classes);

  // lower_compress.cpp
  void check_compress();

  // lower_norms.cpp
  void check_norms();

  // lower_ema.cpp
  void check_ema();

  // lower_classes.cpp
  void find_class_input(const Settings& settings);

  // lower_schedule.cpp
  void lower_cluster(const DeclRef& decl);
  void lower_schedule(const DeclRef& decl);
  void lower_pins(const SettingNode& node, const std::string& path, Scope& scope, const SettingDef& pin);

  Evaluator& ev_;
  const SourceFile& main_;
  const DataRegistry& registry_;
  const std::deque<SetFlag>& flags_;
  Choice choice_;
  Module module_;
  RunSpec run_;
  Span ema_span_;
  bool active_is_wrong_ = false;  // the fault of `active_classes` was reported
  std::vector<Source> sources_;
  std::map<std::string, Datum, std::less<>> data_inputs_;  // graph inputs from fields that the loss or a metric uses
  std::map<std::string, Span, std::less<>> targets_;       // targets of the data's bindings
  std::set<std::string, std::less<>> asked_;               // targets that the loss or a metric uses
  bool data_is_partial_ = false;                           // a part of `data` has faults; it may declare a missing name
  std::set<std::string, std::less<>> written_;             // settings of `train` in the text, and those that fixes add
  std::set<std::string, std::less<>> unmeasured_;          // declared evaluations that have a fault
  bool metrics_are_partial_ = false;                       // a metric has a fault
  std::set<std::string, std::less<>> broken_sources_;      // sources whose fields are unknown
  int64_t earlier_norm_rows_ = 0;
  Scope model_scope_;
  GroupSpec group_;  // the tensor group that is being read
  std::vector<GroupSetting> group_settings_;
};

}  // namespace xrun::lang
