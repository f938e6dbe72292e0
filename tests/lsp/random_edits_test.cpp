// Applies random edits to real models, from a seed that is printed. The server's text must stay equal to the client's,
// ranges in answers must lie within it, and the server's memory must not grow. XRUN_LSP_EDITS and XRUN_LSP_SEED set the
// number of edits and the seed.
#include <cstdlib>
#include <fstream>
#include <random>

#include "tests/lsp/client.h"
#include "tests/support/golden.h"
#include "tests/support/sanitized.h"

namespace xrun::lsp {
namespace {

int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  in >> total >> resident;
  return resident * 4096;
}

// The client's copy of the text: UTF-16 in lines, edited without any code of the server.
std::u16string widened(std::string_view text) {
  std::u16string wide;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    uint32_t code = more == 0 ? lead : lead & (0x3F >> more);
    for (int k = 1; k <= more; ++k) {
      code = code << 6 | (static_cast<unsigned char>(text[i + static_cast<size_t>(k)]) & 0x3F);
    }
    if (code >= 0x10000) {
      wide.push_back(static_cast<char16_t>(0xD800 + ((code - 0x10000) >> 10)));
      wide.push_back(static_cast<char16_t>(0xDC00 + (code & 0x3FF)));
    } else {
      wide.push_back(static_cast<char16_t>(code));
    }
    i += static_cast<size_t>(more) + 1;
  }
  return wide;
}

std::string narrowed(const std::u16string& wide) {
  constexpr uint32_t kLeads[] = {0, 0xC0, 0xE0, 0xF0};
  std::string text;
  for (size_t i = 0; i < wide.size(); ++i) {
    uint32_t code = wide[i];
    if (code >= 0xD800 && code < 0xDC00 && i + 1 < wide.size()) {
      code = 0x10000 + ((code & 0x3FF) << 10) + (wide[++i] & 0x3FF);
    }
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    text.push_back(static_cast<char>(kLeads[more] | code >> (6 * more)));
    for (int k = more - 1; k >= 0; --k) {
      text.push_back(static_cast<char>(0x80 | (code >> (6 * k) & 0x3F)));
    }
  }
  return text;
}

class Editor {
 public:
  Editor(std::string text, uint64_t seed) : text_(widened(text)), random_(seed) { client_.open(text); }

  std::string text() const { return narrowed(text_); }
  TestClient& client() { return client_; }
  size_t below(size_t end) { return end == 0 ? 0 : random_() % end; }

  Json position(size_t at) const {
    const auto begin = text_.begin();
    const auto end = begin + static_cast<std::ptrdiff_t>(at);
    const auto line = std::count(begin, end, u'\n');
    const size_t start = line == 0 ? 0 : text_.rfind(u'\n', at - 1) + 1;
    return {{"line", line}, {"character", at - start}};
  }

  // Returns a random place that is not within a surrogate pair.
  size_t place() {
    const size_t at = below(text_.size() + 1);
    return at < text_.size() && text_[at] >= 0xDC00 && text_[at] < 0xE000 ? at - 1 : at;
  }

  void edit() {
    static const std::string kPieces[] = {"x",
                                          "->",
                                          " -> conv(64, 3)",
                                          "{",
                                          "}",
                                          "(",
                                          ")",
                                          "\n",
                                          "\n  y = x -> relu\n",
                                          "\"",
                                          "#",
                                          "\u4e2d",
                                          "\U0001F600",
                                          "1_000",
                                          "= ",
                                          "block b(x: [N, D]) { return x }\n",
                                          ".",
                                          "as a",
                                          "repeat 3 { ",
                                          "[",
                                          "from \"std/vision\" use basic\n",
                                          "let a = 2 ^ 9\n",
                                          "\t",
                                          "N, "};
    Json changes = Json::array();
    for (size_t count = below(8) == 0 ? 3 : 1; count > 0; --count) {
      size_t begin = place();
      size_t end = below(2) == 0 ? begin : begin + below(below(20) == 0 ? 400 : 6);
      end = std::min(end, text_.size());
      while (end < text_.size() && text_[end] >= 0xDC00 && text_[end] < 0xE000) {
        ++end;
      }
      const std::string put = below(3) == 0 ? "" : kPieces[below(std::size(kPieces))];
      changes.push_back({{"range", {{"start", position(begin)}, {"end", position(end)}}}, {"text", put}});
      text_.replace(begin, end - begin, widened(put));
    }
    client_.notify("textDocument/didChange",
                   {{"textDocument", {{"uri", kUri}, {"version", ++version_}}}, {"contentChanges", changes}});
  }

