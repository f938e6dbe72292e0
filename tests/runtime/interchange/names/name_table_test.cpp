// The language of name tables: what its lines mean, the messages for faults, and the tables of the program.
#include "runtime/interchange/names/name_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/interchange/names/name_tables.h"
#include "tests/support/golden.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  SourceMap sources;
  Diagnostics diagnostics;
  std::optional<NameTable> table;

  explicit Parsed(std::string text) {
    const int32_t file = sources.add("t.names", std::move(text));
    table = table_of_user(sources, file, diagnostics);
  }
  std::string faults() const {
    std::string all;
    for (const Diagnostic& diagnostic : diagnostics.all()) {
      all += render(diagnostic, sources);
    }
    return all;
  }
};

std::vector<std::string> rules_of(const NameTable& table) {
  std::vector<std::string> texts;
  for (const NameRule& rule : table.rules) {
    std::string text;
    for (const NamePattern& from : rule.from) {
      text += (text.empty() ? "" : ", ") + to_text(from);
    }
    text += " ->";
    for (const NameTarget& to : rule.to) {
      text += (text.ends_with(">") ? " " : ", ") + to_text(to);
    }
    constexpr const char* kHow[] = {"", " transposed", " reshaped", " by rank"};
    texts.push_back(text + kHow[static_cast<size_t>(rule.how)]);
  }
  return texts;
}

TEST(NameTable, LinesAreReadInOrder) {
  const Parsed parsed(R"(# A comment before the heading.
names 1

title "mine"   # and one after a line
note  "first"
drop  module, model
ignore *.num_batches_tracked
ignore step
a.b      -> c
"x y/z:0" -> d
w.q, w.k,
w.v      -> w.qkv
f        -> f.a, f.b
kernel   -> weight transposed
patch    -> patch reshaped
fc       -> <classes> by rank
)");
  ASSERT_TRUE(parsed.table) << parsed.faults();
  EXPECT_EQ(parsed.table->title, "mine");
  EXPECT_THAT(parsed.table->notes, ElementsAre("first"));
  EXPECT_THAT(parsed.table->drop, ElementsAre("module", "model"));
  ASSERT_EQ(parsed.table->ignored.size(), 2U);
  EXPECT_EQ(to_text(parsed.table->ignored[0]), "*.num_batches_tracked");
  EXPECT_THAT(rules_of(*parsed.table),
              ElementsAre("a.b -> c", "x y/z:0 -> d", "w.q, w.k, w.v -> w.qkv", "f -> f.a, f.b",
                          "kernel -> weight transposed", "patch -> patch reshaped", "fc -> <classes> by rank"));
}

TEST(NameTable, WithinStandsForItsLinesUnderEachPair) {
  const Parsed parsed(R"(names 1
within layer{s}.0   -> l{s}.unit
    or layer{s}.{i} -> l{s}.repeat.{i - 1}.unit {
  conv1 -> conv
  within sub.{j} -> s.{j + 1} { a, b -> c }
  ignore step
}
)");
  ASSERT_TRUE(parsed.table) << parsed.faults();
  EXPECT_THAT(rules_of(*parsed.table),
              ElementsAre("layer{s}.0.conv1 -> l{s}.unit.conv", "layer{s}.{i}.conv1 -> l{s}.repeat.{i - 1}.unit.conv",
                          "layer{s}.0.sub.{j}.a, layer{s}.0.sub.{j}.b -> l{s}.unit.s.{j + 1}.c",
                          "layer{s}.{i}.sub.{j}.a, layer{s}.{i}.sub.{j}.b -> l{s}.repeat.{i - 1}.unit.s.{j + 1}.c"));
  ASSERT_EQ(parsed.table->ignored.size(), 2U);
  EXPECT_EQ(to_text(parsed.table->ignored[1]), "layer{s}.{i}.step");
}

TEST(NameTable, LikeAppendsTheLinesOfATableOfXrun) {
  const Parsed parsed("names 1\nlike timm_vit\nproj -> embed\n");
  ASSERT_TRUE(parsed.table) << parsed.faults();
  const auto rules = rules_of(*parsed.table);
  EXPECT_EQ(rules[0], "proj -> embed");
  EXPECT_THAT(rules, ::testing::Contains("blocks.{i}.attn.qkv -> blocks.{i}.encoder.attention.qkv"));
  EXPECT_THAT(parsed.table->drop, ::testing::Contains("module"));
}

