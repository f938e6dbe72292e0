#include "lang/syntax/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lang/syntax/expr_printer.h"
#include "lang/syntax/print_syntax.h"

namespace xrun::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Parsed {
  SourceMap sources;
  Diagnostics diagnostics;
  Ast ast;

  explicit Parsed(const std::string& text) {
    const int32_t file = sources.add("a.xgraph", text);
    ast = parse(sources, file, diagnostics);
  }

  // Returns "code line:column" for each diagnostic.
  std::vector<std::string> faults() const {
    std::vector<std::string> out;
    for (const Diagnostic& d : diagnostics.all()) {
      const Position at = sources.position(d.primary.span.file, d.primary.span.begin);
      out.push_back(d.code + " " + std::to_string(at.line) + ":" + std::to_string(at.column));
    }
    return out;
  }
};

// Returns a node of the tree as text with all its parentheses.
template <class Node>
std::string printed(const Ast& ast, Node node) {
  std::string out;
  ExprPrinter(ast, out).put(node);
  return out;
}

// Parses an expression and returns it with all its parentheses.
std::string grouped(const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add("value", text);
  const Ast ast = parse_value(sources, file, diagnostics);
  EXPECT_THAT(diagnostics.all(), IsEmpty()) << text << ": " << diagnostics.all()[0].message;
  return printed(ast, ast.value);
}

std::vector<std::string> value_faults(const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add("value", text);
  const Ast ast = parse_value(sources, file, diagnostics);
  std::vector<std::string> out;
  for (const Diagnostic& d : diagnostics.all()) {
    out.push_back(d.code + "@" + std::string(sources.text(d.primary.span)));
  }
  return out;
}

TEST(ParseFile, SettingsMayShareALine) {
  const Parsed lines(
      "xgraph 1\n\ntrain t {\n  groups {\n    id {\n      weights = bf16\n      untouched = exact\n    }\n"
      "  }\n  lr = 0.1\n  epochs = 2\n}\n");
  const Parsed one(
      "xgraph 1\n\ntrain t { groups { id { weights = bf16   untouched = exact } } lr = 0.1 epochs = 2 }\n");
  EXPECT_THAT(one.faults(), ElementsAre());
  EXPECT_EQ(print_ast(one.ast), print_ast(lines.ast));
  // The name is not followed by `=`, so either a newline is missing or the name does not belong there.
  EXPECT_THAT(Parsed("xgraph 1\n\ntrain t {\n  lr = 0.1 batch\n}\n").faults(), ElementsAre("XG0110 4:12"));
  EXPECT_THAT(Parsed("xgraph 1\n\ntrain t {\n  lr = 0.1 0.2\n}\n").faults(), ElementsAre("XG0110 4:12"));
  // Each statement of a model has its own line.
  EXPECT_THAT(Parsed("xgraph 1\n\nmodel m {\n  a = 1 b = 2\n}\n").faults(), ElementsAre("XG0110 4:9"));
}

TEST(ParseFile, ImportOfAnotherLanguageIsReadAsUse) {
  const Parsed parsed("xgraph 1\n\nfrom \"std/nets\" import resnet50, resnet18\nlet a = 1\n");
  EXPECT_THAT(parsed.faults(), ElementsAre("XG0110 3:17"));
  const Diagnostic& d = parsed.diagnostics.all()[0];
  EXPECT_EQ(d.message, "expected `use` and names, found `import`");
  EXPECT_THAT(render(d, parsed.sources), HasSubstr("3 ~ from \"std/nets\" use resnet50, resnet18\n"));
  ASSERT_EQ(parsed.ast.decls.size(), 2U);
  EXPECT_EQ(parsed.ast[parsed.ast.decls[0].names].size(), 2U)
      << "the names are known: no second fault for each of them";
}

TEST(ParseExpr, OperatorsBindAsTheGrammarSays) {
  EXPECT_EQ(grouped("a + b * c - d"), "((a + (b * c)) - d)");
  EXPECT_EQ(grouped("a / b // c % d"), "(((a / b) // c) % d)");
  EXPECT_EQ(grouped("-a ^ -b ^ c"), "(-(a ^ (-(b ^ c))))");
  EXPECT_EQ(grouped("a or b and not c == d"), "(a or (b and (not (c == d))))");
  EXPECT_EQ(grouped("0 .. n + 1"), "(0 .. (n + 1))");
  EXPECT_EQ(grouped("x -> f -> g(1) as y"), "(x -> f -> g(1) as y)");
  EXPECT_EQ(grouped("f(a).b[0, 1](c)"), "f(a).b[0, 1](c)");
  EXPECT_EQ(grouped("(a)"), "a");
  EXPECT_EQ(grouped("(a,)"), "(a,)");
  EXPECT_EQ(grouped("(a, b)"), "(a, b)");
  EXPECT_EQ(grouped("[]"), "[]");
  EXPECT_EQ(grouped("[1, 2,]"), "[1, 2]");
  EXPECT_EQ(grouped("if a { b } else if c { d } else e"), "(if a { b } else { (if c { d } else { e }) })");
  EXPECT_EQ(grouped("if a {\n b -> f\n} else {\n c\n}"), "(if a { (b -> f) } else { c })");
  EXPECT_EQ(grouped("a < b and c != d"), "((a < b) and (c != d))");
  EXPECT_EQ(grouped("10% * 25Gbit/s + 20 epochs"), "((10% * 25Gbit/s) + 20 epochs)");
}

