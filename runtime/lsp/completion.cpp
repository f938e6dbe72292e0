// Completion: the words that may follow at a place. After an arrow, operators that accept the incoming type come first.
// Tests: tests/lsp/features_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "lang/text/lexer.h"
#include "lang/text/std_library.h"
#include "ops/op.h"
#include "runtime/lsp/features.h"

namespace xrun::lsp {
namespace {

// CompletionItemKind of the protocol.
enum class Item : int {
  kFunction = 3,
  kField = 5,
  kVariable = 6,
  kClass = 7,
  kModule = 9,
  kProperty = 10,
  kKeyword = 14,
  kFile = 17,
  kOperator = 24,
};

// The number of dimensions of the first type in a parameter list, "[N, C, H, W]", and whether `...` leaves it open.
struct Rank {
  size_t dims = 0;
  bool is_open = false;
};
std::optional<Rank> first_rank(std::string_view signature) {
  const size_t open = signature.find('[');
  const size_t close = signature.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view dims = signature.substr(open, close - open);
  const bool is_open = dims.find("...") != std::string_view::npos;
  const auto count = static_cast<size_t>(std::ranges::count(dims, ',')) + 1;
  return Rank{count - (is_open ? 1 : 0), is_open};
}

bool fits(const std::optional<Rank>& wanted, size_t rank) {
  return wanted && (wanted->is_open ? rank >= wanted->dims : rank == wanted->dims);
}

class Completion {
 public:
  Completion(const Context& context, uint32_t offset)
      : context_(context), analysis_(context.analysis()), text_(analysis_.text()), cursor_(offset), begin_(offset) {
    while (begin_ > 0 && lang::is_name_char(text_[begin_ - 1])) {
      --begin_;
    }
  }

  Json answer() {
    Json all = items();
    return {{"isIncomplete", is_incomplete_}, {"items", std::move(all)}};
  }

 private:
  Json items() {
    const std::vector<lang::Token>& tokens = analysis_.tokens().tokens;
    const auto after = std::ranges::find_if(tokens, [&](const lang::Token& token) { return token.end > begin_; });
    before_ = after == tokens.begin() ? nullptr : &*std::prev(after);
    const lang::TokenKind kind = before_ == nullptr ? lang::TokenKind::kNewline : before_->kind;
    if (after != tokens.end() && after->kind == lang::TokenKind::kString && after->begin < cursor_) {
      add_files();
      return std::move(items_);
    }
    const lang::Decl* decl = declaration();
    const bool starts_line = begin_ == 0 || text_[begin_ - 1] == '\n';
    const bool starts = starts_line || kind == lang::TokenKind::kNewline || kind == lang::TokenKind::kLeftBrace;
    if (kind == lang::TokenKind::kArrow) {
      add_stages();
    } else if (kind == lang::TokenKind::kDot) {
      add_members();
    } else if (starts_line) {
      add_declarations();
    } else if (decl != nullptr && lang::has_settings(decl->kind) && starts) {
      add_settings(*decl);
    } else {
      if (starts && decl != nullptr && lang::has_body(decl->kind)) {
        for (const char* word : {"input", "output", "head", "param", "state", "return", "assert", "expect"}) {
          add(word, Item::kKeyword, "statement", "2");
        }
      }
      add_values(decl);
    }
    return std::move(items_);
  }

  void add(std::string_view label, Item kind, std::string_view detail, std::string_view order,
           std::string_view doc = {}) {
    // After kMostShown names, only names that begin with the written letters are added. An editor asks again after the
    // next letter.
    const std::string_view written = text_.substr(begin_, cursor_ - begin_);
    const bool goes_on = !written.empty() && label.starts_with(written);
    if (known_.size() >= (goes_on ? 2 * kMostShown : kMostShown)) {
      is_incomplete_ = true;
      return;
    }
    if (!known_.insert(std::string(label)).second) {
      return;
    }
    Json item{{"label", label}, {"kind", static_cast<int>(kind)}, {"sortText", fmt::format("{}{}", order, label)}};
    if (!detail.empty()) {
      item["detail"] = detail;
    }
    if (!doc.empty()) {
      item["documentation"] = doc;
    }
    items_.push_back(std::move(item));
  }

