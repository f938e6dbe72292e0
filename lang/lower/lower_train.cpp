// Lowers the settings of `train` to fields of TrainSpec. Loss and metrics are in lower_loss.cpp, rates in
// lower_curves.cpp, a growing batch in lower_growth.cpp, the optimizer and frozen weights in lower_update.cpp.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "graph/passes/untie.h"
#include "lang/lower/foreign_settings.h"
#include "lang/lower/module_builder.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// The bounds of the default row block (docs/internals/determinism.md, "Row blocks"). Larger blocks do not make kernels
// faster. Smaller ones give more blocks to distribute, but statistics of few rows are noisy.
constexpr int64_t kMostRows = 64;
constexpr int64_t kManyBlocks = 16;
constexpr int64_t kLeastRowsOfStatistics = 8;

int64_t largest_divisor(int64_t batch, int64_t most) {
  for (int64_t rows = std::min(batch, most); rows > 1; --rows) {
    if (batch % rows == 0) {
      return rows;
    }
  }
  return 1;
}

// The row blocks that a message offers: the divisors of the batch up to 1024. A batch norm needs groups of several
// samples, so 1 is left out for it.
std::string divisors_text(int64_t batch, bool has_statistics) {
  std::string text;
  for (int64_t rows = std::min<int64_t>(batch, 1024); rows >= (has_statistics && batch > 1 ? 2 : 1); --rows) {
    if (batch % rows == 0) {
      text = text.empty() ? std::to_string(rows) : std::to_string(rows) + ", " + text;
    }
  }
  return text;
}

}  // namespace

// Reports that none of `keys` is set, unless another fault explains this: a misspelt key, or a setting that could not
// be read.
void ModuleBuilder::require(const Settings& settings, std::initializer_list<std::string_view> keys) {
  std::string list;
  for (const std::string_view key : keys) {
    if (settings.root.find(key) != nullptr) {
      return;
    }
    for (const SettingNode& child : settings.root.children) {
      if (find_setting(DeclKind::kTrain, {}, child.key) == nullptr &&
          (nearest(child.key, {std::string(key)}) == key || stands_for(child.key, key))) {
        return;
      }
    }
    list += fmt::format("{}`{}`", list.empty() ? "" : " or ", key);
  }
  if (!settings.has_error) {
    ev_.refuse("XG0501", settings.root.key_span, {"`train` needs {}", list}, "missing here",
               {"set it: {}", setting(DeclKind::kTrain, *keys.begin()).example});
  }
}

