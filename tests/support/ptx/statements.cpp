// The body of a kernel: registers, labels, statements with guard and operands, lines of the source.
// Tests: tests/ptx/parser_test.cpp
#include <fmt/format.h>

#include "tests/support/ptx/ptx_parser.h"

namespace xrun::ptx {

namespace {

constexpr uint64_t kMostRegisters = 1 << 16;
constexpr size_t kMostScopes = 4096;
constexpr int kDeepest = 32;  // blocks inside each other
constexpr size_t kMostShared = 256;
constexpr size_t kMostLocal = 256;
constexpr size_t kMostListed = 1 << 16;  // labels in all lists

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

class Body {
 public:
  Body(Cursor& at, std::string_view text, Kernel& kernel) : at_(at), text_(text), kernel_(kernel) {}

  Status parse() {
    XRUN_TRY(open());
    while (scope_ >= 0) {
      if (at_.peek().kind == TokenKind::kEnd) {
        return at_.error(fmt::format("the kernel `{}` is not closed", kernel_.name));
      }
      XRUN_TRY(item());
    }
    return {};
  }

 private:
  Status open() {
    if (kernel_.scopes.size() >= kMostScopes || depth_ >= kDeepest) {
      return at_.error("the kernel has more than 4096 blocks in braces, or more than 32 levels of them");
    }
    ++depth_;
    XRUN_TRY(at_.expect('{'));
    kernel_.scopes.push_back({scope_, {}});
    scope_ = static_cast<int>(kernel_.scopes.size()) - 1;
    return {};
  }

  Status item() {
    if (at_.at_sign('{')) {
      return open();
    }
    if (at_.accept('}')) {
      --depth_;
      scope_ = kernel_.scopes[static_cast<size_t>(scope_)].outer;
      return {};
    }
    if (at_.at_word(".reg")) {
      return registers();
    }
    if (at_.at_word(".shared")) {
      at_.take();
      XRUN_ASSIGN(auto variable, parse_variable(at_, Space::kShared, bytes_left_));
      kernel_.shared.push_back(std::move(variable));
      if (kernel_.shared.size() > kMostShared) {
        return at_.error("the kernel has more than 256 shared arrays");
      }
      return at_.expect(';');
    }
    if (at_.at_word(".local")) {
      at_.take();
      XRUN_ASSIGN(auto variable, parse_variable(at_, Space::kLocal, bytes_left_));
      kernel_.local.push_back(std::move(variable));
      if (kernel_.local.size() > kMostLocal) {
        return at_.error("the kernel has more than 256 local arrays");
      }
      return at_.expect(';');
    }
    if (at_.at_word(".loc")) {
      return location();
    }
    if (at_.at_word(".pragma")) {
      at_.take();
      while (!at_.at_sign(';') && at_.peek().kind != TokenKind::kEnd) {
        at_.take();
      }
      return at_.expect(';');
    }
    const bool label =
        at_.peek().kind == TokenKind::kWord && at_.peek(1).kind == TokenKind::kSign && at_.peek(1).text == ":";
    if (label) {
      const Token& name = at_.take();
      at_.take();
      if (!kernel_.labels.emplace(name.text, kernel_.statements.size()).second) {
        return text_error(name.line, fmt::format("the label `{}` is defined twice", name.text));
      }
      return at_.at_word(".branchtargets") ? label_list(name.text) : Status();
    }
    return statement();
  }

  // `NAME: .branchtargets A, B, C;`
  Status label_list(std::string_view name) {
    at_.take();
    std::vector<std::string_view>& list = kernel_.label_lists[name];
    do {
      XRUN_ASSIGN(const std::string_view label, at_.word("a label"));
      list.push_back(label);
      if (++listed_ > kMostListed) {
        return at_.error("the kernel has more than 65536 labels in lists");
      }
    } while (at_.accept(','));
    return at_.expect(';');
  }

  // `.reg .b32 %r<766>;` or `.reg .pred p, q;`
  Status registers() {
    at_.take();
    XRUN_ASSIGN(const std::string_view name, at_.word("the type of registers"));
    Type type;
    if (!name.starts_with('.') || !find_type(name.substr(1), type)) {
      return at_.error(fmt::format("the machine has no registers of type `{}`", name));
    }
    auto& declared = kernel_.scopes[static_cast<size_t>(scope_)].registers;
    do {
      XRUN_ASSIGN(const std::string_view reg, at_.word("the name of a register"));
      uint64_t count = 1;
      if (at_.accept('<')) {
        XRUN_ASSIGN(count, at_.number());
        XRUN_TRY(at_.expect('>'));
        declared.insert_or_assign(reg, Registers{type, count});
      } else {
        declared.insert_or_assign(reg, Registers{type, 0});
      }
      declared_ += count;
      if (count > kMostRegisters || declared_ > kMostRegisters) {
        return at_.error("the kernel has more than 65536 registers");
      }
    } while (at_.accept(','));
    return at_.expect(';');
  }

