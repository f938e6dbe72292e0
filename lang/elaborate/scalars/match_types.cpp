// Matches a declared type against a tensor: binds dimension variables and checks known ones
// (docs/reference/language.md, "Types and dimensions").
// Tests: tests/lang/check_golden_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"
#include "lang/elaborate/trials/check_types.h"

namespace xrun::lang {

// A tensor, the declared type that it must have, and the words of messages about it.
struct MatchedTensor {
  Evaluator& evaluator;
  const Ast& ast;
  const Type& type;
  const Datum& value;
  TensorType actual;
  Span at;
  std::string_view param;  // empty: the tensor is the result of `owner`
  std::string_view owner;

  std::string what() const {
    return param.empty() ? fmt::format("the result of `{}`", owner) : fmt::format("`{}` of `{}`", param, owner);
  }

  // Reports that the tensor has another type, and returns false.
  bool wrong(Text why, Help help) const {
    evaluator.refuse("XG0302", at,
                     {"{} is {}, but gets {}", what(), evaluator.sources().text(type.span), to_text(actual)},
                     std::move(why), {std::move(help)});
    return false;
  }
};

namespace {

std::string dim_text(int64_t dim) { return dim == kBatch ? "N" : dim == kPerBlock ? "G" : std::to_string(dim); }

// The stage that converts a tensor of `has` dimensions to one of `wanted` dimensions, for messages.
const char* rank_fix(size_t has, size_t wanted) {
  return has == 4 && wanted == 2   ? "put `flatten` or `global_avg_pool` before it"
         : has == 4 && wanted == 3 ? "put `flatten(2) -> transpose(1, 2)` before it to make a sequence of an image"
         : has == 3 && wanted == 2 ? "put `take(i)` or `mean(1)` before it to have one position of a sequence"
                                   : "put `reshape([N, ...])` before it to give it other dimensions";
}

bool is_ellipsis(const Ast& ast, ExprId id) { return ast[id].kind == ExprKind::kEllipsis; }

// Whether the parser or check_types has reported the declared type.
bool is_reported(const Ast& ast, const Type& type) {
  const bool is_index = type.name.text == "index";
  return (type.name && !is_index && !is_of_heads(type.name.text) && !parse_dtype(type.name.text)) ||
         (is_index && (!type.argument.valid() || ast[type.argument].name.text == "N")) ||
         std::ranges::count_if(ast[type.dims], [&](ExprId id) { return is_ellipsis(ast, id); }) > 1;
}

}  // namespace

// Reports a sharded value and returns whether the value is sharded. Only parameters of the types `sharded` and
// `cosines` accept such a value; other code would need all columns in one place.
bool Evaluator::refuse_sharded(const Datum& value, Span at, bool is_call) {
  const TensorType& type = type_of(value);
  if (!type.sharded) {
    return false;
  }
  const int64_t classes = type.dims.back();
  std::string message =
      fmt::format("this would gather all {} columns of logits on every device", format_count(classes));
  std::string label = "needs all columns in one place";
  if (recorded_.gather_batch > 0) {
    const double bytes = static_cast<double>(recorded_.gather_batch) * static_cast<double>(classes) *
                         static_cast<double>(recorded_.gather_bytes);
    message = fmt::format(
        "this would gather {} of logits on every device",
        bytes >= 0x1.0p40 ? fmt::format("{:.1f} TiB", bytes * 0x1.0p-40) : format_bytes(static_cast<Bytes>(bytes)));
    label += fmt::format(": {} x {} x {} bytes", format_count(recorded_.gather_batch), format_count(classes),
                         recorded_.gather_bytes);
  }
  // The fix `topk` is offered only if the call is the whole value of a binding; other code would not accept its result.
  const bool best = is_call && at == recorded_.bound_value;
  Diagnostic d =
      fault("XG0305", at, std::move(message), std::move(label),
            best ? replacement("for the best classes, stay sharded", at, {"topk({}, 10)", sources_.text(value.span)})
                 : Fix{"give the head itself to a loss, a metric or `topk`"});
  for (const Head& head : work_.graph.heads) {
    if (work_.graph.node(head.node).outputs[0] == value.tensor && head.span.valid()) {
      d.secondary.push_back({head.span, fmt::format("sharded[N, {}]: every device holds a slice of the classes",
                                                    format_with_underscores(classes))});
    }
  }
  d.notes.push_back("losses and `topk` reduce inside each shard and exchange a few numbers per row");
  report(std::move(d));
  return true;
}

// Reports labels whose number of classes differs from the number of logits. The fix changes the number in the model,
// which is at `counted` if the text contains it.
void Evaluator::refuse_labels(const Datum& label, int64_t has, int64_t classes, Span counted, Span at) {
  const bool more = has > classes;
  const std::string count = format_with_underscores(has);
  Fix fix{fmt::format("give the head {} classes", count)};
  if (counted.valid()) {
    fix = replacement({"give the head the {} classes of the data", count}, counted, count);
  }
  Diagnostic d = more ? fault("XG0402", counted.valid() ? counted : at,
                              {"label {} does not fit a head with {} classes", has - 1, classes},
                              {"labels must be 0..{}", classes - 1}, std::move(fix))
                      : fault("XG0302", counted.valid() ? counted : at,
                              {"labels of {} classes do not go with a head of {}", has, classes},
                              "both must be the same", std::move(fix));
  if (const auto source = recorded_.inputs.find(label.tensor.index); source != recorded_.inputs.end()) {
    d.secondary.push_back({source->second, fmt::format("labels 0..{}", has - 1)});
  }
  // The loss and the metrics use one label, so its fault is reported only once.
  const auto& reported = diagnostics_.all();
  if (std::none_of(reported.begin(), reported.end(),
                   [&](const Diagnostic& known) { return known.code == d.code && known.message == d.message; })) {
    report(std::move(d));
  }
}

// The fix for an argument that is not the cosines of a head: the model's cosine head, if it has exactly one.
Help Evaluator::give_the_head(Span at) const {
  const auto& heads = work_.graph.heads;
  const auto of_cosines = [&](const Head& head) {
    const Node& node = work_.graph.node(head.node);
    return node.op->head(node.attrs).cosine;
  };
  if (recorded_.op_call.valid() && std::ranges::count_if(heads, of_cosines) == 1) {
    return replacement("give it the head, which compares the feature with all classes", at,
                       std::ranges::find_if(heads, of_cosines)->name);
  }
  return {"give it the result of `cosine_classifier`, or use `softmax_ce`"};
}

bool Evaluator::match(const Ast& ast, const Type& type, const Datum& value, Scope& env, Span at, std::string_view param,
                      std::string_view owner) {
  const bool is_tensor = value.kind == DatumKind::kTensor;
  const MatchedTensor tensor{*this, ast, type, value, is_tensor ? type_of(value) : TensorType(), at, param, owner};
  if (!is_tensor) {
    if (!value.is_error()) {
      refuse("XG0303", at, {"{} is a tensor {}", tensor.what(), sources_.text(type.span)},
             {"this is {}", kind_text(value)}, {tensors_of_list(value, at)});
    }
    return false;
  }
  const TensorType& actual = tensor.actual;
  const bool wants_sharded = is_of_heads(type.name.text);
  if (actual.sharded && !wants_sharded) {
    return !refuse_sharded(value, recorded_.op_call.valid() ? recorded_.op_call : at, recorded_.op_call.valid());
  }
  if (type.name.text == "cosines" && !actual.sharded) {
    refuse("XG0303", at, {"{} are the cosines of a head, not {}", tensor.what(), to_text(actual)},
           "not the logits of a head", give_the_head(at));
    return false;
  }
  if (is_reported(ast, type)) {
    return false;
  }
  if (type.name.text == "index") {
    if (!match_classes(tensor, env)) {
      return false;
    }
  } else if (type.name && !wants_sharded && type.name.text != name_of(actual.dtype)) {
    return tensor.wrong({"elements are {}", name_of(actual.dtype)}, {"declare it as {}", type.name.text});
  }
  return match_dims(tensor, env);
}

// Matches a tensor with the number of classes of a type index(C).
bool Evaluator::match_classes(const MatchedTensor& tensor, Scope& env) {
  const TensorType& actual = tensor.actual;
  const Type& type = tensor.type;
  const Expr& argument = tensor.ast[type.argument];
  if (actual.classes == 0 && actual.dtype != DType::kI64 && actual.dtype != DType::kI32) {
    return tensor.wrong("not class numbers", "make them class numbers in `data`: label = column(64) -> as_index(10)");
  }
  int64_t classes = 0;
  if (is_dimension_variable(argument) && env.find(argument.name.text) == nullptr) {
    classes = actual.classes;
    if (classes > 0) {
      env.locals[argument.name.text] = {.value = make_whole(classes)};
      note(argument.span, make_whole(classes));
    }
  } else {
    const auto known = dimension(tensor.ast, type.argument, env);
    if (!known) {
      return false;
    }
    classes = *known;
  }
  // The logits are bound before the label, so they are in `env`.
  Span counted;
  for (const auto& [name, local] : env.locals) {
    if (local.value.kind == DatumKind::kTensor && type_of(local.value).rank() == 2 &&
        type_of(local.value).dims[1] == classes) {
      const auto known = work_.columns.find(local.value.tensor.index);
      counted = known != work_.columns.end() ? known->second : counted;
    }
  }
  recorded_.class_counts.try_emplace(tensor.value.tensor.index, counted);
  if (actual.classes == 0 && classes > 0) {
    // The number of classes of such labels is unknown until the data is opened. Until then they get the head's
    // number.
    TensorType& stored = work_.graph.value(tensor.value.tensor).type;
    stored.classes = classes;
    stored.dtype = classes > INT32_MAX ? DType::kI64 : DType::kI32;
  } else if (actual.classes != classes) {
    refuse_labels(tensor.value, actual.classes, classes, counted, tensor.at);
    return false;
  }
  return true;
}

// Matches the dimensions of a tensor with those of a type.
bool Evaluator::match_dims(const MatchedTensor& tensor, Scope& env) {
  const Ast& ast = tensor.ast;
  const auto dims = ast[tensor.type.dims];
  const auto ellipsis =
      static_cast<size_t>(std::ranges::find_if(dims, [&](ExprId id) { return is_ellipsis(ast, id); }) - dims.begin());
  const bool open = ellipsis < dims.size();
  const size_t fixed = dims.size() - (open ? 1 : 0);
  const size_t rank = tensor.actual.dims.size();
  if (open ? rank < fixed : rank != fixed) {
    return tensor.wrong({"{} dimension{}, not {}", rank, rank == 1 ? "" : "s",
                         open ? std::to_string(fixed) + " or more" : std::to_string(fixed)},
                        rank_fix(rank, fixed));
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i == ellipsis) {
      continue;
    }
    const int64_t dim = tensor.actual.dims[i < ellipsis ? i : rank - (dims.size() - i)];
    const Expr& expr = ast[dims[i]];
    const Local* known = expr.kind == ExprKind::kName ? env.find(expr.name.text) : nullptr;
    if (expr.kind == ExprKind::kName && expr.name.text == "N") {
      if (dim != kBatch) {
        return tensor.wrong("the first dimension is the batch, N", "keep the batch first: begin its type with N");
      }
    } else if (known == nullptr && is_dimension_variable(expr)) {
      if (dim == kBatch) {
        return tensor.wrong({"`{}` cannot be the batch dimension", expr.name.text},
                            "write `N` in its place in the type");
      }
      env.locals[expr.name.text] = {.value = make_whole(dim)};
      note(expr.span, make_whole(dim));
    } else {
      const auto expected = dimension(ast, dims[i], env, dims);
      if (!expected) {
        return false;
      }
      if (*expected != dim) {
        return tensor.wrong({"{} = {}, not {}", sources_.text(expr.span), dim_text(*expected), dim_text(dim)},
                            {"make dimension {} of it {}, or declare what it is", i, dim_text(*expected)});
      }
    }
  }
  return true;
}

}  // namespace xrun::lang
