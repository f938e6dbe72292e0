// Finds mistakes in declarations that nothing calls:
//   1. check_uncalled collects the declarations of a file that were not expanded and divides the remaining steps of
//      evaluation among them. Declarations whose trials were clean in an earlier check are skipped.
//   2. Suspicions::run expands a declaration with made-up arguments, in up to eight trials. It stops after three trials
//      if no fault has occurred in all of them.
//   3. Suspicions::report reports names and calls that are wrong for any arguments, and faults of types and shapes that
//      every trial had.
// One trial would not be enough: a fault of shapes may be due to the numbers that the trial has chosen.
#include "lang/elaborate/trials/uncalled.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>

#include "lang/elaborate/trials/check_types.h"
#include "lang/elaborate/trials/clean_trials.h"
#include "lang/elaborate/trials/read_texts.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// The trials. Some have equal dimensions and some have different ones. All dimensions have many divisors, so that a
// fault in every trial is not due to the numbers. Each of the last five satisfies a constraint that blocks often have,
// such as width = C or T = side * side.
constexpr std::array<Trial, 8> kTrials{{
    {.first_dim = 64, .step = 0, .open_dims = 2, .whole = 2, .real = 0.5, .flag = true},
    {.first_dim = 48, .step = 48, .open_dims = 0, .whole = 1, .real = 1, .flag = false},
    {.first_dim = 240, .step = 240, .open_dims = 1, .whole = 8, .real = 8, .flag = true},
    {.first_dim = 64, .step = 0, .open_dims = 2, .whole = 64, .real = 0.1, .flag = true, .spread = true},
    {.first_dim = 64, .step = 0, .open_dims = 2, .whole = 8, .real = 0.1, .flag = false, .spread = true},
    {.first_dim = 64, .step = 0, .open_dims = 2, .whole = 32, .real = 0.1, .flag = true, .spread = true},
    {.first_dim = 64, .step = 0, .open_dims = 2, .whole = 16, .real = 0.1, .flag = true, .spread = true},
    {.first_dim = 64, .step = 0, .open_dims = 2, .whole = 128, .real = 0.1, .flag = true, .spread = true},
}};

constexpr int kFewTrials = 3;     // no more trials are needed if no fault is in all of these
constexpr int kManyErrors = 100;  // further reports would not help
constexpr int64_t kMostSteps = 100'000;
constexpr int64_t kMostNodes = 100'000;

// Whether a fault with this code does not depend on the arguments.
bool is_structural(std::string_view code) {
  constexpr std::string_view kCodes[] = {"XG0201", "XG0202", "XG0203", "XG0204", "XG0208", "XG0220", "XG0224"};
  return std::find(std::begin(kCodes), std::end(kCodes), code) != std::end(kCodes);
}

// Whether a fault with this code makes a trial useless. Either an assertion excludes its arguments, or it has reached a
// bound that a real call might not reach.
bool spoils(std::string_view code) {
  return code == "XG0218" || code == "XG0216" || code == "XG0106" || code == "XG0109";
}

// The value for a constant parameter. `place` is the index of the parameter; trials with `spread` give each parameter a
// different number.
Datum made_up_constant(std::string_view type, const Trial& trial, size_t place) {
  const auto step = static_cast<int64_t>(trial.spread ? std::min<size_t>(place, 8) : 0);
  const Datum whole = make_whole(trial.whole << step);
  return type == "int"     ? whole
         : type == "pair"  ? make_items(DatumKind::kList, {whole, whole})
         : type == "float" ? make_real(trial.real * static_cast<double>(step + 1))
         : type == "bool"  ? make_bool(trial.flag)
         : type == "str"   ? make_string("")
                           : Datum();  // an error node: expressions that use it are not checked
}

// Makes up a type for a tensor parameter. New dimension variables become locals of `env`. Returns nullopt if the type
// is unclear.
std::optional<TensorType> made_up_type(Evaluator& evaluator, const Ast& ast, const Type& type, const Trial& trial,
                                       int64_t& next, Scope& env) {
  const auto dim_of = [&](ExprId id) -> std::optional<int64_t> {
    const Expr& expr = ast[id];
    if (is_dimension_variable(expr) && expr.name.text != "N" && env.find(expr.name.text) == nullptr) {
      env.locals[expr.name.text] = {.value = make_whole(next), .span = {}, .used = true};
      next += trial.step;
    }
    return evaluator.dimension(ast, id, env);
  };
  TensorType made;
  if (type.name.text == "index") {
    const auto classes = type.argument.valid() ? dim_of(type.argument) : std::nullopt;
    if (!classes || *classes <= 0) {
      return std::nullopt;
    }
    made.classes = *classes;
    made.dtype = DType::kI32;
  } else if (is_of_heads(type.name.text)) {
    made.sharded = true;
  } else if (type.name) {
    const auto dtype = parse_dtype(type.name.text);
    if (!dtype) {
      return std::nullopt;
    }
    made.dtype = *dtype;
  }
  for (const ExprId id : ast[type.dims]) {
    if (ast[id].kind == ExprKind::kEllipsis) {
      made.dims.insert(made.dims.end(), static_cast<size_t>(trial.open_dims), trial.first_dim);
      continue;
    }
    const auto dim = dim_of(id);
    if (!dim) {
      return std::nullopt;
    }
    made.dims.push_back(*dim);
  }
  return made;
}

