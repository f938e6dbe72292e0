// Answers about texts of megabytes: their size is bounded, and one long line costs no more than many short lines.
#include <chrono>
#include <gmock/gmock.h>

#include "tests/lsp/client.h"
#include "tests/support/sanitized.h"

namespace xrun::lsp {
namespace {

constexpr size_t kBytes = (size_t{4} << 20) - 4096;  // just below the limit of 4 MiB for a file
constexpr size_t kMost = 20'000;

// Returns "xgraph 1" and then lines with increasing numbers, about 4 MiB in all.
std::string text_of(const std::string& head, const std::string& before, const std::string& after,
                    const std::string& tail) {
  std::string text = "xgraph 1\n\n" + head;
  for (int i = 0; text.size() < kBytes; ++i) {
    text += before + std::to_string(i) + after;
  }
  return text + tail;
}

class LargeText : public ::testing::Test {
 protected:
  void open(const std::string& text) {
    client_.open(text);
    client_.diagnostics();  // waits for the check, whose time is not measured
  }
  Json ask(const std::string& method, Json more = Json::object()) {
    more["textDocument"] = {{"uri", kUri}};
    const auto start = std::chrono::steady_clock::now();
    Json answer = client_.result(("textDocument/" + method).c_str(), std::move(more));
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return answer;
  }
  TestClient client_;
  double seconds_ = 0;
};

size_t symbols_in(const Json& list) {
  size_t count = list.size();
  for (const Json& one : list) {
    count += one.contains("children") ? symbols_in(one["children"]) : 0;
  }
  return count;
}

TEST_F(LargeText, SymbolsAreBoundedAndTheLastOneCountsTheOthers) {
  for (const auto& [head, before, after, tail] :
       {std::array<std::string, 4>{"", "let a_longer_name_", " = 1\n", ""},
        {"train t {\n", "  a_longer_name_", " = 1\n", "}\n"},
        {"model m {\n  input x: f32[N, 4]\n", "  a_longer_name_", " = relu(x)\n", "  output x\n}\n"}}) {
    const std::string text = text_of(head, before, after, tail);
    open(text);
    const Json symbols = ask("documentSymbol");
    EXPECT_LE(symbols_in(symbols), kMost + 1) << before;
    ASSERT_GE(symbols_in(symbols), kMost) << before;
    EXPECT_THAT(symbols.back()["name"].get<std::string>(), ::testing::MatchesRegex("\\.\\.\\. [0-9]+ more")) << before;
    EXPECT_LT(symbols.dump().size(), size_t{16} << 20) << before;
    EXPECT_LT(seconds_, testing::kSanitized ? 60 : 5) << before;
  }
}

TEST_F(LargeText, FoldsAndHintsAreBounded) {
  open(text_of("model m {\n  input x: f32[N, 4]\n", "  a", " = relu(\n    x\n  )\n", "  output x\n}\n"));
  EXPECT_EQ(ask("foldingRange").size(), kMost);
  const Json all{{"start", {{"line", 0}, {"character", 0}}}, {"end", {{"line", 1'000'000}, {"character", 0}}}};
  EXPECT_LE(ask("inlayHint", {{"range", all}}).size(), kMost);
}

TEST_F(LargeText, ACompletionThatLeavesNamesOutIsMarkedIncomplete) {
  open(text_of("", "let a_longer_name_", " = 1\n", ""));
  const Json answer = ask("completion", {{"position", {{"line", 2}, {"character", 23}}}});
  EXPECT_EQ(answer["items"].size(), kMost);
  EXPECT_EQ(answer["isIncomplete"], true);
}

TEST_F(LargeText, ALineOfFourMegabytesIsColouredInThirtySeconds) {
  open(text_of("let a = [", "b", ", ", "1]\n"));
  const Json tokens = ask("semanticTokens/full");
  EXPECT_GT(tokens["data"].size(), size_t{1'000'000});
  EXPECT_LT(seconds_, 30);
}

TEST(LineMap, ColumnsOfALongLineAreThoseOfAShortOne) {
  std::string text = "first\n";
  for (int i = 0; i < 3000; ++i) {
    text += "a\u00e9\U0001F600\u4e2d";  // 5 code units in 10 bytes
  }
  const LineMap lines(text);
  for (const uint32_t times : {0u, 1u, 102u, 103u, 1024u, 2999u, 3000u}) {
    EXPECT_EQ(lines.column(6 + 10 * times), 5 * times);
    EXPECT_EQ(lines.offset(lines.position(6 + 10 * times)), 6 + 10 * times);
  }
}

}  // namespace
}  // namespace xrun::lsp
