// Stages after `->`, and the pipes in braces inside them.
// Tests: tests/lang/syntax/parser_test.cpp
#include <algorithm>

#include "lang/syntax/parser_rules.h"

namespace xrun::lang {

// Reads stage { "->" stage }, and sets stage_height_ to the largest height of a stage.
Run<Stage> Parser::stages() {
  Gather<Stage> list(stacks_);
  int highest = 0;
  do {
    stage_height_ = 0;
    list.push(stage());
    highest = std::max(highest, stage_height_);
  } while (take(TokenKind::kArrow));
  stage_height_ = highest;
  return list.into(ast_);
}

Stage Parser::stage() {
  Stage stage;
  const Span start = here();
  int height = 0;
  Gather<Pipe> pipes(stacks_);
  const auto see = [&](int other) { height = std::max(height, other); };
  const auto read_value = [&](Rule rule) {
    stage.value = (this->*rule)();
    see(height_of(stage.value));
  };
  const auto read_fragment = [&] {
    pipes.push(fragment());
    see(stage_height_);
  };
  switch (lost_ || foreign_loop() ? TokenKind::kEnd : kind()) {
    case TokenKind::kName:
      stage.kind = StageKind::kCall;
      see(call_stage(stage));
      break;
    case TokenKind::kRepeat:
      advance();
      stage.kind = StageKind::kRepeat;
      read_value(&Parser::sum);
      if (take(TokenKind::kAs)) {
        stage.index = expect_new_name("a name for the index");
      }
      read_fragment();
      break;
    case TokenKind::kResidual:
      advance();
      stage.kind = StageKind::kResidual;
      read_fragment();
      break;
    case TokenKind::kFork:
      advance();
      stage.kind = StageKind::kFork;
      fork_pipes(pipes);
      see(stage_height_);
      break;
    case TokenKind::kIf:
      advance();
      stage.kind = StageKind::kIf;
      read_value(&Parser::disjunction);
      read_fragment();
      if (take_else()) {
        read_fragment();
      }
      break;
    default:
      if (!lost_) {
        expected("a stage", {"write what comes next: an operator, a block, or `repeat`, `residual`, `fork`, `if`"});
      }
      break;
  }
  stage.pipes = pipes.into(ast_);
  if (take(TokenKind::kAs)) {
    stage.label = expect_new_name("a name for the stage");
  }
  stage.span = from(start);
  // `height` is the largest height in the nested pipes; this stage is one level above them.
  stage_height_ = height + (stage.pipes.empty() ? 0 : 1);
  return stage;
}

// Reads the path and the arguments of a call stage. Returns the largest height of an argument.
int Parser::call_stage(Stage& stage) {
  int height = 0;
  stage.path = path("a name after the dot");
  if (!lost_ && at(TokenKind::kLeftParen)) {
    stage.has_args = true;
    stage.args = args();
    for (const Arg& arg : ast_[stage.args]) {
      height = std::max(height, height_of(arg.value));
    }
  }
  return height;
}

// Takes the `else` of an `if` stage, which has braces; returns whether there is one.
bool Parser::take_else() {
  else_on_its_own_line();
  if (!take(TokenKind::kElse)) {
    return false;
  }
  if (at(TokenKind::kIf)) {
    fault("XG0110", here(), "the `else` of a stage has braces", "no braces here", {"write else { if ... { ... } }"});
  }
  return true;
}

Pipe Parser::pipe() {
  Pipe pipe;
  const Span start = here();
  pipe.stages = stages();
  pipe.span = from(start);
  return pipe;
}

Pipe Parser::fragment() {
  stage_height_ = 0;
  const Nest nest(*this);
  const Token open = current();
  if (!nest.ok || !expect(TokenKind::kLeftBrace)) {
    return {};
  }
  skip_newlines();
  if (at(TokenKind::kRightBrace)) {
    expected("a stage between the braces", {"write what is done there: { relu }"});
    return {};
  }
  const Pipe inner = pipe();
  skip_newlines();
  expect_close(open, TokenKind::kRightBrace, "`->`");
  return inner;
}

// Reads "{" pipe { "," pipe } [ "," ] "}".
void Parser::fork_pipes(Gather<Pipe>& pipes) {
  stage_height_ = 0;
  const Nest nest(*this);
  const Token open = current();
  if (!nest.ok || !expect(TokenKind::kLeftBrace)) {
    return;
  }
  int highest = 0;
  do {
    skip_newlines();
    if (at(TokenKind::kRightBrace) && pipes.size() > 0) {
      break;
    }
    pipes.push(pipe());
    highest = std::max(highest, stage_height_);
    skip_newlines();
  } while (take(TokenKind::kComma));
  expect_close(open, TokenKind::kRightBrace, "`,`");
  stage_height_ = highest;
}

Run<Name> Parser::path(std::string_view what) {
  Gather<Name> names(stacks_);
  names.push(expect_name("a name"));
  while (take(TokenKind::kDot)) {
    names.push(expect_name(what));
  }
  return names.into(ast_);
}

}  // namespace xrun::lang