  void replace(const std::string& text) {
    text_ = widened(text);
    client_.notify("textDocument/didChange", {{"textDocument", {{"uri", kUri}, {"version", ++version_}}},
                                              {"contentChanges", {{{"text", text}}}}});
  }

 private:
  std::u16string text_;
  std::mt19937_64 random_;
  TestClient client_;
  int version_ = 1;
};

// Expects that every range in an answer lies within the text, except ranges in other files.
void expect_places(const Json& json, const LineMap& lines) {
  if (json.is_object() && json.contains("uri") && json["uri"] != kUri) {
    return;
  }
  if (json.is_object() && json.contains("start") && json.contains("end")) {
    EXPECT_LE(lines.offset(json["start"]), lines.offset(json["end"])) << json;
    EXPECT_EQ(lines.position(lines.offset(json["end"])), json["end"]);
    return;
  }
  if (json.is_structured()) {
    for (const Json& inner : json) {
      expect_places(inner, lines);
    }
  }
}

void ask_something(Editor& editor) {
  static const char* const kMethods[] = {
      "hover",          "completion", "definition",   "references",          "documentHighlight",
      "documentSymbol", "inlayHint",  "foldingRange", "semanticTokens/full", "formatting",
      "codeAction",     "rename",     "prepareRename"};
  const std::string text = editor.text();
  const LineMap lines(text);
  const Json at = editor.position(editor.place());
  const std::string method = std::string("textDocument/") + kMethods[editor.below(std::size(kMethods))];
  const Json answer = editor.client().request(method.c_str(), {{"textDocument", {{"uri", kUri}}},
                                                               {"position", at},
                                                               {"range", {{"start", at}, {"end", at}}},
                                                               {"context", {{"diagnostics", Json::array()}}},
                                                               {"newName", "fresh"}});
  EXPECT_TRUE(answer.contains("result") || method.find("ename") != std::string::npos) << method << answer;
  const Json& result = answer.contains("result") ? answer["result"] : answer;
  SCOPED_TRACE(method + " at " + at.dump() + ": " + result.dump());
  expect_places(result, lines);
  if (method.ends_with("formatting") && !result.empty()) {
    editor.replace(changed(text, {{{"range", result[0]["range"]}, {"text", result[0]["newText"]}}}));
    EXPECT_EQ(editor.client().result("textDocument/formatting", {{"textDocument", {{"uri", kUri}}}}), Json::array())
        << "formatting changes what it made";
  }
}

TEST(RandomEdits, TextsStayEqualRangesValidAndMemoryBounded) {
  const char* wanted = std::getenv("XRUN_LSP_EDITS");
  const int edits = wanted == nullptr ? 2000 : std::atoi(wanted);
  const char* const given = std::getenv("XRUN_LSP_SEED");
  const uint64_t seed = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
  std::printf("seed %llu, %d edits\n", static_cast<unsigned long long>(seed), edits);
  std::fflush(stdout);  // the line would be lost in a crash
  const char* const models[] = {"models/digits.xgraph", "models/amoeba.xgraph", "models/resnet.xgraph",
                                "lang/std/vision.xgraph"};
  int64_t before = 0;
  Editor editor(test::read_source_file(models[0]), seed);
  for (int i = 0; i < edits && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", edit " + std::to_string(i));
    if (i % 40 == 0) {
      editor.replace(test::read_source_file(models[editor.below(std::size(models))]));
    }
    editor.edit();
    if (editor.below(2) == 0) {
      ask_something(editor);
    }
    if (i % 20 == 0) {
      // A fresh server that receives the whole text must give the same diagnostics.
      const Json here = editor.client().diagnostics();
      TestClient other;
      other.open(editor.text());
      EXPECT_EQ(here, other.diagnostics()) << editor.text();
    }
    editor.client().diagnostics();
    before = i == edits / 4 ? resident_bytes() : before;
  }
  const int64_t growth = resident_bytes() - before;
  std::printf("memory grew by %.1f MiB in the last three quarters\n", static_cast<double>(growth) / 1048576);
  if (!testing::kSanitized) {  // a sanitizer keeps freed memory
    EXPECT_LE(growth, int64_t{10} << 20);
  }
}

