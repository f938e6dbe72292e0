// Mistakes of clients: each is answered with a JSON-RPC error or ignored, and the server continues.
#include "runtime/lsp/json_rpc.h"
#include "tests/lsp/client.h"

namespace xrun::lsp {
namespace {

int code_of(const Json& message) {
  return message.is_object() && message.contains("error") ? message["error"]["code"].get<int>() : 0;
}

// Returns whether the server still answers a request.
bool answers(TestClient& client) {
  return code_of(client.request("no/such", Json::object())) == static_cast<int>(Code::kMethodNotFound);
}

TEST(Frames, AreFoundInPiecesOfAnySize) {
  const std::string stream =
      frame({{"a", 1}}) + "content-length:   2\r\nContent-Type: x\r\n\r\n[]" + frame({{"b", "\u00e9"}});
  for (size_t size = 1; size <= stream.size(); ++size) {
    FrameReader reader;
    std::vector<std::string> found;
    for (size_t at = 0; at < stream.size(); at += size) {
      reader.feed(std::string_view(stream).substr(at, size));
      while (const auto frame = reader.next()) {
        EXPECT_EQ(frame->fault, "");
        found.push_back(frame->content);
      }
    }
    EXPECT_EQ(found, (std::vector<std::string>{"{\"a\":1}", "[]", "{\"b\":\"\u00e9\"}"})) << size;
  }
}

TEST(Frames, ABrokenHeaderIsOneFaultUntilTheNextValidMessage) {
  FrameReader reader;
  reader.feed("Content-Length: x\r\n\r\nrubbish\r\n\r\nmore\r\n\r\n" + frame({{"a", 1}}) + "torn\r\n\r\n");
  EXPECT_NE(reader.next().value().fault, "");
  EXPECT_EQ(reader.next().value().content, "{\"a\":1}");
  EXPECT_NE(reader.next().value().fault, "");
  EXPECT_FALSE(reader.next());
}

TEST(Frames, AMessageOfAGigabyteIsSkippedWithoutMemory) {
  FrameReader reader;
  reader.feed("Content-Length: 1000000000\r\n\r\n");
  EXPECT_NE(reader.next().value().fault, "");
  const std::string zeros(1'000'000, '0');
  for (int i = 0; i < 1000; ++i) {
    reader.feed(zeros);
    EXPECT_FALSE(reader.next());
  }
  reader.feed(frame({{"a", 1}}));
  EXPECT_EQ(reader.next().value().content, "{\"a\":1}");
}

TEST(Frames, AHeaderWithoutEndIsDropped) {
  FrameReader reader;
  for (int i = 0; i < 1000; ++i) {
    reader.feed(std::string(10'000, 'x'));
    const auto frame = reader.next();
    EXPECT_EQ(frame.has_value(), i == 0);
  }
  reader.feed("\r\n\r\n" + frame({{"a", 1}}));
  EXPECT_EQ(reader.next().value().content, "{\"a\":1}");
}

TEST(Frames, InvalidContentLengthsAreFaults) {
  for (const char* length : {"-1", "1e3", "", "99999999999999999999999", "12 3", "0x10"}) {
    FrameReader reader;
    reader.feed(std::string("Content-Length: ") + length + "\r\n\r\n");
    const auto frame = reader.next();
    EXPECT_TRUE(frame && !frame->fault.empty()) << length;
  }
}

TEST(Messages, TooDeepTooLongAndInvalidJsonIsRejected) {
  std::string why;
  EXPECT_TRUE(parse_message("{\"a\": [1, \"[[[[\", {}]}", why));
  EXPECT_FALSE(parse_message(std::string(200, '[') + std::string(200, ']'), why));
  EXPECT_NE(why.find("deep"), std::string::npos);
  EXPECT_FALSE(parse_message("[" + std::string(1 << 19, ',') + "]", why));
  EXPECT_NE(why.find("many"), std::string::npos);
  for (const char* text : {"", "{", "{\"a\":}", "nul", "\"\\ud800\"", "\"\xff\"", "[1,]", "{} {}"}) {
    EXPECT_FALSE(parse_message(text, why)) << text;
  }
}

TEST(Hostile, InvalidMessagesGetAnErrorAndTheServerContinues) {
  TestClient client;
  const std::pair<std::string, Code> cases[] = {
      {"rubbish", Code::kParseError},
      {std::string(100'000, '['), Code::kParseError},
      {"[]", Code::kInvalidRequest},
      {"1", Code::kInvalidRequest},
      {"{}", Code::kInvalidRequest},
      {R"({"id": 1, "method": 5})", Code::kInvalidRequest},
      {R"({"id": [[1]], "method": "shutdown"})", Code::kInvalidRequest},
      {R"({"id": 1.5, "method": "shutdown"})", Code::kInvalidRequest},
      {R"({"id": 7, "method": "textDocument/hover", "params": [1, 2]})", Code::kInvalidParams},
      {R"({"id": 7, "method": "textDocument/hover"})", Code::kInvalidParams},
      {R"({"id": 7, "method": "textDocument/hover", "params": {"textDocument": {"uri": 3}}})", Code::kInvalidParams},
      {R"({"id": 7, "method": "workspace/nothing"})", Code::kMethodNotFound},
  };
  for (const auto& [content, code] : cases) {
    client.raw("Content-Length: " + std::to_string(content.size()) + "\r\n\r\n" + content);
    EXPECT_EQ(code_of(client.take()), static_cast<int>(code)) << content.substr(0, 80);
    EXPECT_TRUE(answers(client));
  }
  client.raw("torn\r\n\r\n");
  EXPECT_EQ(code_of(client.take()), static_cast<int>(Code::kParseError));
  EXPECT_TRUE(answers(client));
}

TEST(Hostile, AnswersAndUnknownNotificationsAreIgnored) {
  TestClient client;
  client.message({{"jsonrpc", "2.0"}, {"id", 4}, {"result", nullptr}});
  client.notify("$/setTrace", {{"value", "off"}});
  client.notify("$/cancelRequest", {{"id", 1}});
  client.notify("workspace/didSomething", nullptr);
  EXPECT_TRUE(client.take().is_null());
}

TEST(Lifecycle, NothingComesBeforeInitializeOrAfterShutdown) {
  TestClient client(false);
  EXPECT_EQ(code_of(client.request("textDocument/hover", Json::object())), static_cast<int>(Code::kNotInitialized));
  client.open("xgraph 1\n");
  EXPECT_TRUE(client.diagnostics().is_null());
  EXPECT_TRUE(client.request("initialize", {{"capabilities", {{"workspace", 3}}}}).contains("result"));
  EXPECT_EQ(code_of(client.request("initialize", Json::object())), static_cast<int>(Code::kInvalidRequest));
  EXPECT_TRUE(client.request("shutdown", nullptr).contains("result"));
  EXPECT_EQ(code_of(client.request("textDocument/hover", Json::object())), static_cast<int>(Code::kInvalidRequest));
  client.notify("exit", nullptr);
  EXPECT_EQ(client.server().exit(), 0);
}

TEST(Lifecycle, ExitWithoutShutdownIsExitCodeOne) {
  TestClient client;
  client.notify("exit", nullptr);
  EXPECT_EQ(client.server().exit(), 1);
}

Json change(int from_line, int from, int to_line, int to, const std::string& text) {
  return {{"textDocument", {{"uri", kUri}, {"version", 2}}},
          {"contentChanges",
           {{{"range",
              {{"start", {{"line", from_line}, {"character", from}}}, {"end", {{"line", to_line}, {"character", to}}}}},
             {"text", text}}}}};
}

TEST(Edits, AreErrorsOutsideOfTheTextUntilTheWholeTextIsSent) {
  const std::string text = "xgraph 1\n\nlet a = 1\n";
  for (const Json& bad :
       {change(99, 0, 99, 1, "x"), change(1, 0, 0, 0, "x"), change(-1, 0, 0, 0, "x"), change(0, 5, 0, 2, "x")}) {
    TestClient client;
    client.open(text);
    EXPECT_EQ(client.diagnostics(), Json::array());
    client.notify("textDocument/didChange", bad);
    EXPECT_EQ(code_of(client.take()), static_cast<int>(Code::kInvalidParams)) << bad;
    const Json about{{"textDocument", {{"uri", kUri}}}};
    EXPECT_EQ(code_of(client.request("textDocument/documentSymbol", about)), static_cast<int>(Code::kRequestFailed));
    client.notify("textDocument/didChange", change(0, 0, 0, 0, ""));  // the server still has no valid text
    EXPECT_EQ(code_of(client.request("textDocument/documentSymbol", about)), static_cast<int>(Code::kRequestFailed));
    client.notify("textDocument/didChange", {{"textDocument", {{"uri", kUri}, {"version", 3}}},
                                             {"contentChanges", {{{"text", "xgraph 1\n\nlet b = 1\n"}}}}});
    const Json symbols = client.result("textDocument/documentSymbol", about);
    EXPECT_EQ(symbols.at(0).at("name"), "b");
  }
}

TEST(Edits, AreErrorsIfMalformed) {
  for (const char* changes : {"3", "{}", "[3]", "[{}]", R"([{"text": 3}])", R"([{"text": "x", "range": 1}])",
                              R"([{"text": "x", "range": {"start": {"line": 0.5, "character": 0}, "end": 0}}])",
                              R"([{"text": "x", "range": {"start": {"line": 1e300, "character": 0}, "end": {}}}])"}) {
    TestClient client;
    client.open("xgraph 1\n");
    client.notify("textDocument/didChange",
                  {{"textDocument", {{"uri", kUri}, {"version", "v"}}}, {"contentChanges", Json::parse(changes)}});
    EXPECT_EQ(code_of(client.take()), static_cast<int>(Code::kInvalidParams)) << changes;
    EXPECT_TRUE(answers(client));
  }
  TestClient client;
  client.notify("textDocument/didChange", change(0, 0, 0, 0, "x"));
  EXPECT_EQ(code_of(client.take()), static_cast<int>(Code::kInvalidParams)) << "a document that is not open";
  client.notify("textDocument/didClose", {{"textDocument", {{"uri", kUri}}}});
  EXPECT_EQ(code_of(client.take()), static_cast<int>(Code::kInvalidParams));
}

TEST(Edits, TheSizeOfTextsAndTheNumberOfDocumentsAreBounded) {
  TestClient client;
  client.open("");
  const std::string half(size_t{4} << 20, 'a');
  client.notify("textDocument/didChange", change(0, 0, 0, 0, half));
  client.notify("textDocument/didChange", change(0, 0, 0, 0, half));
  EXPECT_TRUE(client.take().is_null());
  client.notify("textDocument/didChange", change(0, 0, 0, 0, half));
  EXPECT_EQ(code_of(client.take()), static_cast<int>(Code::kInvalidParams));
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    client.open("", "file:///tmp/" + std::to_string(i));
    refused += code_of(client.take()) == static_cast<int>(Code::kRequestFailed) ? 1 : 0;
  }
  EXPECT_EQ(refused, 45);
}

TEST(Edits, AModelBeyondTheLimitOfNodesGivesOneInformation) {
  TestClient client;
  client.open(
      "xgraph 1\n\nmodel m {\n  input x: f32[N, 8]\n\n  y = x -> repeat 4_000_000 as i { linear(8) }\n  output y\n}\n");
  const Json found = client.diagnostics();
  ASSERT_EQ(found.size(), 1u) << found;
  EXPECT_EQ(found[0]["code"], "XG0216");
  EXPECT_EQ(found[0]["severity"], 3);
}

}  // namespace
}  // namespace xrun::lsp