TEST(ParseExpr, AllFormsOfStagesAreParsed) {
  EXPECT_EQ(grouped("x -> repeat depth - 1 as i { f(i) -> g } as blocks"),
            "(x -> repeat (depth - 1) as i { f(i) -> g } as blocks)");
  EXPECT_EQ(grouped("x -> residual { f -> g }"), "(x -> residual { f -> g })");
  EXPECT_EQ(grouped("x -> fork {\n f,\n g -> h,\n}"), "(x -> fork { f, g -> h })");
  EXPECT_EQ(grouped("x -> if C != 4 * w or s { f } else { g }"), "(x -> if ((C != (4 * w)) or s) { f } else { g })");
  EXPECT_EQ(grouped("x -> net.f() -> net.g"), "(x -> net.f() -> net.g)");
}

TEST(ParseExpr, SpansCoverTheTextOfTheirExpressions) {
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add("value", "(a + b) * f(c, k=2)");
  const Ast ast = parse_value(sources, file, diagnostics);
  const Expr& product = ast[ast.value];
  EXPECT_EQ(sources.text(product.span), "(a + b) * f(c, k=2)");
  EXPECT_EQ(sources.text(product.name.span), "*");
  EXPECT_EQ(sources.text(ast[product.lhs].span), "(a + b)");
  EXPECT_EQ(sources.text(ast[product.rhs].span), "f(c, k=2)");
  const Arg& k = ast[ast[product.rhs].args][1];
  EXPECT_EQ(sources.text(k.span), "k=2");
  EXPECT_EQ(sources.text(k.name.span), "k");
}

TEST(ParseExpr, EachFaultIsNamedAndPlaced) {
  EXPECT_THAT(value_faults("a < b < c"), ElementsAre("XG0115@<"));
  EXPECT_THAT(value_faults("0..1..2"), ElementsAre("XG0115@.."));
  EXPECT_THAT(value_faults("f(a b)"), ElementsAre("XG0110@b"));
  EXPECT_THAT(value_faults("a +"), ElementsAre("XG0110@"));
  EXPECT_THAT(value_faults("f(a"), ElementsAre("XG0111@("));
  EXPECT_THAT(value_faults("if a { b }"), ElementsAre("XG0110@"));
  EXPECT_THAT(value_faults("1 + if a { b } else { c }"), ElementsAre("XG0110@if"));
  EXPECT_THAT(value_faults("repeat 3 { f }"), ElementsAre("XG0110@repeat"));
  EXPECT_THAT(value_faults("x -> 3"), ElementsAre("XG0110@3"));
  EXPECT_THAT(value_faults("x -> f as if"), ElementsAre("XG0113@if"));
  EXPECT_THAT(value_faults("f(as=3)"), ElementsAre("XG0113@as"));
  EXPECT_THAT(value_faults("x.5"), ElementsAre("XG0110@5"));
  EXPECT_THAT(value_faults("x -> residual { }"), ElementsAre("XG0110@}"));
  EXPECT_THAT(value_faults("x -> if a { f } else if b { g }"), ElementsAre("XG0110@if"));
  EXPECT_THAT(value_faults("()"), ElementsAre("XG0110@)"));
  EXPECT_THAT(value_faults("a $ b"), ElementsAre("XG0102@$"));
  EXPECT_THAT(value_faults("a b"), ElementsAre("XG0110@b"));
}

TEST(ParseParams, ReadsSignaturesOfOperators) {
  SourceMap sources;
  Diagnostics diagnostics;
  const std::string text =
      "(x: [N, C, H, W], width: int, k: int = 1, pad: int = k // 2, label: index(C)[N], rest: [N, ...], p)";
  const Ast ast = parse_params(sources, sources.add("conv", text), diagnostics);
  EXPECT_THAT(diagnostics.all(), IsEmpty());
  EXPECT_EQ(ast.params.count, 7U);
  EXPECT_EQ(printed(ast, ast.params),
            "(x: [N, C, H, W], width: int, k: int = 1, pad: int = (k // 2), label: index(C)[N], rest: [N, ...], p)");
  EXPECT_EQ(sources.text(ast[ast.params][3].span), "pad: int = k // 2");
  EXPECT_EQ(ast[ast[ast[ast.params][5].type.dims][1]].kind, ExprKind::kEllipsis);
}

