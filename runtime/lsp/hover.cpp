// Hover: the kind of a name, the page of a word of the language, and the types and numbers that the check has found for
// it.
// Tests: tests/lsp/features_test.cpp, tests/lsp/signature_help_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "graph/base/units.h"
#include "runtime/lsp/features.h"

namespace xrun::lsp {
namespace {

std::string fenced(std::string_view language, std::string_view text) {
  return fmt::format("```{}\n{}{}```\n", language, text, text.ends_with('\n') ? "" : "\n");
}

// The text of a declaration that is one expression, such as a function's; a long text is cut.
std::string whole_of(std::string_view text) {
  constexpr size_t kMost = 2000;
  size_t end = std::min(text.size(), kMost);
  while (end < text.size() && end > 0 && text[end] != '\n') {
    --end;
  }
  const size_t last = text.substr(0, end).find_last_not_of(" \n");
  return std::string(text.substr(0, last == std::string_view::npos ? 0 : last + 1)) +
         (end < text.size() ? "\n..." : "");
}

// The text of a declaration up to its body.
std::string header_of(std::string_view text) {
  int depth = 0;
  size_t end = 0;
  for (; end < text.size(); ++end) {
    const char c = text[end];
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (depth == 0 && (c == '{' || c == '\n')) {
      break;
    }
  }
  const size_t last = text.find_last_not_of(" \n", end == 0 ? 0 : end - 1);
  return std::string(text.substr(0, last == std::string_view::npos ? 0 : last + 1));
}

const char* noun_of(NameKind kind) {
  switch (kind) {
    case NameKind::kParameter:
      return "parameter";
    case NameKind::kDimension:
      return "dimension";
    case NameKind::kBinding:
      return "value";
    case NameKind::kInput:
      return "input";
    case NameKind::kHead:
      return "head";
    case NameKind::kParam:
      return "trained tensor or state";
    case NameKind::kLabel:
      return "label";
    case NameKind::kSource:
      return "source";
    case NameKind::kField:
      return "field of the data";
    default:
      return "";
  }
}

class Card {
 public:
  Card(const Context& context, const Occurrence& name)
      : context_(context), analysis_(context.analysis()), name_(name), text_(analysis_.sources().text(name.at)) {}

  std::string markdown() {
    if (name_.kind == NameKind::kSetting) {
      add_topic(setting_path(analysis_, name_.at.end));
    } else if (const char* noun = noun_of(name_.kind); *noun != '\0') {
      out_ += fmt::format("{} `{}`\n\n", noun, text_);
    } else if (name_.decl != nullptr) {
      add_declaration();
    } else {
      add_topic(std::string(text_));
    }
    add_values();
    add_call(name_.at);
    if (name_.definition.valid() && !(name_.definition == name_.at) && name_.kind != NameKind::kBlock) {
      add_call(name_.definition);
    }
    if (names_tensors(name_.kind)) {
      out_ += "Tensors are named after it: older checkpoints do not have them under another name.\n\n";
    }
    return out_;
  }

 private:
  void add_declaration() {
    const SourceMap& sources = analysis_.sources();
    const std::string_view text = sources.text(name_.decl->span);
    out_ += fenced("xgraph", name_.decl->value.valid() ? whole_of(text) : header_of(text));
    out_ += name_.decl->doc.empty() ? "" : fmt::format("{}\n\n", name_.decl->doc);
  }

  void add_topic(const std::string& path) {
    const std::vector<lang::Topic> found =
        path.empty() ? std::vector<lang::Topic>() : lang::find_topics(path, context_.topics);
    for (const lang::Topic& topic : found) {
      // `steps` is both a setting and a curve. In a call it means the curve.
      const bool is_meant = name_.kind == NameKind::kSetting || topic.kind != "setting" || found.size() == 1;
      out_ += is_meant ? fmt::format("{}\n", fenced("text", topic.page)) : "";
    }
  }

  // Adds the values found at this place, such as the result of a call. If there are none, adds those of the
  // declaration.
  void add_values() {
    const lang::ValueFact* here = analysis_.facts().value(name_.at);
    const lang::ValueFact* fact = here != nullptr ? here : analysis_.facts().value(name_.definition);
    if (fact == nullptr || fact->texts.empty()) {
      return;
    }
    std::string list;
    for (const std::string& text : fact->texts) {
      list += fmt::format("{}`{}`", list.empty() ? "" : ", ", text);
    }
    const bool is_call = here != nullptr && !name_.declares();
    out_ += fmt::format("{} {}{}\n\n", is_call ? "Gives" : "Is", list, fact->has_more ? ", and others" : "");
  }

  void add_call(const Span& at) {
    const lang::CallFact* call = analysis_.facts().call(at);
    if (call != nullptr && call->tensors > 0) {
      out_ +=
          fmt::format("{} parameters in {} tensor{}, `{}`{}\n\n", format_with_underscores(call->elements),
                      call->tensors, call->tensors == 1 ? "" : "s", call->first, call->tensors == 1 ? "" : " first");
    }
    if (call != nullptr && call->flops > 0) {
      const bool many = call->flops >= 1e9;
      out_ +=
          fmt::format("{:.3g} {} a sample, forward\n\n", call->flops / (many ? 1e9 : 1e6), many ? "GFLOP" : "MFLOP");
    }
  }

  const Context& context_;
  const Analysis& analysis_;
  const Occurrence& name_;
  std::string_view text_;
  std::string out_;
};

}  // namespace

Json hover(const Context& context, const Json& params) {
  const uint32_t offset = context.offset(params);
  const Occurrence* name = name_at(context.analysis().names(), offset);
  std::string text;
  if (name != nullptr) {
    text = Card(context, *name).markdown();
  } else if (const auto& decls = context.analysis().ast().decls; true) {
    // The keyword of a declaration has the page of the declarations that it begins.
    const auto decl = std::ranges::find_if(
        decls, [&](const lang::Decl& one) { return one.keyword.begin <= offset && offset <= one.keyword.end; });
    if (decl != decls.end()) {
      for (const lang::Topic& topic : lang::find_topics(lang::keyword_of(decl->kind), context.topics)) {
        text += fenced("text", topic.page);
      }
    }
  }
  if (text.empty()) {
    return nullptr;
  }
  Json answer{{"contents", {{"kind", "markdown"}, {"value", text}}}};
  if (name != nullptr) {
    answer["range"] = context.analysis().lines().range(name->at);
  }
  return answer;
}

}  // namespace xrun::lsp