// Whether the body of a declaration computes with single elements of tensors.
bool is_scalar(const Decl& decl) { return decl.kind == DeclKind::kPointwise || decl.kind == DeclKind::kOptimizer; }

// A fault, and the number of trials in which it occurred.
struct Suspicion {
  Diagnostic fault;
  int trials = 0;
};

// The arguments of a trial as text: "x: f32[N, 64, 64, 64], width = 2".
std::string arguments_text(Evaluator& evaluator, const DeclRef& ref, const Trial& trial) {
  const Graph& graph = evaluator.graph();
  std::string text = listed(graph.inputs, [&](const NamedValue& input) {
    return fmt::format("{}: {}", input.name, to_text(graph.value(input.value).type));
  });
  for (const Param& param : ref.file->ast[ref.decl->params]) {
    const auto place = static_cast<size_t>(&param - ref.file->ast[ref.decl->params].data());
    const Datum constant = made_up_constant(param.type.name.text, trial, place);
    if (!takes_tensor(param) && !param.value.valid() && !constant.is_error()) {
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", param.name.text, to_text(constant));
    }
  }
  return text;
}

class Suspicions {
 public:
  Suspicions(Evaluator& evaluator, const DeclRef& ref) : evaluator_(evaluator), ref_(ref) {}

  void run(const FrontendOptions& options) {
    // The result for these declarations does not depend on the trial, so one is enough.
    const bool once = ref_.decl->kind == DeclKind::kModel || is_scalar(*ref_.decl);
    for (const Trial& trial : std::span(kTrials).first(once ? 1 : kTrials.size())) {
      if (fair_ >= kFewTrials && !is_suspicious()) {
        return;
      }
      Diagnostics found;
      Evaluator tried(evaluator_.sources(), found, options, evaluator_.signatures());
      tried.take_constants(evaluator_);
      tried.try_out(ref_, trial);
      evaluator_.charge(tried.steps());
      steps_.longest = std::max(steps_.longest, tried.steps());
      steps_.all += tried.steps();
      clean_ = clean_ && found.all().empty();
      const bool fair =
          std::none_of(found.all().begin(), found.all().end(), [](const Diagnostic& d) { return spoils(d.code); });
      fair_ += fair ? 1 : 0;
      if (fair && arguments_.empty()) {
        arguments_ = arguments_text(tried, ref_, trial);
      }
      for (const Diagnostic& fault : found.all()) {
        // A cycle of declarations may be reported at any declaration in it, as long as it is in this file.
        const bool circle = fault.code == "XG0208" && fault.primary.span.file == ref_.decl->span.file;
        if (circle || (is_ours(fault.primary.span) && (fair || is_structural(fault.code)))) {
          note(fault);
        }
      }
    }
  }

  // Whether no trial reported anything, in this declaration or elsewhere. REQUIRES: after `run`.
  bool clean() const { return clean_; }
  const CleanTrials::Steps& steps() const { return steps_; }

  void report(Diagnostics& into) {
    for (Suspicion& suspicion : found_) {
      Diagnostic& fault = suspicion.fault;
      if (is_structural(fault.code)) {
        into.add(std::move(fault));
      } else if (suspicion.trials == fair_ && fault.code != "XG0199") {
        if (!arguments_.empty()) {
          if (is_open()) {
            fault.severity = Severity::kWarning;  // some arguments may make it correct
          }
          fault.notes.push_back(
              fmt::format("nothing calls `{}` yet: it was tried with {}", ref_.decl->name.text, arguments_));
        }
        into.add(std::move(fault));
      }
    }
  }

 private:
  bool is_ours(const Span& span) const {
    const Span& whole = ref_.decl->span;
    return span.file == whole.file && span.begin >= whole.begin && span.end <= whole.end;
  }

  // Whether some fault that depends on types or shapes was in every fair trial so far.
  bool is_suspicious() const {
    return std::any_of(found_.begin(), found_.end(), [&](const Suspicion& suspicion) {
      return suspicion.trials == fair_ && !is_structural(suspicion.fault.code);
    });
  }

  // Whether a call may have other arguments than the trials: the declaration has constants, or dimensions that a name
  // or `...` leaves open.
  bool is_open() const {
    const Ast& ast = ref_.file->ast;
    if (is_scalar(*ref_.decl)) {
      return false;
    }
    const auto is_fixed = [&](ExprId dim) {
      return ast[dim].kind == ExprKind::kNumber || (ast[dim].kind == ExprKind::kName && ast[dim].name.text == "N");
    };
    return std::ranges::any_of(ast[ref_.decl->params], [&](const Param& param) {
      return !takes_tensor(param) || !std::ranges::all_of(ast[param.type.dims], is_fixed);
    });
  }