TEST(ParseFile, WordsOfStatementsStayUsableAsNames) {
  const Parsed parsed(
      "xgraph 1\nmodel m {\n  input = x\n  head = input\n  source = head\n  state = source\n  return = state\n  output "
      "train, model\n}\ndata d {\n  source = 3\n  source train = f()\n  input = source -> from\n}\n");
  EXPECT_THAT(parsed.faults(), IsEmpty());
  const std::span<const Stmt> body = parsed.ast[parsed.ast.decls[0].body];
  ASSERT_EQ(body.size(), 6U);
  EXPECT_EQ(body[0].kind, StmtKind::kBind);
  EXPECT_EQ(body[5].kind, StmtKind::kOutput);
  const std::span<const Setting> settings = parsed.ast[parsed.ast.decls[1].settings];
  ASSERT_EQ(settings.size(), 3U);
  EXPECT_EQ(settings[0].kind, SettingKind::kValue);
  EXPECT_EQ(settings[1].kind, SettingKind::kSource);
}

TEST(ParseFile, DocumentationGoesToTheNextDeclarationOrTheFile) {
  const Parsed parsed(
      "xgraph 1\n\n## About the file.\n## Two lines.\n\n# not\n## About m.\nmodel m {\n  ## inside\n}\n\nlet x = 1\n");
  EXPECT_THAT(parsed.faults(), IsEmpty());
  EXPECT_EQ(parsed.ast.doc, "About the file.\nTwo lines.");
  EXPECT_EQ(parsed.ast.decls[0].doc, "About m.");
  EXPECT_EQ(parsed.ast.decls[1].doc, "");
}

TEST(ParseFile, TheEditionComesFirst) {
  EXPECT_THAT(Parsed("model m {\n}\n").faults(), ElementsAre("XG0112 1:1"));
  EXPECT_THAT(Parsed("").faults(), ElementsAre("XG0112 1:1"));
  EXPECT_THAT(Parsed("xgraph 2\nlet x = 1\n").faults(), ElementsAre("XG0112 1:1"));
  EXPECT_THAT(Parsed("xgraph\nlet x = 1\n").faults(), ElementsAre("XG0112 1:1"));
  EXPECT_THAT(Parsed("# c\nxgraph 1\n").faults(), IsEmpty());
  EXPECT_THAT(Parsed("xgraph 1 let x = 1\n").faults(), ElementsAre("XG0110 1:10"));
}

