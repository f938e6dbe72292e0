// Patterns of names: what they match and capture, and the paths that targets give.
#include "runtime/interchange/names/name_pattern.h"

#include <gtest/gtest.h>

#include "graph/base/tensor_name.h"
#include "runtime/interchange/names/name_words.h"

namespace xrun::runtime {
namespace {

NamePattern pattern_of(std::string_view word) {
  NamePattern pattern;
  const WordFault fault = parse_pattern(word, true, pattern);
  EXPECT_EQ(fault.message, "") << word;
  return pattern;
}

// Matches a name and fills a target; "no match" or "no number" if that fails, and the rest of the name after " + ".
std::string apply(std::string_view from, std::string_view to, std::string_view name) {
  NameTarget target;
  EXPECT_EQ(parse_target(to, target).message, "") << to;
  Captures captures;
  const auto parts = parts_of_name(name);
  const auto matched = match(pattern_of(from), parts, captures);
  if (!matched) {
    return "no match";
  }
  std::string path = fill(target, captures).value_or("no number");
  for (size_t i = *matched; i < parts.size(); ++i) {
    path += " + " + std::string(parts[i]);
  }
  return path;
}

TEST(NamePattern, MatchesTheFirstPartsOfAName) {
  EXPECT_EQ(apply("conv1", "stem", "conv1.weight"), "stem + weight");
  EXPECT_EQ(apply("conv1", "stem", "conv1"), "stem");
  EXPECT_EQ(apply("conv1", "stem", "conv10.weight"), "no match");
  EXPECT_EQ(apply("conv1.weight", "stem.weight", "conv1"), "no match");
  EXPECT_EQ(apply("a.b", "c", "x.a.b"), "no match");
  EXPECT_EQ(apply("*.b", "c", "x.a.b.d"), "c + d");
}

TEST(NamePattern, CapturesPartsAndPutsThemIntoTheTarget) {
  EXPECT_EQ(apply("layer{s}.{i}.conv", "l{s}.{i}", "layer3.12.conv.weight"), "l3.12 + weight");
  EXPECT_EQ(apply("layer{s}", "l{s}", "layer"), "no match") << "a capture is not empty";
  EXPECT_EQ(apply("a{x}b", "{x}", "ab"), "no match");
  EXPECT_EQ(apply("a{x}b", "{x}", "a7b"), "7");
  EXPECT_EQ(apply("{a}.{a}", "{a}", "x.x.y"), "x + y");
  EXPECT_EQ(apply("{a}.{a}", "{a}", "x.y.y"), "no match") << "both places have the same text";
}

TEST(NamePattern, ComputesWithNumbersThatAreNotNegative) {
  EXPECT_EQ(apply("l.{i}", "l.{i - 1}", "l.1"), "l.0");
  EXPECT_EQ(apply("l.{i}", "l.{i+2}", "l.40"), "l.42");
  for (const char* name : {"l.0", "l.x", "l.01", "l.-1", "l.1x", "l.1234567890"}) {
    EXPECT_EQ(apply("l.{i}", "l.{i - 1}", name), "no number") << name;
  }
  EXPECT_EQ(apply("l.{i}", "l.{i + 1}", "l.999999999"), "l.1000000000");
}

TEST(NamePattern, IsPrintedAsItIsWritten) {
  for (const char* word : {"a.b{x}c.{y}", "*.num_batches_tracked", "{part}"}) {
    EXPECT_EQ(to_text(pattern_of(word)), word);
  }
  for (const char* word : {"a.{i - 1}.b{s}", "<classes>", "<classes>.weight", "l{k + 1}"}) {
    NameTarget target;
    EXPECT_EQ(parse_target(word, target).message, "");
    EXPECT_EQ(to_text(target), word);
  }
}

}  // namespace
}  // namespace xrun::runtime