TEST(NameTable, FaultsHaveTheirPlaceTheirCauseAndAFix) {
  const struct {
    const char* text;
    const char* place;
    const char* message;
    const char* help;
  } cases[] = {
      {"a -> b\n", "t.names:1:1", "a name table begins with `names 1`", "write `names 1` in the first line"},
      {"", "t.names:1:1", "a name table begins with `names 1`", ""},
      {"names 2\n", "t.names:1:7", "an unknown version", "write `names 1`"},
      {"names 1\na b -> c\n", "t.names:2:3", "a line without an arrow", "NAME IN THE FILE -> NAME IN THE MODEL"},
      {"names 1\na -> b c\n", "t.names:2:8", "words that do not belong to this line", "begin a new line"},
      {"names 1\na ->\n", "t.names:2:5", "a path in the model is missing", ""},
      {"names 1\n-> a\n", "t.names:2:1", "a pattern of names is missing", ""},
      {"names 1\na.{i} -> b.{j}\n", "t.names:2:1", "`{j}` is not captured by `a.{i}`", "write {j} in the pattern"},
      {"names 1\n{a}_{b} -> c\n", "t.names:2:1", "captures twice between two dots", "one part of a name"},
      {"names 1\na.{i - 1} -> b\n", "t.names:2:1", "has a sum before the arrow", "add to it after the arrow"},
      {"names 1\na.{i} -> b.{i * 2}\n", "t.names:2:10", "has braces without a capture", "write {name}"},
      {"names 1\na.{i\n", "t.names:2:3", "a capture that does not end", "write captures as {name}"},
      {"names 1\na..b -> c\n", "t.names:2:1", "has an empty part", ""},
      {"names 1\na.*.b -> c\n", "t.names:2:1", "has a `*`", "capture a part as {name}"},
      {"names 1\n*.b -> c\n", "t.names:2:1", "begins with `*.`", "only `ignore`"},
      {"names 1\na -> b..c\n", "t.names:2:6", "is not a path of a model", "as `xrun show` prints it"},
      {"names 1\na -> <classes>x\n", "t.names:2:6", "has no dot after `<classes>`", "write <classes>"},
      {"names 1\na, b -> c, d\n", "t.names:2:1", "joins and divides at once", "join several tensors to one"},
      {"names 1\na -> b, c transposed\n", "t.names:2:1", "need one name on each side", "leave the word out"},
      {"names 1\na -> b by\n", "t.names:2:10", "`by` without `rank`", "write `by rank`"},
      {"names 1\ntitle mine\n", "t.names:2:7", "`title` needs a text in quotes", "write title \"...\""},
      {"names 1\ntitle \"mine\n", "t.names:2:7", "a text that does not end", ""},
      {"names 1\nlike nothing\n", "t.names:1:1", "there is no name table `nothing`", "timm_vit"},
      {"names 1\ndrop -> a\ndrop ,\n", "t.names:3:6", "`drop` needs the first parts of names", ""},
      {"names 1\nwithin a -> b {\n  c -> d\n", "t.names:2:8", "a `within` that does not end", "close it with }"},
      {"names 1\nwithin a -> b\nc -> d\n", "t.names:3:1", "`within` needs its lines in braces", ""},
      {"names 1\nwithin a -> b { title \"x\" }\n", "t.names:2:17", "`title` inside `within`", "out of the braces"},
      {"names 1\nwithin a -> b { c -> <classes> }\n", "t.names:2:17", "`<classes>` inside `within`", ""},
      {"names 1\nwithin a -> b { ignore *.c }\n", "t.names:2:24", "`*.` inside `within`", ""},
      {"names 1\nwithin a -> <classes> { c -> d }\n", "t.names:2:8", "`within` with the target `<classes>`", ""},
      {"names 1\n}\n", "t.names:2:1", "a brace that closes nothing", "remove it"},
      {"names 1\na\x01 -> b\n", "t.names:2:2", "a character that is not text", "plain text"},
  };
  for (const auto& one : cases) {
    const Parsed parsed(one.text);
    EXPECT_FALSE(parsed.table) << one.text;
    ASSERT_GE(parsed.diagnostics.all().size(), 1U) << one.text;
    const Diagnostic& first = parsed.diagnostics.all()[0];
    EXPECT_EQ(first.code, "XG0940");
    EXPECT_EQ(parsed.sources.place(first.primary.span), one.place) << one.text << parsed.faults();
    EXPECT_THAT(first.message, HasSubstr(one.message)) << one.text;
    ASSERT_FALSE(first.fixes.empty()) << one.text;
    EXPECT_THAT(first.fixes[0].title, HasSubstr(one.help)) << one.text;
  }
}

