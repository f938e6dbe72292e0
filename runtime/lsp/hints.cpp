// Inlay hints: the shape after each stage of a pipeline, and the type or value of each other binding.
#include <fmt/format.h>

#include "runtime/lsp/features.h"

namespace xrun::lsp {
namespace {

constexpr int kType = 1;  // InlayHintKind

class Hints {
 public:
  Hints(const Analysis& analysis, uint32_t begin, uint32_t end) : analysis_(analysis), begin_(begin), end_(end) {}

  Json all() {
    const lang::Ast& ast = analysis_.ast();
    for (const lang::Stage& stage : ast.pool<lang::Stage>()) {
      add(stage.span, stage.span.end, "");
    }
    for (const lang::Stmt& stmt : ast.pool<lang::Stmt>()) {
      const bool is_shown = stmt.kind == lang::StmtKind::kHead || stmt.kind == lang::StmtKind::kBind;
      if (is_shown && stmt.value.valid() && tells(ast[stmt.value].kind)) {
        for (const lang::Name& name : ast[stmt.names]) {
          add(name.span, name.span.end, ": ");
        }
      }
    }
    return std::move(hints_);
  }

 private:
  // Whether a value needs a hint. A literal shows its value, and the last stage of a pipeline has a hint of its own.
  static bool tells(lang::ExprKind kind) {
    using enum lang::ExprKind;
    return kind != kPipe && kind != kNumber && kind != kString && kind != kBool && kind != kError;
  }

  void add(const Span& span, uint32_t at, std::string_view before) {
    const lang::ValueFact* fact = analysis_.facts().value(span);
    if (fact == nullptr || fact->texts.empty() || at < begin_ || at > end_ || hints_.size() >= kMostShown) {
      return;
    }
    const bool varies = fact->texts.size() > 1 || fact->has_more;
    Json hint{{"position", analysis_.lines().position(at)},
              {"label", fmt::format("{}{}{}", before, fact->texts[0], varies ? ", ..." : "")},
              {"kind", kType},
              {"paddingLeft", before.empty()}};
    if (varies) {
      std::string all = "In other places:";
      for (size_t i = 1; i < fact->texts.size(); ++i) {
        all += fmt::format("\n{}", fact->texts[i]);
      }
      hint["tooltip"] = all + (fact->has_more ? "\n..." : "");
    }
    hints_.push_back(std::move(hint));
  }

  const Analysis& analysis_;
  uint32_t begin_;
  uint32_t end_;
  Json hints_ = Json::array();
};

}  // namespace

Json inlay_hints(const Context& context, const Json& params) {
  const LineMap& lines = context.analysis().lines();
  const Json& range = field(params, "range");
  // A client may ask for lines after the end of the text.
  const auto offset = [&](const char* key) {
    const Json& position = field(range, key);
    return number_field(position, "line") < lines.lines() ? lines.offset(position)
                                                          : static_cast<uint32_t>(lines.text().size());
  };
  return Hints(context.analysis(), offset("start"), offset("end")).all();
}

}  // namespace xrun::lsp
