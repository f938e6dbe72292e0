// Elaboration: visits the syntax tree once, computes constants, and appends nodes to a graph for tensors. Checking and
// lowering happen in one pass, since the checked shapes are those of the graph. One thread; sources, diagnostics,
// options and signatures outlive the evaluator.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "graph/graph.h"
#include "graph/op_def.h"
#include "lang/elaborate/body.h"
#include "lang/elaborate/call.h"
#include "lang/elaborate/constant.h"
#include "lang/elaborate/datum.h"
#include "lang/elaborate/expansion_size.h"
#include "lang/elaborate/frontend_options.h"
#include "lang/elaborate/recorded.h"
#include "lang/elaborate/scope.h"
#include "lang/elaborate/signature.h"
#include "lang/elaborate/workspace.h"
#include "lang/syntax/loader.h"
#include "lang/syntax/syntax.h"
#include "lang/text/faults.h"

namespace xrun::lang {

struct TestResult;  // lang/elaborate/test_result.h

struct GivenArgument;  // lang/elaborate/calls/bind.cpp
struct MatchedTensor;  // lang/elaborate/scalars/match_types.cpp
struct Trial;

// The result of a function that has reported a fault. It converts to an error node or to an empty optional. A function
// that returns an optional Datum has to choose one of them itself: the conversion is an error of -Wconversion.
struct Refused {
  operator Datum() const { return {}; }
  template <class T>
  operator std::optional<T>() const {
    return std::nullopt;
  }
};

class Evaluator {
 public:
  Evaluator(SourceMap& sources, Diagnostics& diagnostics, const FrontendOptions& options, Signatures& signatures);

  // ---- expressions (evaluate.cpp): an error node if a fault was reported
  Datum eval(const Ast& ast, ExprId id, Scope& scope);
  Datum eval_constant(const DeclRef& decl);  // an option or a let; computed once
  Datum eval_stages(Datum value, const Ast& ast, std::span<const Stage> stages, Scope& scope);
  void set_option(const Decl* decl, Datum value, Span span);  // --set NAME=VALUE

  // ---- calls (call.cpp)
  Datum eval_call(const Callee& callee, const Call& call, Scope& scope);
  // `call` is used only for the fix of an unknown name.
  Callee find_callee(std::span<const Name> path, const Call& call, Scope& scope);
  const OpDef* find_op(std::string_view name) const;  // null if the language has no operator of that name
  // Appends a node for `op` (apply.cpp) and returns its outputs; returns an error node if infer fails. Faults are
  // placed at `at`. Without a label the node is called `name`, or like the operator if `name` is empty. `given`: see
  // xrun::call_op.
  Datum apply(const OpDef& op, std::vector<Datum> inputs, Attrs attrs, const Name& label, Span at,
              std::string_view name = {}, std::span<const NamedValue> given = {});

  // ---- `pointwise` functions (pointwise.cpp)
  Datum call_pointwise(const DeclRef& ref, const Call& call, Scope& scope);
  void try_pointwise(const DeclRef& ref);
  // The update of an `optimizer`; `env` has its parameters (own_optimizer.cpp).
  std::optional<OwnOptimizer> eval_optimizer(const DeclRef& ref, Scope& env);
  void try_optimizer(const DeclRef& ref);
  // Sets the loader of std/pointwise and std/optimizers. Their names are visible in every file unless the file declares
  // equal ones.
  void set_library(std::function<const SourceFile*(const char*)> load) { library_ = std::move(load); }
  DeclRef find_in_library(const char* file, std::string_view name) const;
  std::vector<std::string> names_in_library(const char* file) const;

  // ---- arguments (bind.cpp, arguments.cpp)
  // Matches the arguments of a call with parameters, evaluates and checks them. Parameters and dimension variables
  // become locals of `env`. Returns nullopt if a fault was reported. `op_call` is the span if the call is a call f(x)
  // of an operator; the message XG0305 needs it.
  std::optional<std::vector<BoundArg>> bind(const Signature& signature, const Call& call, Scope& scope, Scope& env,
                                            Span op_call = {});
  // The constant arguments as attributes. Tensors and `none` are left out.
  std::optional<Attrs> attributes(const Signature& signature, const std::vector<BoundArg>& bound);