// Checks weights that several operators read: either all readers give the weight a gradient, or no reader does.
void ModuleBuilder::check_readers() {
  const Graph& graph = ev_.graph();
  if (module_.train.loss.empty()) {
    return;
  }
  std::vector<bool> reaches(graph.nodes.size(), false);  // whether the loss depends on the node through gradients
  std::vector<ValueId> open{module_.train.loss[0].rows};
  while (!open.empty()) {
    const NodeId id = graph.value(open.back()).producer;
    open.pop_back();
    if (!id.valid() || reaches[static_cast<size_t>(id.index)]) {
      continue;
    }
    const Node& node = graph.node(id);
    if (node.op->grad != nullptr || node.op->head != nullptr || node.op->margin != nullptr) {
      reaches[static_cast<size_t>(id.index)] = true;
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
  }
  const auto consumers = consumers_of(graph);
  for (const Parameter& parameter : graph.params) {
    const std::vector<NodeId>& readers = consumers[parameter.value];
    const auto is_reached = [&](NodeId id) { return reaches[static_cast<size_t>(id.index)]; };
    if (!parameter.updated() || readers.size() < 2) {
      continue;
    }
    if (readers.size() > kMostReaders) {
      ev_.refuse("XG0198", graph.node(readers[kMostReaders]).span,
                 {"{} operators read the weight `{}`; at most {} can", readers.size(), parameter.name, kMostReaders},
                 "", {"use it fewer times"});
      continue;
    }
    const auto without = std::ranges::find_if_not(readers, is_reached);
    if (without != readers.end() && std::ranges::any_of(readers, is_reached)) {
      ev_.refuse("XG0198", graph.node(*without).span,
                 {"this operator reads the weight `{}` and gives it no gradient, although others do", parameter.name},
                 "the loss does not depend on it", {"give it a weight of its own, or let the loss depend on it"});
    }
  }
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
  const auto written_in = decl ? lineage(decl) : std::vector<DeclRef>{{.file = scope.file}};
  scope.resolve = [this, written_in, known = scope.resolvable](std::string_view name, Span at) {
    auto value = data_value(name, at);
    const auto declares = [&](const DeclRef& one) { return bool(one.file->find(name)); };
    const bool elsewhere =
        name == "N" || std::ranges::any_of(written_in, declares) || ev_.options().ops->find(name) != nullptr;
    return !value && !elsewhere && may_be_a_field(name, known) ? std::optional(Datum()) : value;
  };
  TrainSpec& train = module_.train;
  train.name = decl ? std::string(decl.decl->name.text) : "";
  train.span = settings.root.span;
  module_.has_train = true;
  for (const SettingDef& def : all_settings()) {
    if (def.kind == DeclKind::kTrain && def.fallback == "required") {
      require(settings, {def.key});
    }
  }
  for (const SettingNode& child : settings.root.children) {
    written_.insert(child.key);
  }
  lower_duration(settings, scope);
  // The loss is lowered first, so that its nodes come before those of metrics, whatever the order of the text.
  if (const SettingNode* node = settings.root.find("loss")) {
    Scope own = scope_of(*node, scope);
    lower_loss(*node, own);
  }
  lower_settings(settings.root, DeclKind::kTrain, {}, scope);
  lower_norm_rows(settings, scope);
  check_watched(settings);
  check_rows();
  check_readers();
  find_class_input(settings);
  check_moved_classes();
  // An update sums the gradients of `grad_accumulation` batches, which has the effect of one batch of their total size.
  train.batch *= train.grad_accumulation;
  if (const double most = setting(DeclKind::kTrain, "batch").high; static_cast<double>(train.batch) > most) {
    ev_.refuse("XG0214", value_span(*settings.root.find("grad_accumulation")),
               {"an update cannot take {} samples", train.batch}, "",
               {"make `batch` or `grad_accumulation` smaller: their product is at most {:.0f}", most});
  }
  check_growth(settings);
  check_active_classes();
  check_compress();
  check_ema();
  check_f16_inputs();
}

// Rejects inputs of f16 unless the gradients of the values that are computed from them have a scale.
void ModuleBuilder::check_f16_inputs() {
  const Graph& graph = ev_.graph();
  for (const NamedValue& input : graph.inputs) {
    if (graph.value(input.value).type.dtype == DType::kF16 && module_.train.precision != PrecisionMode::kMixedF16) {
      ev_.refuse("XG0304", module_.train.span,
                 {"the input `{}` is f16, and gradients of f16 need a scale of the loss", input.name}, "",
                 {"write precision = mixed(f16), or make the input f32"});
    }
  }
}

void ModuleBuilder::lower_duration(const Settings& settings, const Scope& scope) {
  TrainSpan& duration = module_.train.duration;
  const SettingNode* epochs = settings.root.find("epochs");
  const SettingNode* steps = settings.root.find("steps");
  if (epochs != nullptr && steps != nullptr) {
    ev_.report(fault("XG0211", steps->key_span, "the length of a run is set in epochs or in steps, not in both",
                     "also set here", {"leave one of the two out"})
                   .also(epochs->key_span, "set here"));
  } else if (epochs != nullptr) {
    Scope own = scope_of(*epochs, scope);
    duration = {real(*epochs, own, setting(DeclKind::kTrain, "epochs")).value_or(1), TrainSpan::kEpochs};
  } else if (steps != nullptr) {
    Scope own = scope_of(*steps, scope);
    const auto count = whole(*steps, own, setting(DeclKind::kTrain, "steps"));
    duration = {static_cast<double>(count.value_or(1)), TrainSpan::kSteps};
  } else {
    require(settings, {"epochs", "steps"});
  }
}

void ModuleBuilder::lower_clip(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto choice = choose(node, def);
  if (!choice || choice->word == def.fallback) {
    return;
  }
  const auto bound = arguments(node, *choice, scope);
  if (!bound) {
    return;
  }
  ClipSpec& clip = module_.train.clip;
  clip.kind = choice->word == "norm" ? ClipSpec::kNorm : ClipSpec::kValue;
  clip.limit = (*bound)[0].value().as_double();
  clip.heads = clip.kind == ClipSpec::kNorm && (*bound)[1].value().flag;
  if (!(clip.limit > 0)) {
    ev_.refuse("XG0214", (*bound)[0].span, {"`clip` cannot be {:g}", clip.limit}, "",
               {"write a number above 0, or clip = none"});
  }
}

void ModuleBuilder::lower_precision(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto choice = choose(node, def);
  if (!choice || choice->word == def.fallback) {
    return;
  }
  module_.train.precision = PrecisionMode::kMixedBf16;
  const auto bound = arguments(node, *choice, scope);
  if (!bound) {
    return;
  }
  const BoundArg& dtype = (*bound)[0];
  if (dtype.value().text == "f16") {
    module_.train.precision = PrecisionMode::kMixedF16;
  } else if (dtype.value().text != "bf16") {
    ev_.refuse("XG0205", dtype.span, {"`mixed` takes bf16 or f16, not `{}`", dtype.value().text}, "",
               replacement("write bf16", dtype.span, "bf16"));
    return;
  }
  lower_loss_scale((*bound)[1]);
}

// Reads the scale of the loss of `mixed`, which f16 needs since its range is small.
void ModuleBuilder::lower_loss_scale(const BoundArg& scale) {
  const Datum& value = scale.value();
  const Span at = value.span.valid() ? value.span : scale.span;
  const bool none = value.kind == DatumKind::kNone || value.text == "none";
  constexpr std::string_view kUsual = "usual";  // the default: dynamic for f16, and no scale for bf16
  if (module_.train.precision == PrecisionMode::kMixedBf16) {
    if (!none && value.text != kUsual) {
      ev_.refuse("XG0204", scale.span,
                 {"`loss_scale` belongs to `mixed(f16)`; bf16 has the range of f32 and needs none"}, "",
                 {"leave `loss_scale` out, or write mixed(f16)"});
    }
    return;
  }
  LossScaleSpec& spec = module_.train.loss_scale;
  spec.kind = LossScaleSpec::kFixed;
  if (none) {
    spec.first = 1;
  } else if (value.kind == DatumKind::kSymbol && (value.text == "dynamic" || value.text == kUsual)) {
    spec.kind = LossScaleSpec::kDynamic;
  } else if (!value.plain_number()) {
    ev_.refuse("XG0205", at, {"`loss_scale` of `mixed` is dynamic, none or a number, not {}", to_text(value)}, "",
               replacement("write dynamic", at, "dynamic"));
  } else if (spec.first = value.as_double(); !is_loss_scale(spec.first)) {
    const double near = spec.first > 1 ? std::exp2(std::min(32.0, std::round(std::log2(spec.first)))) : 1;
    ev_.refuse("XG0214", at, {"`loss_scale` cannot be {:g}", spec.first},
               "it is a power of two from 1 to 2^32, so that scaling rounds nothing",
               replacement({"write {:.0f}", near}, at, {"{:.0f}", near}));
  }
}

const Node* ModuleBuilder::coupled_node() const {
  const auto& nodes = ev_.graph().nodes;
  const auto at =
      std::ranges::find_if(nodes, [](const Node& node) { return node.op->rows == RowProperty::kRowCoupled; });
  return at == nodes.end() ? nullptr : &*at;
}

// Sets the default row block. It affects the result, so it depends only on the batch and never on the machine. It is
// the largest divisor of the batch that is at most 64 and, without a batch norm, also at most a sixteenth of the batch,
// or 1 if that is more.
void ModuleBuilder::set_default_rows(int64_t batch) {
  TrainSpec& train = module_.train;
  const Node* coupled = coupled_node();
  const bool has_statistics = coupled != nullptr;
  train.norm_rows = largest_divisor(batch, has_statistics ? kMostRows : std::min(kMostRows, batch / kManyBlocks));
  // For a batch of up to 64 samples, the block is the whole batch, which is always allowed.
  if (has_statistics && batch > kMostRows && train.norm_rows < kLeastRowsOfStatistics) {
    const int64_t below = batch / kMostRows * kMostRows;
    ev_.report(
        fault("XG0507", train.batch_span,
              {"no row block of {} to {} samples divides a batch of {}", kLeastRowsOfStatistics, kMostRows, batch},
              "its batch norm would have no group to normalise",
              {"{} {} or {}{}, or say the group yourself: norm_rows may be one of {}",
               train.growth ? "make the first size" : "write batch =", below,
               train.growth ? "" : "batch = ", below + kMostRows, divisors_text(batch, true)})
            .also(coupled->span, "normalises the rows of a block together"));
    train.norm_rows = batch;  // groups of one sample would be reported as a second fault
  }
  // The default that earlier versions chose; their checkpoints are continued with it.
  const int64_t earlier = std::min(kMostRows, batch);
  earlier_norm_rows_ = earlier != train.norm_rows && batch % earlier == 0 ? earlier : 0;
}

// Lowers `norm_rows`, the size of a row block: the group of batch norm and the unit of every kernel call
// (docs/internals/determinism.md, "Row blocks").
void ModuleBuilder::lower_norm_rows(const Settings& settings, const Scope& scope) {
  TrainSpec& train = module_.train;
  const int64_t batch = train.batch;
  const SettingNode* node = settings.root.find("norm_rows");
  if (node == nullptr) {
    if (batch > 0) {
      set_default_rows(batch);
    }
    return;
  }
  if (word(*node) == "global") {
    if (choose(*node, setting(DeclKind::kTrain, "norm_rows"))) {
      ev_.not_yet(node->key_span, "`norm_rows = global`",
                  {"leave it out, or write a number that divides the batch, as large as the memory allows"});
    }
    return;
  }
  Scope own = scope_of(*node, scope);
  const auto rows = whole(*node, own, setting(DeclKind::kTrain, "norm_rows"));
  if (!rows) {
    return;
  }
  train.norm_rows = *rows;
  if (batch <= 0 || batch % train.norm_rows == 0) {
    return;
  }
  ev_.report(fault("XG0507", value_span(*node),
                   {"row blocks of {} samples do not divide a batch of {}", train.norm_rows, batch},
                   {"{} / {} leaves {} samples over", batch, train.norm_rows, batch % train.norm_rows},
                   {"norm_rows may be one of {}", divisors_text(batch, coupled_node() != nullptr)})
                 .also(train.batch_span, "the batch"));
}

}  // namespace xrun::lang