TEST(ParseFile, AllIndependentFaultsAreReportedAtOnce) {
  const Parsed parsed(R"(xgraph 1

modle a {
  x = )
}

block b(x: [N, C, width: int) {
  y = x -> -> f
  z = f(1, 2
  w = "abc
  return y
}

train t {
  batch 64
  lr = 0.1 0.2
  eval {
    every = epochs 1
    top1 = accuracy(x,, y)
  }
  loss = ce(a b)
}

let q = 5 foo
)");
  EXPECT_THAT(parsed.faults(), ElementsAre("XG0114 3:1", "XG0111 4:7", "XG0111 7:12", "XG0110 8:12", "XG0111 9:8",
                                           "XG0104 10:7", "XG0110 15:9", "XG0110 16:12", "XG0110 18:20", "XG0110 19:23",
                                           "XG0110 21:15", "XG0110 24:11"));
  // A name stays known even if its binding has a fault.
  const std::span<const Stmt> body = parsed.ast[parsed.ast.decls[1].body];
  ASSERT_EQ(body.size(), 4U);
  EXPECT_EQ(parsed.ast[body[0].names][0].text, "y");
  EXPECT_EQ(parsed.ast[body[0].value].kind, ExprKind::kError);
  EXPECT_TRUE(parsed.ast.decls[1].has_fault);
}

TEST(ParseFile, NothingIsDeclaredWithoutAName) {
  const Parsed parsed(
      "xgraph 1\nlet = 3\nblock (x: [N]) {\n}\nimport\nmodel m {\n  input : f32[N]\n  output 1\n  (a, 2) = x\n  head "
      "3\n"
      "}\nfn f(1, x) = x\nmoved \"a\"\n");
  EXPECT_THAT(parsed.faults(), ElementsAre("XG0110 2:5", "XG0110 3:7", "XG0110 5:7", "XG0110 7:9", "XG0110 8:10",
                                           "XG0110 9:7", "XG0110 10:8", "XG0110 12:6", "XG0110 13:10"));
  std::vector<DeclKind> kinds;
  for (const Decl& decl : parsed.ast.decls) {
    kinds.push_back(decl.kind);
    for (const Stmt& stmt : parsed.ast[decl.body]) {
      EXPECT_TRUE(stmt.kind == StmtKind::kError || stmt.kind == StmtKind::kOutput);
    }
    for (const Param& param : parsed.ast[decl.params]) {
      EXPECT_TRUE(param.name);
    }
  }
  EXPECT_THAT(kinds, ElementsAre(DeclKind::kError, DeclKind::kError, DeclKind::kError, DeclKind::kModel, DeclKind::kFn,
                                 DeclKind::kError));
}

TEST(ParseFile, AMissingBraceAffectsNoOtherDeclaration) {
  EXPECT_THAT(Parsed("xgraph 1\nmodel m {\n  x = f(1)\n\nmodel n {\n  y = \n}\n").faults(),
              ElementsAre("XG0111 2:9", "XG0110 7:1"));
  // The fault is reported for the brace that was closed by a `}` in column 1.
  EXPECT_THAT(Parsed("xgraph 1\ntrain t {\n  eval {\n    every = 1 epoch\n}\nmodel n {\n}\n").faults(),
              ElementsAre("XG0111 3:8"));
  EXPECT_THAT(Parsed("xgraph 1\nmodel m {").faults(), ElementsAre("XG0111 2:9"));
  EXPECT_THAT(Parsed("xgraph 1\nmodel m {\n}\n}\nlet x = 1\n").faults(), ElementsAre("XG0111 4:1"));
}

TEST(ParseFile, AnElseOnItsOwnLineIsReportedButStillParsed) {
  const Parsed parsed("xgraph 1\nlet x = if true { 1 }\nelse { 2 }\nlet y = 3\n");
  EXPECT_THAT(parsed.faults(), ElementsAre("XG0116 3:1"));
  EXPECT_EQ(parsed.ast.decls.size(), 2U);
  const Edit& edit = parsed.diagnostics.all()[0].fixes[0].edits[0];
  EXPECT_EQ(parsed.sources.text(edit.span), "\n");
}

TEST(ParseFile, NamesThatLookLikeDimensionsAreWarnedOf) {
  const Parsed parsed("xgraph 1\nlet Width = 1\nblock Basic(X: [N, C]) {\n  Y = X -> f as Z\n  return Y\n}\n");
  EXPECT_THAT(parsed.faults(), ElementsAre("XG0120 2:5", "XG0120 3:7", "XG0120 3:13", "XG0120 4:3", "XG0120 4:17"));
  EXPECT_FALSE(parsed.diagnostics.has_errors());
}

TEST(ParseFile, ASimilarWordIsProposed) {
  const Parsed parsed("xgraph 1\nmodle m {\n}\nthing m {\n}\n");
  ASSERT_EQ(parsed.diagnostics.all().size(), 2U);
  EXPECT_EQ(parsed.diagnostics.all()[0].fixes[0].title, "did you mean `model`?");
  EXPECT_THAT(parsed.diagnostics.all()[1].fixes[0].title, HasSubstr("declarations start with import"));
  EXPECT_THAT(parsed.diagnostics.all()[1].fixes[0].edits, IsEmpty());
}

TEST(ParseFile, ReadsEveryKindOfDeclaration) {
  const std::string text = R"(xgraph 1

import "a.xgraph" as a

from "b.xgraph" use c, d

option n: int = 1k in (2 .. 1M)

let e = 1

fn f(x: float, by: int = 8) = (x * by)

pointwise g(x, beta = 1.0) = (x * beta)

optimizer h(lr) {
  state m = 0
  weight = (weight - (lr * grad))
}

block i(x: [N, C], w: int) -> [N, w], [N, ceil((C / 2))] {
  param p: [C] = zeros()
  assert ((C % 2) == 0), "even"
  return (x, p)
}

model j(w: int = 4) {
  input x: f32[N, 3]
  head k = classifier(x, n)
  (y, _) = (x -> i(w))
  output y
}

data l {
  source train = csv("a.csv")
  x = (jpeg -> decode)
}

train m extends o {
  batch = 64
}

train extends o {
}

cluster p {
  node {
    gpu = v100_32g
  }
}

schedule q {
  shard k {
    over = all
  }
  pin {
    a.b = stage(1)
  }
}

run r {
  model = j
}

test "size" {
  expect (params(j) == 4)
}

moved "a.b" -> "a.c"
)";
  const Parsed parsed(text);
  EXPECT_THAT(parsed.faults(), IsEmpty());
  EXPECT_EQ(print_ast(parsed.ast), text);
}

}  // namespace
}  // namespace xrun::lang