// Declarations that nothing calls and that refer to each other, also through imports.
const char* const kUncalled = R"(xgraph 1

from "std/vision" use basic
import "std/nets" as nets

option wide: int = 64
let half = wide // 2
let rate = 0.5

fn twice(n) = 2 * n
fn quarter(n: int) = twice(n) // 8
pointwise bent(x) = max(x, rate * x)

block unit(x: [N, C, H, W], width: int = 64, stride: int = 1) -> [N, width, ceil(H / stride), ceil(W / stride)] {
  y = x -> conv(width, 3, stride=stride) as a -> bn -> relu -> conv(width, 3) as b -> bn
  skip = x -> if C != width or stride != 1 { conv(width, 1, stride=stride) -> bn }
  return relu(y + skip)
}

block pair(x: [N, C, H, W]) {
  return x -> unit(half) -> unit(twice(half), stride=2) -> bent
}

block tail(x: [N, C, H, W], bias: bool) {
  return x -> pair -> basic(wide) -> global_avg_pool -> linear(quarter(wide), bias=bias)
}

block deep(x: [N, C, H, W]) {
  # as pair, three times
  return x -> repeat 3 { pair } -> tail(true)
}

model m {
  input image: f32[N, 3, 32, 32]
  feature = image -> deep
  output feature
}
)";

// The server keeps results of checks of uncalled code. They must be dropped when the text that they depend on changes.
// Most edits are reverted, so that the server keeps many results.
TEST(RandomEdits, GiveTheDiagnosticsOfAFreshServerForUncalledCode) {
  const char* const given = std::getenv("XRUN_LSP_SEED");
  const uint64_t seed = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
  const char* const wanted = std::getenv("XRUN_LSP_EDITS");
  const int edits = wanted == nullptr ? 200 : std::atoi(wanted) / 10;
  std::printf("seed %llu, %d edits\n", static_cast<unsigned long long>(seed), edits);
  const char* const kPut[] = {"q", "",     "",     "{",    "}",   "(",  "\n",      " ",
                              "2", "unit", "half", "pair", "0.5", "\"", "-> relu "};
  std::mt19937_64 random(seed);
  const auto below = [&](size_t end) { return random() % end; };
  TestClient client;
  std::string text = kUncalled;
  client.open(text);
  for (int i = 0; i < edits && !::testing::Test::HasFailure(); ++i) {
    const std::string before = i % 50 == 0 ? kUncalled : text;
    text = before;
    for (size_t count = 1 + below(2); count > 0; --count) {
      text.replace(below(text.size()), below(4) == 0 ? below(12) : below(2), kPut[below(std::size(kPut))]);
    }
    const auto expect_same = [&] {
      client.notify("textDocument/didChange",
                    {{"textDocument", {{"uri", kUri}, {"version", i}}}, {"contentChanges", {{{"text", text}}}}});
      TestClient fresh;
      fresh.open(text);
      EXPECT_EQ(client.diagnostics(), fresh.diagnostics()) << "seed " << seed << ", edit " << i << "\n" << text;
    };
    expect_same();
    if (below(4) != 0) {
      text = before;
      expect_same();
    }
  }
}

}  // namespace
}  // namespace xrun::lsp
