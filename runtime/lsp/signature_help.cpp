// Signature help: the parameters of the call around the cursor, and the parameter that is being written. A call that is
// being written does not parse yet, so it is found in the tokens.
#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "lang/text/lexer.h"
#include "runtime/lsp/features.h"

namespace xrun::lsp {
namespace {

using lang::Token;
using lang::TokenKind;

bool opens(TokenKind kind) {
  return kind == TokenKind::kLeftParen || kind == TokenKind::kLeftBracket || kind == TokenKind::kLeftBrace;
}

bool closes(TokenKind kind) {
  return kind == TokenKind::kRightParen || kind == TokenKind::kRightBracket || kind == TokenKind::kRightBrace;
}

// The call that contains a place.
struct Call {
  std::string_view name;      // name of the called operator or block, "conv"
  std::string_view module;    // "vision" of vision.resnet(...); otherwise empty
  bool is_stage = false;      // follows an arrow, so that its first tensor is the incoming value
  size_t arguments = 0;       // number of arguments that end before that place
  std::string_view argument;  // name of the argument at the place, "stride" of stride=2; otherwise empty
};

struct Signature {
  std::string label;  // "conv(x: [N, C, H, W], width: int)"
  std::string text;   // text of the parameters, in brackets
  std::string doc;
};

// Splits "(a: int, b: [N, C])" at its outer commas, without the brackets around it.
std::vector<std::string_view> parameters_of(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    if ((c == ',' && depth == 1) || (depth == 0 && i > 0)) {
      const size_t first = std::min(text.find_first_not_of(" \n", begin), i);
      if (first < i) {
        parts.push_back(text.substr(first, i - first));
      }
      begin = i + 1;
      if (depth == 0) {
        break;
      }
    }
  }
  return parts;
}

// The text from an opening bracket up to the one that closes it; empty if it is not closed.
std::string_view in_brackets(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) {
      return text.substr(0, i + 1);
    }
  }
  return {};
}

class Finder {
 public:
  Finder(const Context& context, uint32_t offset)
      : context_(context), analysis_(context.analysis()), tokens_(analysis_.tokens().tokens), offset_(offset) {}

  Json answer() {
    if (!find_call()) {
      return nullptr;
    }
    add_declaration();
    if (found_.empty()) {
      add_topics();
    }
    if (found_.empty()) {
      add_choice();
    }
    if (found_.empty()) {
      return nullptr;
    }
    Json signatures = Json::array();
    for (const Signature& one : found_) {
      Json parameters = Json::array();
      for (const std::string_view parameter : parameters_of(one.text)) {
        parameters.push_back({{"label", parameter}});
      }
      Json json{{"label", one.label}, {"parameters", std::move(parameters)}, {"activeParameter", active_of(one)}};
      if (!one.doc.empty()) {
        json["documentation"] = one.doc;
      }
      signatures.push_back(std::move(json));
    }
    return {{"activeSignature", 0},
            {"activeParameter", signatures[0]["activeParameter"]},
            {"signatures", std::move(signatures)}};
  }

 private:
  std::string_view text_of(const Token& token) const {
    return analysis_.text().substr(token.begin, token.end - token.begin);
  }

  // Goes back from the place to the opening bracket of a call that is not closed before it.
  bool find_call() {
    const auto end = std::ranges::partition_point(tokens_, [&](const Token& token) { return token.end <= offset_; });
    int depth = 0;
    auto argument = end;  // the first token of the argument at the place
    for (auto at = end; at != tokens_.begin();) {
      const TokenKind kind = (--at)->kind;
      if (closes(kind)) {
        ++depth;
      } else if (opens(kind) && depth > 0) {
        --depth;
      } else if (kind == TokenKind::kComma && depth == 0) {
        argument = call_.arguments == 0 ? std::next(at) : argument;
        ++call_.arguments;
      } else if (kind == TokenKind::kLeftBrace) {
        return false;
      } else if (opens(kind)) {
        argument = call_.arguments == 0 ? std::next(at) : argument;
        if (kind == TokenKind::kLeftParen && read_name(at)) {
          read_argument(argument, end);
          return true;
        }
        call_ = {};  // a list or an expression in brackets is one argument of the call around it
      }
    }
    return false;
  }