TEST(NameTable, OneRunReportsTheFaultsOfAllLines) {
  const Parsed parsed("names 1\na b\nc -> d\n{x} -> {y}\nwithin e f {\n  g -> h\n}\ni -> j\nk l\n");
  std::vector<int> lines;
  for (const Diagnostic& diagnostic : parsed.diagnostics.all()) {
    lines.push_back(parsed.sources.position(diagnostic.primary.span.file, diagnostic.primary.span.begin).line);
  }
  EXPECT_THAT(lines, ElementsAre(2, 4, 5, 9)) << parsed.faults();
}

TEST(NameTable, LongTextsAreRefusedWithoutMuchWork) {
  std::string deep = "names 1\n";
  for (int i = 0; i < 200; ++i) {
    deep += "within a{x} -> b or c -> d {\n";
  }
  EXPECT_FALSE(Parsed(deep).table);
  std::string wide = "names 1\n";
  for (size_t i = 0; i <= kMostTableRules; ++i) {
    wide += "a -> b\n";
  }
  EXPECT_THAT(Parsed(wide).faults(), HasSubstr("too many lines"));
  std::string ignored = "names 1\n";
  for (size_t i = 0; i <= kMostTableRules; ++i) {
    ignored += "ignore a\n";
  }
  EXPECT_THAT(Parsed(ignored).faults(), HasSubstr("too many lines"));
  std::string pairs = "names 1\nwithin a -> b\n";
  for (int i = 0; i < 10'000; ++i) {
    pairs += "or a -> b\n";
  }
  pairs += "{\n";
  EXPECT_THAT(Parsed(pairs + "ignore c\nignore d\nignore e\nignore f\n}\n").faults(), HasSubstr("too many lines"));
  const std::string names = pairs + std::string(100'000, 'c');
  EXPECT_THAT(Parsed(names + " -> d\n}\n").faults(), HasSubstr("too many names after `within` was expanded"));
  EXPECT_THAT(Parsed(pairs + "ignore " + std::string(100'000, 'c') + "\n}\n").faults(), HasSubstr("too many names"));
  EXPECT_THAT(Parsed("names 1\n" + std::string(kMostTableBytes, '\n')).faults(), HasSubstr("more than 1 MiB"));
}

TEST(NameTables, AreSoundAndHaveAPage) {
  std::string page = R"(# Name tables

<!-- This page is made from the tables in runtime/interchange/names/tables/ by a test. -->

`xrun import` finds the places of tensors by these tables, which are part of the program. The page
of the command describes their language (`docs/reference/command/import.md`, "Name tables"). A table
of your own can begin with one of them: `like timm_vit`.
)";
  ASSERT_GE(name_texts().size(), 8U);
  for (const NameText& one : name_texts()) {
    const NameTable table = known_table(one.name);
    EXPECT_NE(table.title, one.name) << "a table without a title";
    EXPECT_FALSE(table.rules.empty()) << one.name;
    EXPECT_EQ(table.matches_all(), one.name == "xrun");
    page += fmt::format("\n## `{}`: {}\n\n```\n{}```\n", one.name, table.title, one.text);
  }
  EXPECT_TRUE(test::matches_golden(page, "../../docs/reference/name_tables.md"));
}

}  // namespace
}  // namespace xrun::runtime