  // ---- types (types.cpp, match_types.cpp)
  // Returns whether a tensor fits a declared type, and reports it if not. New dimension variables become locals of
  // `env`. In messages the tensor is called `param` of `owner`, or the result of `owner` if `param` is empty.
  bool match(const Ast& ast, const Type& type, const Datum& value, Scope& env, Span at, std::string_view param,
             std::string_view owner);
  std::optional<TensorType> tensor_type(const Ast& ast, const Type& type, Scope& scope);
  // The value of a dimension. `siblings` has all dimensions of its type, which the fix of XG0312 edits together.
  std::optional<int64_t> dimension(const Ast& ast, ExprId id, Scope& scope, std::span<const ExprId> siblings = {});
  // Reports XG0305 if `value` is sharded. `is_call`: there is a call at `at` that could be replaced by `topk`.
  bool refuse_sharded(const Datum& value, Span at, bool is_call = false);

  // ---- calls in the style of other frameworks (foreign_calls.cpp)
  // The fix that rewrites a call of `op` in another framework's style as a call of ours. It has no edit if an argument
  // has no meaning here.
  Fix in_our_words(const OpDef& op, const Call& call, std::string title, std::span<const BoundArg> bound = {});

  // ---- blocks and models (expand.cpp, expand_model.cpp)
  Datum call_block(const DeclRef& block, const std::vector<BoundArg>& bound, Scope& env, const Call& call);
  // Builds the model into graph(); its bindings are the locals of `scope`.
  void build_model(const DeclRef& model, Scope& scope);

  // ---- blocks, functions and models that nothing calls (uncalled.cpp)
  bool was_called(const Decl& decl) const { return called_.contains(&decl); }
  void try_out(const DeclRef& ref, const Trial& trial);  // expands it with made-up arguments
  void take_constants(const Evaluator& other) {
    constants_ = other.constants_, library_ = other.library_, sizes_ = other.sizes_;
  }
  // Whether the bounds permit one more expansion of a declaration, judged by the least size of an expansion. If not,
  // the elaboration ends with XG0216 at `at`. `alone`: the size is judged as if the text had nothing else.
  bool has_room_for(const DeclRef& ref, Span at, bool alone = false);

  // ---- tests (tests_eval.cpp)
  TestResult run_test(const SourceFile& file, const Decl& test);

  // ---- shared by all parts
  Graph& graph() { return work_.graph; }
  void drop_last_node() { work_.drop_last_node(); }
  TensorNames& names() { return work_.names; }
  Signatures& signatures() { return signatures_; }
  SourceMap& sources() { return sources_; }
  const FrontendOptions& options() const { return options_; }
  const TensorType& type_of(const Datum& value) const { return work_.graph.value(value.tensor).type; }
  Diagnostics& diagnostics() { return diagnostics_; }
  void report(Diagnostic diagnostic);  // adds the chain of expansions to it
  // Reports the diagnostic that lang::fault makes of these arguments.
  Refused refuse(const char* code, Span at, Text message, Text label, Help help);
  // Records a feature for Module::not_yet. `help` names the available alternative.
  void not_yet(Span at, Text what, Help help);
  std::vector<Diagnostic> take_not_yet() { return std::exchange(not_yet_, {}); }
  bool exhausted() const { return exhausted_; }
  int64_t steps_left() const { return exhausted_ ? 0 : options_.max_steps - steps_; }
  int64_t steps() const { return steps_; }
  void charge(int64_t steps) { steps_ += steps; }  // steps of another evaluator with the same budget
  Recorded& recorded() { return recorded_; }       // recorded only for messages
  void warn_unused(const Scope& scope);
  // These functions record findings in FrontendOptions::facts: a value; a call with the parameters from number `owned`
  // and the nodes from number `made` on; the arguments that a call leaves out.
  void note(const Span& at, const Datum& value) const;
  void note_call(const Span& at, size_t owned, size_t made);
  void note_defaults(const Signature& signature, const Call& call, std::span<const BoundArg> bound) const;