  bool read_name(std::vector<Token>::const_iterator bracket) {
    if (bracket == tokens_.begin() || std::prev(bracket)->kind != TokenKind::kName) {
      return false;
    }
    auto at = std::prev(bracket);
    call_.name = text_of(*at);
    if (std::distance(tokens_.begin(), at) >= 2 && std::prev(at)->kind == TokenKind::kDot &&
        std::prev(at, 2)->kind == TokenKind::kName) {
      at -= 2;
      call_.module = text_of(*at);
    }
    call_.is_stage = at != tokens_.begin() && std::prev(at)->kind == TokenKind::kArrow;
    return true;
  }

  void read_argument(std::vector<Token>::const_iterator at, std::vector<Token>::const_iterator end) {
    const bool is_named = at != tokens_.end() && std::next(at) != tokens_.end() && at->begin < offset_ &&
                          at->kind == TokenKind::kName && std::next(at)->kind == TokenKind::kAssign;
    if (is_named && at <= end) {
      call_.argument = text_of(*at);
    }
  }

  lang::DeclRef declaration() const {
    const lang::SourceFile& file = analysis_.file();
    if (!call_.module.empty()) {
      const auto module = file.modules.find(call_.module);
      return module == file.modules.end() ? lang::DeclRef() : module->second->find(call_.name);
    }
    lang::DeclRef found = file.find(call_.name);
    for (const char* library : {"std/pointwise", "std/optimizers"}) {
      const bool is_operator = lsp::is_operator(call_.name);
      if (const auto* known = found || is_operator ? nullptr : analysis_.facts().files->load_std(library)) {
        found = known->find(call_.name);
      }
    }
    return found ? found : file.find(lang::DeclKind::kModel, call_.name);
  }

  void add_declaration() {
    const lang::DeclRef ref = declaration();
    if (!ref || !ref.decl->has_params) {
      return;
    }
    const auto params = ref.file->ast[ref.decl->params];
    add(std::string(call_.name),
        params.empty() ? "()"
                       : fmt::format("({})", analysis_.sources().text(join(params.front().span, params.back().span))),
        ref.decl->doc);
  }

  // Adds signatures of operators, readers, stages of data and curves: their pages begin with the signature.
  void add_topics() {
    if (!call_.module.empty()) {
      return;
    }
    for (const lang::Topic& topic : context_.topics) {
      if (topic.name == call_.name && topic.page.starts_with(topic.name + "(")) {
        add(topic.name, std::string(in_brackets(std::string_view(topic.page).substr(topic.name.size()))), topic.title);
      }
    }
  }

  // Adds the signature of a word that a setting accepts, such as `knn(...)` of `active_classes`. The signature is at
  // the beginning of the setting's page.
  void add_choice() {
    const std::string path = setting_path(analysis_, offset_);
    const auto topics = path.empty() ? std::vector<lang::Topic>() : lang::find_topics(path, context_.topics);
    for (const lang::Topic& topic : topics) {
      const std::string_view line = std::string_view(topic.page).substr(0, topic.page.find('\n'));
      const std::string word = fmt::format(" {}(", call_.name);
      if (const size_t at = line.find(word); at != std::string_view::npos) {
        add(std::string(call_.name), std::string(in_brackets(line.substr(at + word.size() - 1))), "");
      }
    }
  }

  void add(std::string name, std::string parameters, std::string doc) {
    if (!parameters.empty()) {
      found_.push_back({.label = name + parameters, .text = std::move(parameters), .doc = std::move(doc)});
    }
  }

  // The index of the parameter that is being written. If there are too many arguments, the number of parameters.
  size_t active_of(const Signature& signature) const {
    const auto parameters = parameters_of(signature.text);
    if (!call_.argument.empty()) {
      const auto named = std::ranges::find_if(parameters, [&](std::string_view parameter) {
        return parameter.substr(0, parameter.find_first_of(":= ")) == call_.argument;
      });
      return static_cast<size_t>(named - parameters.begin());
    }
    return call_.arguments + (call_.is_stage && takes_tensor(parameters) ? 1 : 0);
  }

  // Whether the first parameter is a tensor, or the operand of a function of numbers. Stages of data have neither.
  static bool takes_tensor(const std::vector<std::string_view>& parameters) {
    if (parameters.empty()) {
      return false;
    }
    const bool has_type = parameters[0].find(':') != std::string_view::npos;
    return parameters[0].find('[') != std::string_view::npos || !has_type;
  }

  const Context& context_;
  const Analysis& analysis_;
  const std::vector<Token>& tokens_;
  uint32_t offset_;
  Call call_;
  std::vector<Signature> found_;
};

}  // namespace

Json signature_help(const Context& context, const Json& params) {
  return Finder(context, context.offset(params)).answer();
}

}  // namespace xrun::lsp