  // `.loc 1 27 0` or `.loc 1 27 0, function_name NAME, inlined_at 1 30 3`. The place of a function's text is kept, not
  // that of its call.
  Status location() {
    at_.take();
    XRUN_ASSIGN(const uint64_t file, at_.number());
    XRUN_ASSIGN(const uint64_t line, at_.number());
    XRUN_TRY(at_.number());
    source_file_ = static_cast<int>(std::min<uint64_t>(file, 1 << 20));
    source_line_ = static_cast<int>(std::min<uint64_t>(line, 1 << 24));
    while (at_.accept(',')) {
      XRUN_ASSIGN(const std::string_view part, at_.word("a part of `.loc`"));
      if (part == "inlined_at") {
        XRUN_TRY(at_.number());
        XRUN_TRY(at_.number());
        XRUN_TRY(at_.number());
      } else {
        XRUN_TRY(at_.word("a name"));
        if (at_.accept('+')) {
          XRUN_TRY(at_.number());
        }
      }
    }
    return {};
  }

  Status statement() {
    Statement made;
    made.line = at_.peek().line;
    const char* const begin = at_.peek().text.data();
    if (at_.accept('@')) {
      made.guard_negated = at_.accept('!');
      XRUN_ASSIGN(made.guard, at_.word("a predicate"));
    }
    if (at_.peek().text == "call" || at_.peek().text.starts_with("call.")) {
      return refused_call();
    }
    XRUN_ASSIGN(made.text, at_.word("an instruction"));
    made.words = split(made.text);
    made.source_file = source_file_;
    made.source_line = source_line_;
    made.scope = scope_;
    while (!at_.at_sign(';')) {
      XRUN_ASSIGN(auto parsed, operand(0));
      made.operands.push_back(std::move(parsed));
      if (!at_.accept(',')) {
        break;
      }
    }
    const char* const end = at_.peek().text.data();
    XRUN_TRY(at_.expect(';'));
    made.whole = text_.substr(static_cast<size_t>(begin - text_.data()), static_cast<size_t>(end - begin));
    kernel_.statements.push_back(std::move(made));
    return {};
  }

  // `call.uni (retval0), name, (param0);`
  Error refused_call() {
    const int line = at_.take().line;
    if (at_.accept('(')) {
      while (!at_.accept(')') && at_.peek().kind != TokenKind::kEnd) {
        at_.take();
      }
      at_.accept(',');
    }
    return text_error(
        line,
        fmt::format("the kernel calls the function `{}`, and the machine does not execute calls", at_.peek().text),
        "compile the function into its callers: `__forceinline__`, or `alwaysinline` in LLVM");
  }

  Result<Operand> operand(int depth) {
    Operand made;
    if (depth < 2 && at_.accept('{')) {
      made.kind = Operand::Kind::kVector;
      do {
        XRUN_ASSIGN(auto part, operand(depth + 1));
        made.parts.push_back(std::move(part));
      } while (at_.accept(','));
      XRUN_TRY(at_.expect('}'));
      return made;
    }
    if (at_.accept('[')) {
      made.kind = Operand::Kind::kMemory;
      if (at_.peek().kind == TokenKind::kWord) {
        made.name = at_.take().text;
      } else {
        XRUN_ASSIGN(made.bits, signed_number());
      }
      XRUN_TRY(offset(made));
      XRUN_TRY(at_.expect(']'));
      return made;
    }
    if (at_.at_sign('!') || at_.peek().kind == TokenKind::kWord) {
      made.negated = at_.accept('!');
      XRUN_ASSIGN(made.name, at_.word("an operand"));
      made.kind = made.name == "_" ? Operand::Kind::kSink : Operand::Kind::kName;
      XRUN_TRY(offset(made));
      if (depth == 0 && at_.accept('|')) {
        Operand second;
        second.kind = Operand::Kind::kName;
        XRUN_ASSIGN(second.name, at_.word("a predicate"));
        second.kind = second.name == "_" ? Operand::Kind::kSink : Operand::Kind::kName;
        Operand pair;
        pair.kind = Operand::Kind::kPair;
        pair.parts = {std::move(made), std::move(second)};
        return pair;
      }
      return made;
    }
    if (at_.peek().kind == TokenKind::kFloat) {
      const Token& token = at_.take();
      made.kind = Operand::Kind::kFloat;
      made.bits = token.bits;
      made.float_bits = token.float_bits;
      return made;
    }
    made.kind = Operand::Kind::kInteger;
    XRUN_ASSIGN(made.bits, signed_number());
    return made;
  }

  Result<uint64_t> signed_number() {
    const bool negative = at_.accept('-');
    XRUN_ASSIGN(const uint64_t value, at_.number());
    return negative ? uint64_t{0} - value : value;
  }

  // `+16`, `+-16` or nothing.
  Status offset(Operand& made) {
    if (at_.accept('+')) {
      XRUN_ASSIGN(const uint64_t value, signed_number());
      made.bits += value;
    } else if (at_.at_sign('-')) {
      XRUN_ASSIGN(const uint64_t value, signed_number());
      made.bits += value;
    }
    return {};
  }

  Cursor& at_;
  std::string_view text_;
  Kernel& kernel_;
  int scope_ = -1;
  int depth_ = 0;
  uint64_t declared_ = 0;
  size_t listed_ = 0;
  uint64_t bytes_left_ = uint64_t{1} << 20;
  int source_file_ = 0;
  int source_line_ = 0;
};

}  // namespace

Status parse_body(Cursor& at, std::string_view text, Kernel& kernel) { return Body(at, text, kernel).parse(); }

}  // namespace xrun::ptx