 private:
  friend class OptimizerBody;

  // evaluate.cpp, evaluate_name.cpp
  Datum eval_node(const Ast& ast, const Expr& expr, Scope& scope);
  Datum eval_name(const Name& name, Scope& scope);
  Datum eval_field(const Ast& ast, const Expr& expr, Scope& scope);
  Datum eval_index(const Ast& ast, const Expr& expr, Scope& scope);
  Datum eval_binary(const Ast& ast, const Expr& expr, Scope& scope);
  Datum eval_unary(const Ast& ast, const Expr& expr, Scope& scope);
  Datum eval_range(const Ast& ast, const Expr& expr, Scope& scope);
  Datum eval_items(const Ast& ast, const Expr& expr, Scope& scope);
  Datum eval_call_expr(const Ast& ast, const Expr& expr, Scope& scope, const Name& label);
  Datum eval_type_input(const Ast& ast, const Expr& expr, Scope& scope);
  std::optional<bool> condition(const Ast& ast, ExprId id, Scope& scope);
  std::optional<bool> truth_of(const Datum& value);
  Datum eval_logic(const Ast& ast, const Expr& expr, Scope& scope);
  Datum number_arithmetic(Op op, const Datum& tensor, double number, bool tensor_first, const Expr& expr);
  Datum tensor_arithmetic(Op op, const Datum& a, const Datum& b, const Ast& ast, const Expr& expr, Scope& scope);
  void explain_skipped(Diagnostic& d, const Ast& ast, const Expr& expr, Scope& scope);
  Datum unknown_name(const Name& name, Scope& scope);
  // Counts one step of evaluation. Returns false once a bound of steps, size or errors is reached.
  bool spend(Span at);
  bool refuse_growth(Span at);
  bool refuse_size(double nodes, double steps, std::string_view name, Span at);
  bool refuse_at_bound(Diagnostic diagnostic);                           // returns false
  bool has_room_for(int64_t copies, int64_t size, int64_t steps) const;  // for copies that each add size and steps
  Datum too_deep(Span at);                                               // reports and ends the elaboration
  Datum recurs(Span at, std::string message);

  // expand.cpp, expand_stage.cpp, expand_model.cpp
  Datum eval_stage(Datum value, const Ast& ast, const Stage& stage, Scope& scope);
  Datum eval_repeat(Datum value, const Ast& ast, const Stage& stage, Scope& scope);
  Datum eval_residual(const Datum& value, const Ast& ast, const Stage& stage, Scope& scope);
  Datum eval_fork(const Datum& value, const Ast& ast, const Stage& stage, Scope& scope);
  Datum eval_if_stage(Datum value, const Ast& ast, const Stage& stage, Scope& scope);
  Datum eval_stage_call(Datum value, const Ast& ast, const Stage& stage, Scope& scope, const Name& label);
  void bind_names(const Ast& ast, const Stmt& stmt, Datum value, Scope& scope);
  bool bind_local(const Name& name, Datum value, Scope& scope, bool warns);
  void own_tensor(const Ast& ast, const Stmt& stmt, Scope& scope);  // own_params.cpp
  std::optional<TensorType> param_type(const Ast& ast, const Stmt& stmt, Scope& scope);
  std::optional<Init> initialiser(const Ast& ast, ExprId id, const TensorType& type, Scope& scope);
  void run_assert(const Ast& ast, const Stmt& stmt, Scope& scope);
  void walk_body(const Ast& ast, const Decl& decl, Scope& scope, const BodyKind& kind);
  bool run_shared(const Ast& ast, const Stmt& stmt, Scope& scope);
  void run_expect(const Ast& ast, const Stmt& stmt, Scope& scope, const std::string& test);
  void model_input(const Ast& ast, const Stmt& stmt, Scope& scope);
  void model_output(const Ast& ast, const Stmt& stmt, Scope& scope);
  void model_head(const Ast& ast, const Stmt& stmt, Scope& scope);
  Datum refuse_head(Span at);
  bool refuse_open_params(const Signature& signature, Scope& scope);
  bool enter_scope(std::string_view name, const Name& label, Span at);
  void check_results(const DeclRef& block, const Datum& value, Scope& env, Span at);