  void note(const Diagnostic& fault) {
    for (Suspicion& known : found_) {
      if (known.fault.code == fault.code && known.fault.primary.span == fault.primary.span) {
        ++known.trials;
        return;
      }
    }
    found_.push_back({fault, 1});
  }

  Evaluator& evaluator_;
  DeclRef ref_;
  std::vector<Suspicion> found_;
  CleanTrials::Steps steps_;
  bool clean_ = true;
  int fair_ = 0;           // trials that neither an assertion nor a bound has ended
  std::string arguments_;  // arguments of the first trial that is counted in `fair_`
};

}  // namespace

void Evaluator::try_out(const DeclRef& ref, const Trial& trial) {
  const Decl& decl = *ref.decl;
  const Ast& ast = ref.file->ast;
  Scope env{.file = ref.file};
  if (decl.kind == DeclKind::kModel) {
    build_model(ref, env);
    return;
  }
  if (decl.kind == DeclKind::kPointwise) {
    try_pointwise(ref);
    return;
  }
  if (decl.kind == DeclKind::kOptimizer) {
    try_optimizer(ref);
    return;
  }
  const Signature& signature = signatures_.of(ref);
  std::vector<BoundArg> bound;
  int64_t next = trial.first_dim;
  for (const Param& param : signature.params) {
    std::optional<Datum> value;
    if (param.value.valid()) {
      value = argument(signature, param, ast, param.value, env);
      if (!value || value->is_error()) {
        return;
      }
    } else if (takes_tensor(param)) {
      auto type = made_up_type(*this, ast, param.type, trial, next, env);
      if (!type) {
        return;
      }
      value = make_tensor(work_.graph.add_input(std::string(param.name.text), std::move(*type)));
    } else {
      value = made_up_constant(param.type.name.text, trial, static_cast<size_t>(&param - signature.params.data()));
    }
    if (!value->is_error() && !accept(signature, param, *value, param.span, env)) {
      return;
    }
    bound.push_back({.param = &param, .values = {*value}, .given = true, .span = param.span});
    bind_param(param, std::move(*value), env);
  }
  const Call call{.ast = &ast, .span = decl.name.span, .name_span = decl.name.span};
  if (decl.kind == DeclKind::kBlock) {
    call_block(ref, bound, env, call);
  } else {
    active_.push_back(&decl);
    eval(ast, decl.value, env);
    active_.pop_back();
  }
}

void check_uncalled(Evaluator& evaluator, const SourceFile& file) {
  std::vector<DeclRef> waiting;
  for (const Decl& decl : file.ast.decls) {
    const bool tried = decl.kind >= DeclKind::kFn && decl.kind <= DeclKind::kModel;
    // A model with a parameter that has no default is reported elsewhere.
    const auto params = file.ast[decl.params];
    const bool waits = decl.kind == DeclKind::kModel &&
                       std::any_of(params.begin(), params.end(), [](const Param& p) { return !p.value.valid(); });
    if (tried && !waits && !evaluator.was_called(decl)) {
      waiting.push_back({&file, &decl});
    }
  }
  FrontendOptions options = evaluator.options();
  // All first trials together may use 1/16 of the file's steps, or what remains of them. Each trial may use at least
  // 200.
  const int64_t budget = std::min(options.max_steps / 16, evaluator.steps_left());
  const int64_t most = std::clamp<int64_t>(options.max_steps / 500, 1, 1000);
  waiting.resize(std::min(waiting.size(), static_cast<size_t>(most)));
  const auto count = std::max<int64_t>(1, static_cast<int64_t>(waiting.size()));
  options.max_steps = std::clamp<int64_t>(budget / count, 200, kMostSteps);
  options.max_nodes = std::min(options.max_nodes, kMostNodes);
  options.facts = nullptr;  // types of made-up arguments are not facts of the text
  CleanTrials* const known = options.clean_trials;
  std::optional<ReadTexts> texts;
  if (known != nullptr && !waiting.empty()) {
    texts.emplace(evaluator.sources(), evaluator.diagnostics(), file);
  }
  if (std::ranges::any_of(waiting, [&](const DeclRef& ref) {
        return !evaluator.has_room_for(ref, ref.decl->name ? ref.decl->name.span : ref.decl->keyword, true);
      })) {
    return;
  }
  for (const DeclRef& ref : waiting) {
    if (evaluator.diagnostics().error_count() >= kManyErrors || evaluator.steps_left() <= 0) {
      return;
    }
    const auto key = texts ? texts->digest(*ref.decl) : std::nullopt;
    const CleanTrials::Steps* before = key ? known->find(*key) : nullptr;
    if (before != nullptr && before->longest <= options.max_steps) {
      evaluator.charge(before->all);
      continue;
    }
    Suspicions suspicions(evaluator, ref);
    suspicions.run(options);
    if (key && suspicions.clean()) {
      known->add(*key, suspicions.steps());
    }
    suspicions.report(evaluator.diagnostics());
  }
}

}  // namespace xrun::lang
