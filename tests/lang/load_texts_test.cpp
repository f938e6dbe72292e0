// Models whose files are in memory: a checkpoint's model is checked from the texts in the checkpoint alone.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lang/frontend.h"
#include "tests/lang/test_ops.h"

namespace xrun::lang {
namespace {

using ::testing::HasSubstr;

std::string messages(const std::string& path, const Texts& texts) {
  SourceMap sources;
  Diagnostics diagnostics;
  const OpRegistry ops = test_ops::registry();
  const auto file = load_texts(path, texts, sources, diagnostics, {.ops = &ops});
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    text += render(diagnostic, sources);
  }
  EXPECT_EQ(file.has_value(), text.empty());
  return text;
}

const std::string kBlock = "xgraph 1\n\nblock part(x: [N, D]) {\n  return x -> relu\n}\n";

TEST(LoadTexts, ImportsAreFoundInTextsInAnyOrder) {
  // The imports form a diamond: two files import the same file by different paths.
  const Texts texts{
      {"/w/a/main.xgraph",
       "xgraph 1\nfrom \"../b/left.xgraph\" use left\nfrom \"right.xgraph\" use right\nmodel m {\n  input x: f32[N, "
       "4]\n  y = x -> left -> right\n  output y\n}\n"},
      {"/w/a/right.xgraph",
       "xgraph 1\nfrom \"../b/part.xgraph\" use part\nblock right(x: [N, D]) {\n  return x -> part\n}\n"},
      {"/w/b/left.xgraph", "xgraph 1\nfrom \"part.xgraph\" use part\nblock left(x: [N, D]) {\n  return x -> part\n}\n"},
      {"/w/b/part.xgraph", kBlock}};
  EXPECT_EQ(messages("/w/a/main.xgraph", texts), "");
  EXPECT_EQ(messages("/w/a/../a/main.xgraph", texts), "");
}

TEST(LoadTexts, TheTextsMayContainTheStandardLibrary) {
  const std::string main =
      "xgraph 1\nfrom \"std/nets\" use part\nmodel m {\n  input x: f32[N, 4]\n  y = x -> part\n  "
      "output y\n}\n";
  EXPECT_EQ(messages("/m.xgraph", {{"/m.xgraph", main}, {"std/nets", kBlock}}), "");
  EXPECT_THAT(messages("/m.xgraph", {{"/m.xgraph", main}}), HasSubstr("declares no `part`"));
}

TEST(LoadTexts, NoFileOfTheDiskIsRead) {
  const std::string path = ::testing::TempDir() + "xrun_texts_" + std::to_string(::getpid()) + ".xgraph";
  std::ofstream(path) << kBlock;
  const std::string main = "xgraph 1\nfrom \"" + path + "\" use part\n";
  EXPECT_THAT(messages("/m.xgraph", {{"/m.xgraph", main}}), HasSubstr("cannot be imported"));
  std::filesystem::remove(path);
}

TEST(LoadTexts, ACircleOfImportsIsRejected) {
  const Texts texts{{"/a.xgraph", "xgraph 1\nimport \"b.xgraph\"\n"}, {"/b.xgraph", "xgraph 1\nimport \"a.xgraph\"\n"}};
  EXPECT_THAT(messages("/a.xgraph", texts), HasSubstr("a.xgraph"));
}

}  // namespace
}  // namespace xrun::lang