  // call.cpp
  bool is_builtin(std::string_view name) const;
  void refuse_callee(std::span<const Name> path, const Call& call, Scope& scope);
  std::vector<std::string> callable_names(const SourceFile* file, bool is_plain) const;
  Datum call_by_kind(const Callee& callee, const Call& call, Scope& scope);
  Datum call_by_first(const Callee& callee, const Call& call, Scope& scope);
  Fix others_of_its_kind(const OpDef& op) const;
  Datum same_label(Span at, std::string_view label);
  Datum call_op(const OpDef& op, const Call& call, Scope& scope);
  void warn_padded_patches(const OpDef& op, const std::vector<BoundArg>& bound, const Datum& made, Span at);
  void note_columns(const std::vector<BoundArg>& bound, const Datum& made);
  Datum call_fn(const DeclRef& fn, const Call& call, Scope& scope);
  Datum call_measure(const std::string& name, const Call& call, Scope& scope);
  Datum make_list(DatumKind kind, std::vector<Datum> items, Span at);

  // builtin_calls.cpp
  Datum call_builtin(const std::string& name, const Call& call, Scope& scope);
  std::optional<std::vector<Datum>> plain_args(const std::string& name, const Call& call, Scope& scope);
  Datum constant_call(const std::string& name, std::span<const Datum> args, Span at);

  // apply.cpp
  Datum refuse_shapes(const Error& error, const std::vector<Datum>& inputs, Span at);
  bool refuse_margin(const OpDef& op, const Attrs& attrs, ValueId logits, Span at);
  std::vector<NamedValue> given_tensors(const Signature& signature, const Call& call, Scope& scope,
                                        std::vector<Arg>& others);
  bool refuse_unused_init(const std::vector<BoundArg>& bound, std::span<const NamedValue> given);
  Datum apply_parts(const OpDef& op, const std::vector<Datum>& inputs, const Attrs& attrs, const Name& label, Span at);

  // pointwise.cpp
  Datum pointwise_body(const DeclRef& ref, Scope& env);
  bool is_of_params(const Datum& value) const;  // a parameter, a state, or a function of such values
  std::optional<Datum> margin_function(const Signature& signature, const Param& param, const Ast& ast, ExprId id,
                                       Scope& scope);
  Datum apply_map(const ScalarExpr& expr, const std::vector<Datum>& tensors, std::string_view name, const Name& label,
                  Span at);
  void warn_derivatives(const Decl& decl, const ScalarExpr& expr, int inputs);
  Datum map_of(const std::vector<Datum>& operands, std::string_view name, Span at,
               const std::function<Datum(const std::vector<Datum>&)>& compute);

  // scalars.cpp
  Datum make_scalar(ScalarId id, bool is_condition = false);
  std::optional<ScalarId> scalar_of(const Datum& value, Span at);
  Datum scalar_binary(Op op, const Datum& a, const Datum& b, Span at);
  Datum scalar_choice(const Datum& condition, const Datum& yes, const Datum& no, Span at);
  Datum scalar_call(const Callee& callee, const Call& call, Scope& scope);
  Datum scalar_op(const OpDef& op, const Call& call, Scope& scope);
  Datum norm_call(const Call& call, Scope& scope);  // own_optimizer.cpp

  // own_states.cpp
  void assign_state(const Ast& ast, const Stmt& stmt, Local& local, Scope& scope);
  Datum mean_call(const Call& call, Scope& scope);
  void check_states(const Scope& scope);