  const lang::Decl* declaration() const {
    for (const lang::Decl& decl : analysis_.ast().decls) {
      if (decl.span.begin < begin_ && begin_ <= decl.span.end) {
        return &decl;
      }
    }
    return nullptr;
  }

  void add_files() {
    for (const std::string_view file : lang::std_files()) {
      add(file, Item::kFile, "standard library", "1");
    }
    for (const auto& [path, text] : context_.workspace.texts()) {
      const size_t slash = path.rfind('/');
      if (path != context_.document.path && slash != std::string::npos) {
        add(path.substr(slash + 1), Item::kFile, path, "2");
      }
    }
  }

  void add_declarations() {
    using enum lang::DeclKind;
    for (lang::DeclKind kind = kImport; kind <= kMoved; kind = lang::next(kind)) {
      add(lang::keyword_of(kind), Item::kKeyword, "declaration", "1");
    }
  }

  // The number of dimensions of the value that flows into the arrow before the cursor. The line is not finished, so it
  // is checked only up to the arrow.
  std::optional<size_t> flowing_rank() const {
    std::string text(text_.substr(0, before_->begin));
    const size_t end = text.find_last_not_of(" \n") + 1;
    text += text_.substr(cursor_);
    lang::Texts texts = context_.workspace.texts();
    texts[context_.document.path] = std::move(text);
    const Analysis upto(context_.document.path, texts, nullptr);
    const auto rank = [&](Span at) -> std::optional<size_t> {
      at.file = upto.file().file;
      const lang::ValueFact* fact = upto.facts().value(at);
      return fact == nullptr || fact->last.dims.empty() ? std::nullopt : std::optional(fact->last.dims.size());
    };
    for (const lang::Stage& stage : upto.ast().pool<lang::Stage>()) {
      if (stage.span.end == end) {
        return rank(stage.span);
      }
    }
    const Occurrence* name = name_at(upto.names(), static_cast<uint32_t>(end));
    return name == nullptr ? std::nullopt : rank(name->definition);
  }

  void add_stages() {
    const std::optional<size_t> rank = flowing_rank();
    const auto order = [&](std::string_view signature) {
      return !rank || fits(first_rank(signature), *rank) ? "1" : "3";
    };
    for (const OpDef* op : ops::registry().all()) {
      if (op->is_word() && op->availability == Availability::kReady) {
        add(op->name, Item::kOperator, fmt::format("{}{}", op->name, op->signature), order(op->signature), op->doc);
      }
    }
    add_calls(analysis_.file(), order);
    for (const char* word : {"repeat", "residual", "fork", "if"}) {
      add(word, Item::kKeyword, "stage", "2");
    }
  }

  // Blocks and functions that the file can call.
  template <class Order>
  void add_calls(const lang::SourceFile& file, Order order) {
    const auto add_decl = [&](std::string_view name, const lang::DeclRef& ref) {
      using enum lang::DeclKind;
      const bool is_called = ref.decl->kind == kBlock || ref.decl->kind == kPointwise || ref.decl->kind == kFn;
      const auto params = ref.file->ast[ref.decl->params];
      if (is_called) {
        const std::string_view signature =
            params.empty() ? "" : analysis_.sources().text(join(params.front().span, params.back().span));
        add(name, Item::kFunction, fmt::format("{}({})", name, signature),
            ref.decl->kind == kPointwise ? "1" : order(signature), ref.decl->doc);
      }
    };
    for (const auto& [name, decl] : file.names) {
      add_decl(name, {&file, decl});
    }
    for (const auto& [name, ref] : file.used) {
      add_decl(name, ref);
    }
    if (const lang::SourceFile* library = analysis_.facts().files->load_std("std/pointwise")) {
      for (const auto& [name, decl] : library->names) {
        add_decl(name, {library, decl});
      }
    }
    for (const auto& [name, module] : file.modules) {
      add(name, Item::kModule, module->path, "2");
    }
  }

