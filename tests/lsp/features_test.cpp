// The information and edits that an editor shows, on models as users write them.
#include <filesystem>
#include <fstream>

#include "tests/lsp/client.h"

namespace xrun::lsp {
namespace {

const std::string kModel = R"(xgraph 1

## Doubles the channels.
block unit(x: [N, C, H, W], stride: int = 1) -> [N, 2 * C, ceil(H / stride), ceil(W / stride)] {
  return x -> conv(2 * C, 3, stride=stride) -> bn -> relu
}

let classes = 5 * 2

model small {
  input image: f32[N, 8, 16, 16]

  feature = image
    -> unit(stride=2) as first
    -> unit
    -> flatten
  output feature

  head id = classifier(feature, classes)
}

data small {
  source train = synthetic([8, 16, 16], 10, 100)

  image = pixels
}

train small {
  batch     = 8
  epochs    = 1
  loss      = softmax_ce(id, label)
  optimizer = sgd(momentum=0.9)
  lr        = constant(0.1)
}
)";

std::string hover_text(TestClient& client, const std::string& text, std::string_view word, int nth = 0) {
  const Json found = client.ask("textDocument/hover", text, word, nth);
  return found.is_null() ? "" : found["contents"]["value"].get<std::string>();
}

// Returns the text of one document after the edits.
std::string edited(const std::string& text, Json edits) {
  std::sort(edits.begin(), edits.end(), [](const Json& a, const Json& b) {
    const auto place = [](const Json& edit) {
      return std::pair(edit["range"]["start"]["line"].get<int>(), edit["range"]["start"]["character"].get<int>());
    };
    return place(a) > place(b);
  });
  Json changes = Json::array();
  for (const Json& edit : edits) {
    changes.push_back({{"range", edit["range"]}, {"text", edit["newText"]}});
  }
  return changed(text, changes);
}

Json whole() { return {{"start", {{"line", 0}, {"character", 0}}}, {"end", {{"line", 1000}, {"character", 0}}}}; }

TEST(Diagnostics, HaveCodePlaceRelatedPlacesAndAPage) {
  TestClient client;
  client.open("xgraph 1\n\nlet a = 1\nlet a = 2\n");
  const Json found = client.diagnostics();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(client.published["version"], 1);
  EXPECT_EQ(found[0]["code"], "XG0202");
  EXPECT_EQ(found[0]["severity"], 1);
  EXPECT_EQ(found[0]["range"],
            Json::parse(R"({"start": {"line": 3, "character": 4}, "end": {"line": 3, "character": 5}})"));
  EXPECT_EQ(found[0]["relatedInformation"][0]["location"]["uri"], kUri);
  EXPECT_EQ(found[0]["relatedInformation"][0]["location"]["range"]["start"]["line"], 2);
  const std::string page = path_of(found[0]["codeDescription"]["href"].get<std::string>());
  std::ifstream in(page);
  std::string first;
  std::getline(in, first);
  EXPECT_TRUE(first.starts_with("# XG0202 ")) << page;
}

TEST(Diagnostics, VanishWithTheirCauseAndWhenTheDocumentCloses) {
  TestClient client;
  client.open("xgraph 1\n\nlet a = b\n");
  EXPECT_EQ(client.diagnostics().size(), 1u);
  client.notify("textDocument/didChange",
                {{"textDocument", {{"uri", kUri}, {"version", 2}}},
                 {"contentChanges",
                  {{{"range", {{"start", {{"line", 2}, {"character", 8}}}, {"end", {{"line", 2}, {"character", 9}}}}},
                    {"text", "7"}}}}});
  EXPECT_EQ(client.diagnostics().size(), 0u);
  EXPECT_EQ(client.published["version"], 2);
  client.notify("textDocument/didClose", {{"textDocument", {{"uri", kUri}}}});
  EXPECT_EQ(client.take()["params"]["diagnostics"], Json::array());
}

TEST(Diagnostics, AreShownAtTheImportOfAFileAndFollowItsOpenText) {
  TestClient client;
  client.open("xgraph 1\n\nfrom \"part.xgraph\" use width\n\nlet twice = 2 * width\n");
  client.open("xgraph 1\n\nlet width = wrong\n", "file:///tmp/part.xgraph");
  client.server().rest();
  Json main;
  for (Json got = client.take(); !got.is_null(); got = client.take()) {
    main = got["params"]["uri"] == kUri ? got["params"]["diagnostics"] : main;
  }
  ASSERT_EQ(main.size(), 1u) << main;
  EXPECT_EQ(main[0]["range"]["start"]["line"], 2);
  EXPECT_EQ(main[0]["relatedInformation"][0]["location"]["uri"], "file:///tmp/part.xgraph");
  client.notify("textDocument/didChange", {{"textDocument", {{"uri", "file:///tmp/part.xgraph"}, {"version", 2}}},
                                           {"contentChanges", {{{"text", "xgraph 1\n\nlet width = 3\n"}}}}});
  client.server().rest();
  int clean = 0;
  for (Json got = client.take(); !got.is_null(); got = client.take()) {
    clean += got["params"]["diagnostics"].empty() ? 1 : 0;
  }
  EXPECT_EQ(clean, 2) << "the file and the one that imports it";
  client.notify("textDocument/didClose", {{"textDocument", {{"uri", "file:///tmp/part.xgraph"}}}});
  EXPECT_EQ(client.diagnostics().at(0).at("code"), "XG0207") << "the file is not on disk";
}

TEST(Actions, AreTheFixesOfDiagnosticsAndOneForAllCertainFixes) {
  const std::string text =
      "xgraph 1\n\nmodel m {\n  input x: f32[N, 3, 8, 8]\n\n  y = x -> Conv2d(4, 3) -> ReLU\n  output y\n}\n";
  TestClient client;
  client.open(text);
  EXPECT_GT(client.diagnostics().size(), 0u);
  const Json actions = client.result(
      "textDocument/codeAction",
      {{"textDocument", {{"uri", kUri}}},
       {"range", {{"start", {{"line", 5}, {"character", 12}}}, {"end", {{"line", 5}, {"character", 12}}}}},
       {"context", {{"diagnostics", Json::array()}}}});
  bool has_fix = false;
  std::string fixed;
  for (const Json& action : actions) {
    has_fix = has_fix || action["kind"] == "quickfix";
    if (action["kind"] == "source.fixAll.xrun") {
      fixed = edited(text, action["edit"]["changes"][kUri]);
    }
  }
  EXPECT_TRUE(has_fix) << actions;
  EXPECT_NE(fixed.find("conv(4, 3)"), std::string::npos) << actions;
}

TEST(Hover, ShowsFactsOfTheLanguageAndTheCheck) {
  TestClient client;
  client.open(kModel);
  const auto has = [&](std::string_view word, int nth, const std::string& part) {
    const std::string text = hover_text(client, kModel, word, nth);
    EXPECT_NE(text.find(part), std::string::npos) << word << ": " << text;
  };
  has("conv", 0, "width");
  has("unit", 0, "Doubles the channels.");
  has("unit(stride", 0, "f32[N, 16, 8, 8]");
  has("unit(stride", 0, "1_184 parameters");
  has("unit(stride", 0, "MFLOP a sample");
  has("first", 0, "first.conv.weight");
  has("first", 0, "checkpoints");
  has("feature", 0, "f32[N, 2048]");
  has("classes", 0, "`10`");
  has("id =", 0, "20_490 parameters");
  has("small", 0, "parameters in");
  has("small", 0, "MFLOP a sample");
  has("batch", 0, "train.batch");
  has("momentum", 0, "");
  has("C,", 0, "`8`, `16`");
  has("synthetic", 0, "classes");
  has("train small", 0, "batch");
  EXPECT_EQ(hover_text(client, kModel, "\n\n## Doubles"), "");
}

TEST(Hints, ShowTheShapeAfterEachArrowAndBinding) {
  TestClient client;
  client.open(kModel);
  const Json hints = client.result("textDocument/inlayHint", {{"textDocument", {{"uri", kUri}}}, {"range", whole()}});
  std::string all;
  for (const Json& hint : hints) {
    all += std::to_string(hint["position"]["line"].get<int>()) + " " + hint["label"].get<std::string>() + "\n";
  }
  EXPECT_EQ(all,
            "4 f32[N, 16, 8, 8], ...\n4 f32[N, 16, 8, 8], ...\n4 f32[N, 16, 8, 8], ...\n13 f32[N, 16, 8, 8]\n"
            "14 f32[N, 32, 8, 8]\n15 f32[N, 2048]\n18 : sharded[N, 10]\n");
}

std::vector<std::string> labels_of(const Json& completion) {
  std::vector<std::pair<std::string, std::string>> sorted;
  for (const Json& item : completion["items"]) {
    sorted.emplace_back(item["sortText"], item["label"]);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> labels;
  for (const auto& [order, label] : sorted) {
    labels.push_back(label);
  }
  return labels;
}

size_t place_of(const std::vector<std::string>& labels, const std::string& label) {
  return static_cast<size_t>(std::ranges::find(labels, label) - labels.begin());
}

// Returns the completions at the `|` in `text`.
std::vector<std::string> proposals(std::string text) {
  const size_t at = text.find('|');
  text.erase(at, 1);
  TestClient client;
  client.open(text);
  return labels_of(client.result(
      "textDocument/completion",
      {{"textDocument", {{"uri", kUri}}}, {"position", LineMap(text).position(static_cast<uint32_t>(at))}}));
}

TEST(Completion, ListsOperatorsThatAcceptTheShapeFirst) {
  const auto found = proposals(
      "xgraph 1\n\nblock own(x: [N, D]) {\n  return x -> relu\n}\n\nmodel m {\n  input x: f32[N, 8]\n\n  y = x -> "
      "linear(4) -> |\n  output y\n}\n");
  EXPECT_LT(place_of(found, "linear"), place_of(found, "conv"));
  EXPECT_LT(place_of(found, "own"), place_of(found, "conv"));
  EXPECT_LT(place_of(found, "conv"), found.size());
  EXPECT_LT(place_of(found, "repeat"), found.size());
  EXPECT_LT(place_of(found, "hswish"), found.size());
}

TEST(Completion, ListsSettingsNamesFilesAndDeclarations) {
  const auto settings = proposals("xgraph 1\n\ntrain t {\n  batch = 1\n  checkpoint {\n    |\n  }\n}\n");
  EXPECT_LT(place_of(settings, "every"), settings.size());
  EXPECT_EQ(place_of(settings, "batch"), settings.size());
  const auto train = proposals("xgraph 1\n\ntrain t {\n  ba|\n}\n");
  EXPECT_LT(place_of(train, "batch"), train.size());
  const auto values = proposals(
      "xgraph 1\n\nlet deep = 3\n\nblock b(x: [N, D], width: int) {\n  inner = width + 1\n  return x -> "
      "linear(|)\n}\n");
  for (const char* name : {"deep", "width", "inner", "x"}) {
    EXPECT_LT(place_of(values, name), values.size()) << name;
  }
  const auto declarations = proposals("xgraph 1\n\nmo|\n");
  EXPECT_LT(place_of(declarations, "model"), declarations.size());
  const auto files = proposals("xgraph 1\n\nfrom \"std/|\" use unit\n");
  EXPECT_LT(place_of(files, "std/vision"), files.size());
}

TEST(Navigation, FindsDeclarationsAndUses) {
  TestClient client;
  client.open(kModel);
  const auto line = [&](std::string_view word, int nth) {
    const Json found = client.ask("textDocument/definition", kModel, word, nth);
    return found.is_null() ? -1 : found["range"]["start"]["line"].get<int>();
  };
  EXPECT_EQ(line("unit(stride", 0), 3);
  EXPECT_EQ(line("stride=stride", 0), -1) << "an argument of an operator";
  EXPECT_EQ(line("stride=2", 0), 3) << "an argument of a block";
  EXPECT_EQ(line("feature,", 0), 12);
  EXPECT_EQ(line("classes)", 0), 7);
  EXPECT_EQ(line("id, label", 0), 18);
  EXPECT_EQ(line("image = pixels", 0), 10);
  EXPECT_EQ(line("C, H", 0), 3);
  const Json uses =
      client.ask("textDocument/references", kModel, "feature", 0, {{"context", {{"includeDeclaration", false}}}});
  EXPECT_EQ(uses.size(), 2u) << uses;
  EXPECT_EQ(client.ask("textDocument/documentHighlight", kModel, "unit", 0).size(), 3u);
}

TEST(Navigation, FindsDeclarationsInTheStandardLibrary) {
  const std::string text =
      "xgraph 1\n\nfrom \"std/vision\" use bottleneck\n\nblock b(x: [N, C, H, W]) {\n  return x -> bottleneck(8)\n}\n";
  TestClient client;
  client.open(text);
  const Json found = client.ask("textDocument/definition", text, "bottleneck(8)");
  std::ifstream in(path_of(found["uri"].get<std::string>()));
  std::string line;
  for (int i = 0; i <= found["range"]["start"]["line"].get<int>(); ++i) {
    std::getline(in, line);
  }
  EXPECT_TRUE(line.starts_with("block bottleneck(")) << found;
  EXPECT_FALSE(client.ask("textDocument/definition", text, "std/vision").is_null());
}

TEST(Rename, ChangesEveryPlaceAndKeepsTheTextValid) {
  for (const auto& [word, fresh] : {std::pair("unit", "cell"),
                                    {"feature", "embedding"},
                                    {"classes", "people"},
                                    {"C, H", "In"},
                                    {"stride: int", "step"},
                                    {"image:", "picture"},
                                    {"id =", "person"},
                                    {"first", "one"}}) {
    TestClient client;
    client.open(kModel);
    const Json answer = client.ask("textDocument/rename", kModel, word, 0, {{"newName", fresh}});
    const std::string after = edited(kModel, answer["changes"][kUri]);
    EXPECT_NE(after, kModel);
    TestClient other;
    other.open(after);
    EXPECT_EQ(other.diagnostics(), Json::array()) << word << "\n" << after;
  }
}

// A file with a block, and other files next to it and below it. Some import the file, and others only mention its name.
class ClosedFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "closed files";
    std::filesystem::remove_all(folder_);
    write("base.xgraph", kBase);
    write("near.xgraph", importer("base.xgraph"));
    write("deep/er/far.xgraph", importer("../../base.xgraph"));
    write(".hidden/copy.xgraph", importer("../base.xgraph"));
    write("speaks.xgraph",
          "xgraph 1\n\n# base.xgraph has a unit, too\nblock unit(x: [N, D]) {\n  return x -> relu\n}\n");
    write("broken.xgraph", "xgraph 1\nfrom \"base.xgraph\" use unit\nmodel {");
    std::filesystem::create_symlink(folder_ / "near.xgraph", folder_ / "link.xgraph");
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  static std::string importer(const std::string& from) {
    return "xgraph 1\n\nfrom \"" + from +
           "\" use unit\n\nmodel m {\n  input x: f32[N, 8]\n\n  y = x -> unit -> unit\n  output y\n}\n";
  }
  std::string uri(const std::string& name) const { return file_uri((folder_ / name).string()); }
  Json ask(TestClient& client, const char* method, Json more) const {
    client.open(kBase, uri("base.xgraph"));
    more["textDocument"] = {{"uri", uri("base.xgraph")}};
    more["position"] = LineMap(kBase).position(static_cast<uint32_t>(kBase.find("unit")));
    return client.result(method, std::move(more));
  }

  const std::string kBase = "xgraph 1\n\nblock unit(x: [N, D]) {\n  return x -> linear(D) -> relu\n}\n";
  std::filesystem::path folder_;
};

TEST_F(ClosedFiles, AreReachedByReferences) {
  TestClient client;
  std::map<std::string, int> places;
  for (const Json& place : ask(client, "textDocument/references", {{"context", {{"includeDeclaration", true}}}})) {
    ++places[place["uri"].get<std::string>()];
  }
  // For a file that does not parse, only the names before the fault are found.
  places.erase(uri("broken.xgraph"));
  const std::map<std::string, int> wanted{
      {uri("base.xgraph"), 1}, {uri("near.xgraph"), 3}, {uri("deep/er/far.xgraph"), 3}};
  EXPECT_EQ(places, wanted);
}

TEST_F(ClosedFiles, AreRenamedAndRemainValid) {
  for (const char* key : {"rootUri", "workspaceFolders"}) {
    TestClient client(false);
    Json params{{"capabilities", Json::object()}};
    params[key] = std::string(key) == "rootUri"
                      ? Json(file_uri(folder_.string()))
                      : Json::array({{{"uri", file_uri(folder_.string())}, {"name", "models"}}});
    client.request("initialize", params);
    client.notify("initialized", Json::object());
    const Json changes = ask(client, "textDocument/rename", {{"newName", "cell"}})["changes"];
    ASSERT_TRUE(changes.contains(uri("deep/er/far.xgraph"))) << changes;
    EXPECT_FALSE(changes.contains(uri("speaks.xgraph"))) << "a unit of its own";
    EXPECT_FALSE(changes.contains(uri("link.xgraph")));
    EXPECT_FALSE(changes.contains(uri(".hidden/copy.xgraph")));
    TestClient other;
    other.open(edited(kBase, changes[uri("base.xgraph")]), uri("base.xgraph"));
    for (const auto& [name, from] :
         {std::pair("near.xgraph", "base.xgraph"), {"deep/er/far.xgraph", "../../base.xgraph"}}) {
      other.open(edited(importer(from), changes[uri(name)]), uri(name));
      EXPECT_EQ(other.diagnostics(), Json::array()) << name;
    }
  }
}

TEST_F(ClosedFiles, OtherFoldersAreLeftAlone) {
  TestClient client(false);
  client.request("initialize", {{"capabilities", Json::object()}, {"rootUri", uri("deep")}});
  client.notify("initialized", Json::object());
  const Json changes = ask(client, "textDocument/rename", {{"newName", "cell"}})["changes"];
  EXPECT_TRUE(changes.contains(uri("deep/er/far.xgraph")));
  EXPECT_FALSE(changes.contains(uri("near.xgraph")));
}

// The renamed model is the same run, so it can resume its checkpoints.
TEST(Rename, WritesMovedLinesIfTensorsChangeTheirNames) {
  const std::string text =
      "xgraph 1\n\nblock part(x: [N, D]) {\n  return x -> linear(D) as inner\n}\n\n"
      "model m {\n  input x: f32[N, 8]\n\n  y = x -> repeat 2 { part } as stack -> linear(4) as last\n  output y\n}\n";
  for (const auto& [word, lines] : {std::pair("last", "\nmoved \"last\" -> \"fresh\"\n"),
                                    {"stack", "\nmoved \"stack\" -> \"fresh\"\n"},
                                    {"inner",
                                     "\nmoved \"stack.0.part.inner\" -> \"stack.0.part.fresh\"\n"
                                     "\nmoved \"stack.1.part.inner\" -> \"stack.1.part.fresh\"\n"},
                                    {"part(",
                                     "\nmoved \"stack.0.part\" -> \"stack.0.fresh\"\n"
                                     "\nmoved \"stack.1.part\" -> \"stack.1.fresh\"\n"}}) {
    TestClient client;
    client.open(text);
    const Json answer = client.ask("textDocument/rename", text, word, 0, {{"newName", "fresh"}});
    const std::string after = edited(text, answer["changes"][kUri]);
    EXPECT_TRUE(after.ends_with(lines)) << after;
    TestClient other;
    other.open(after);
    EXPECT_EQ(other.diagnostics(), Json::array()) << after;
  }
  // Renaming back removes the `moved` line.
  const std::string moved =
      text.substr(0, text.find("as last")) + "as first\n  output y\n}\n\nmoved \"last\" -> \"first\"\n";
  TestClient client;
  client.open(moved);
  const Json back = client.ask("textDocument/rename", moved, "first", 0, {{"newName", "last"}});
  EXPECT_EQ(edited(moved, back["changes"][kUri]).find("moved \"first\""), std::string::npos);
}

TEST(Rename, AsksForConfirmationIfTensorsChangeTheirNames) {
  TestClient client(false);
  client.request("initialize",
                 {{"capabilities",
                   {{"workspace",
                     {{"workspaceEdit", {{"documentChanges", true}, {"changeAnnotationSupport", Json::object()}}}}}}}});
  client.open(kModel);
  const Json head = client.ask("textDocument/rename", kModel, "id =", 0, {{"newName", "person"}});
  EXPECT_EQ(head["changeAnnotations"]["tensors"]["needsConfirmation"], true) << head;
  const Json value = client.ask("textDocument/rename", kModel, "feature", 0, {{"newName", "other"}});
  EXPECT_TRUE(value.contains("changes")) << "bindings name no tensors";
}

TEST(Rename, RejectsInvalidNames) {
  TestClient client;
  client.open(kModel);
  for (const char* fresh : {"", "1a", "a b", "if", "N", "Big", "id", "\u00e9"}) {
    Json params{{"textDocument", {{"uri", kUri}}},
                {"position", LineMap(kModel).position(static_cast<uint32_t>(kModel.find("feature")))},
                {"newName", fresh}};
    EXPECT_TRUE(client.request("textDocument/rename", params).contains("error")) << fresh;
  }
  Json params{{"textDocument", {{"uri", kUri}}},
              {"position", LineMap(kModel).position(static_cast<uint32_t>(kModel.find("conv(")))}};
  EXPECT_TRUE(client.request("textDocument/prepareRename", params).contains("error")) << "an operator";
}

TEST(Formatting, EqualsFmtAndDoesNotChangeInvalidTexts) {
  const std::string text = "xgraph 1\nlet   a=1\n\n\n\nlet b =  10000\n";
  TestClient client;
  client.open(text);
  const Json about{{"textDocument", {{"uri", kUri}}}, {"options", Json::object()}};
  EXPECT_EQ(edited(text, client.result("textDocument/formatting", about)), "xgraph 1\n\nlet a = 1\n\nlet b = 10_000\n");
  TestClient broken;
  broken.open("xgraph 1\nlet   a=(1\n");
  EXPECT_EQ(broken.result("textDocument/formatting", about), Json::array());
}

TEST(Outline, HasSymbolsAndFolds) {
  TestClient client;
  client.open(kModel);
  const Json about{{"textDocument", {{"uri", kUri}}}};
  std::string names;
  for (const Json& symbol : client.result("textDocument/documentSymbol", about)) {
    names += symbol["name"].get<std::string>() + "(";
    for (const Json& inner : symbol["children"]) {
      names += inner["name"].get<std::string>() + " ";
    }
    names += ") ";
  }
  EXPECT_EQ(names,
            "unit() classes() small(image feature id ) small(train image ) small(batch epochs loss optimizer lr ) ");
  std::string folds;
  for (const Json& fold : client.result("textDocument/foldingRange", about)) {
    folds += std::to_string(fold["startLine"].get<int>()) + "-" + std::to_string(fold["endLine"].get<int>()) + " ";
  }
  EXPECT_EQ(folds, "3-4 9-18 21-24 27-32 ");
}

TEST(SemanticTokens, ColourEveryWordOnce) {
  const std::string text =
      "xgraph 1\n\n# \u4e2d\nlet classes = 2 # two\n\nblock b(x: [N, D]) {\n  return x -> linear(D) as own\n}\n";
  TestClient client;
  client.open(text);
  const Json answer = client.result("textDocument/semanticTokens/full", {{"textDocument", {{"uri", kUri}}}});
  const Json types = token_legend()["tokenTypes"];
  std::string shown;
  int line = 0;
  int column = 0;
  const Json& data = answer["data"];
  for (size_t i = 0; i + 4 < data.size(); i += 5) {
    column = data[i] == 0 ? column + data[i + 1].get<int>() : data[i + 1].get<int>();
    line += data[i].get<int>();
    const LineMap lines(text);
    const uint32_t begin = lines.offset({{"line", line}, {"character", column}});
    const uint32_t end = lines.offset({{"line", line}, {"character", column + data[i + 2].get<int>()}});
    shown += text.substr(begin, end - begin) + ":" + types[data[i + 3].get<size_t>()].get<std::string>() + " ";
  }
  EXPECT_EQ(shown,
            "xgraph:keyword 1:number # \u4e2d:comment let:keyword classes:variable 2:number # two:comment "
            "block:keyword b:macro x:parameter N:type D:type return:keyword x:parameter ->:operator linear:function "
            "D:type as:keyword own:decorator ");
}

}  // namespace
}  // namespace xrun::lsp