  // foreign_calls.cpp
  const TensorType* first_type(const Call& call, std::span<const BoundArg> bound) const;
  bool begins_with_size(const OpDef& op, const Call& call, std::span<const BoundArg> bound);
  void explain_size(const OpDef& op, const Call& call, std::span<const BoundArg> bound, bool is_error);
  void warn_applied_twice(const OpDef& op, const Datum& input, Span at);

  // bind.cpp
  bool place_arguments(const Signature& signature, const Call& call, std::vector<GivenArgument>& given);
  bool eval_arguments(const Signature& signature, const Call& call, std::span<GivenArgument> given, Scope& scope,
                      std::vector<BoundArg>& bound, bool good);
  bool bind_params(const Signature& signature, const Call& call, std::vector<BoundArg>& bound, Scope& env,
                   Span op_call);

  // arguments.cpp
  std::optional<Datum> argument(const Signature& signature, const Param& param, const Ast& ast, ExprId id,
                                Scope& scope);
  // foreign_values.cpp
  std::optional<Fix> not_imported(const Name& name, const Call& call, const Scope& scope) const;
  std::optional<Fix> as_stages(std::span<const Name> path, const Call& call, const Scope& scope) const;
  std::optional<Fix> as_pipe(const Call& call, std::string_view ours) const;
  std::optional<Fix> without_identity(const Name& name, const Call& call) const;
  bool is_other_batch(const Ast& ast, ExprId id, const Scope& scope) const;
  Fix tensors_of_list(const Datum& value, Span at) const;
  std::optional<Fix> foreign_argument(const Signature& signature, const Call& call, const Name& name) const;
  bool is_unquoted(const Ast& ast, ExprId id, const Scope& scope) const;
  Fix known_argument(const Signature& signature, const Call& call, const Name& name);
  std::optional<Datum> default_of(const Signature& signature, const Param& param, const Call& call, Scope& env);
  void bind_param(const Param& param, Datum value, Scope& env);

  // accept.cpp
  bool accept(const Signature& signature, const Param& param, Datum& value, Span at, Scope& env);
  bool accept_dims(const Signature& signature, Datum& value, Span at, const Scope& env);
  bool accept_scalar(const Signature& signature, const Param& param, Datum& value, Span at);

  // match_types.cpp
  bool match_classes(const MatchedTensor& tensor, Scope& env);
  bool match_dims(const MatchedTensor& tensor, Scope& env);
  Help give_the_head(Span at) const;
  void refuse_labels(const Datum& label, int64_t has, int64_t classes, Span counted, Span at);

  SourceMap& sources_;
  Diagnostics& diagnostics_;
  const FrontendOptions& options_;
  Workspace work_;
  std::vector<const Decl*> active_;     // blocks, functions and models that are being expanded
  std::vector<const Param*> defaults_;  // parameters whose defaults are being evaluated
  std::set<const Decl*> called_;
  std::map<const Decl*, std::pair<Datum, bool>> constants_;  // the value, and whether it was computed
  Signatures& signatures_;
  std::vector<Diagnostic> not_yet_;
  std::function<const SourceFile*(const char*)> library_;
  ScalarExpr* scalars_ = nullptr;  // the `pointwise` body that is being evaluated; null outside
  NormCalls* norms_ = nullptr;     // norms of the optimizer that is being evaluated; null outside
  MeanCalls* means_ = nullptr;     // means of the assignment that is being evaluated; null outside
  Recorded recorded_;
  std::shared_ptr<ExpansionSizes> sizes_;  // sizes of expansions, shared by all evaluators of a text
  int64_t steps_ = 0;
  int depth_ = 0;
  int calls_ = 0;  // depth of nested calls
  bool exhausted_ = false;
  bool in_test_ = false;
  std::map<const Decl*, Scope> tested_;  // models that were built for the current test
};

}  // namespace xrun::lang