  void add_members() {
    const uint32_t end = before_->begin;
    const Occurrence* name = name_at(analysis_.names(), end);
    const std::string_view word = name == nullptr ? "" : analysis_.sources().text(name->at);
    const auto module = analysis_.file().modules.find(word);
    if (module != analysis_.file().modules.end()) {
      for (const auto& [known, decl] : module->second->names) {
        add(known, Item::kFunction, lang::keyword_of(decl->kind), "1", decl->doc);
      }
      return;
    }
    if (const lang::DeclRef model = analysis_.file().find(lang::DeclKind::kModel, word)) {
      for (const lang::Stmt& stmt : model.file->ast[model.decl->body]) {
        for (const lang::Name& bound : model.file->ast[stmt.names]) {
          add(bound.text, Item::kField, type_of(bound.span), "1");
        }
      }
    }
  }

  std::string type_of(const Span& at) const {
    const lang::ValueFact* fact = analysis_.facts().value(at);
    return fact == nullptr || fact->texts.empty() ? "" : fact->texts[0];
  }

  void add_settings(const lang::Decl& decl) {
    const std::string path = group_path(analysis_, begin_) + ".";
    for (const lang::Topic& topic : context_.topics) {
      const std::string_view rest = topic.kind == "setting" && topic.name.starts_with(path)
                                        ? std::string_view(topic.name).substr(path.size())
                                        : std::string_view();
      const bool is_name = !rest.empty() && rest[0] >= 'A' && rest[0] <= 'Z';
      if (!rest.empty() && !is_name && rest.find('.') == std::string_view::npos) {
        add(rest, Item::kProperty, topic.title, "1", topic.page);
      }
    }
    if (decl.kind == lang::DeclKind::kData) {
      add("source", Item::kKeyword, "source NAME = READER(...)", "1");
      for (const Occurrence& name : analysis_.names()) {
        if (name.kind == NameKind::kInput && name.declares()) {
          add(analysis_.sources().text(name.at), Item::kField, type_of(name.at), "1");
        }
      }
    }
  }

  void add_values(const lang::Decl* decl) {
    for (const Occurrence& name : analysis_.names()) {
      const bool is_value = name.kind >= NameKind::kParameter && name.kind <= NameKind::kField;
      const bool is_seen = name.decl == decl || (decl != nullptr && lang::has_settings(decl->kind));
      if (name.declares() && is_value && is_seen && (name.decl != decl || name.at.begin < begin_)) {
        add(analysis_.sources().text(name.at), Item::kVariable, type_of(name.at), "1");
      } else if (name.declares() && name.kind == NameKind::kConstant) {
        add(analysis_.sources().text(name.at), Item::kVariable, type_of(name.at), "2");
      } else if (name.declares() && name.kind == NameKind::kModel) {
        add(analysis_.sources().text(name.at), Item::kClass, "model", "3");
      }
    }
    const auto last = [](std::string_view) { return "4"; };
    add_calls(analysis_.file(), last);
    for (const lang::Topic& topic : context_.topics) {
      const bool is_setting = topic.kind == "setting" || topic.kind == "declaration";
      if (!is_setting && topic.is_available) {
        add(topic.name, Item::kFunction, topic.kind, "5", topic.title);
      }
    }
    for (const char* word : {"true", "false", "auto", "none", "if", "else", "and", "or", "not"}) {
      add(word, Item::kKeyword, "", "6");
    }
  }

  const Context& context_;
  const Analysis& analysis_;
  std::string_view text_;
  uint32_t cursor_;
  uint32_t begin_;                       // start of the word that is being written
  const lang::Token* before_ = nullptr;  // the token before that word
  std::set<std::string> known_;
  bool is_incomplete_ = false;  // there are more names than are shown
  Json items_ = Json::array();
};

}  // namespace

Json completion(const Context& context, const Json& params) {
  return Completion(context, context.offset(params)).answer();
}

}  // namespace xrun::lsp
