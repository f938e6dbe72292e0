// Cases 19 and 25: commands do not edit files of other tools, and settings of other tools get a hint that names ours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/command.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using xrun::testing::read_file;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

const std::vector<std::pair<std::string, std::string>> kForeignFiles{
    {"config.py", "import torch\nconfig = dict(lr=0.1, name='resnet')\n"},
    {"from.py", "from torch import nn\n\nclass Net(nn.Module):\n  pass\n"},
    {"net.prototxt", "name: \"LeNet\"\nlayer {\n  type: \"Data\"\n}\n"},
    {"conf.yaml", "# settings\nmodel: resnet50\nbatch_size: 32\n"},
    {"train.yaml", "train:\n  epochs: 3\n"},
    {"README.md", "# Faces\n\nThis model knows 'faces' && names; see `run.sh`.\n"},
    {"conf.json", "{\"batch\": 32}\n"},
    {"conf.toml", "[train]\nbatch = 32\n"},
};

TEST(Case19FixEditsFilesOfOthers, NoCommandEditsAFileThatIsNotAModel) {
  TemporaryDirectory dir;
  for (const auto& [name, text] : kForeignFiles) {
    SCOPED_TRACE(name);
    dir.write(name, text);
    for (const char* command : {"fix", "fmt", "check"}) {
      const auto run = run_xrun({command, dir.path() + "/" + name});
      EXPECT_EQ(run.exit, 1) << command;
      EXPECT_THAT(run.err, HasSubstr("XG0123")) << command;
      EXPECT_THAT(run.err, HasSubstr("is not a model: it begins with neither `xgraph 1` nor a declaration")) << command;
      EXPECT_EQ(read_file(dir.path() + "/" + name), text) << command;
    }
  }
}

TEST(Case19FixEditsFilesOfOthers, AModelWithAnotherFileExtensionIsStillFixed) {
  TemporaryDirectory dir;
  dir.write("net.txt", "# a constant\nlet a = 'b'\n");
  EXPECT_EQ(run_xrun({"fix", dir.path() + "/net.txt"}).exit, 0);
  EXPECT_EQ(read_file(dir.path() + "/" + "net.txt"), "xgraph 1\n\n# a constant\nlet a = \"b\"\n");
}

// A file with our extension that holds a Python program gets no `xgraph 1` line.
TEST(Case19FixEditsFilesOfOthers, NoEditionLineIsWrittenBeforeAPythonProgram) {
  TemporaryDirectory dir;
  dir.write("net.xgraph", "import torch\nx = 3\n");
  (void)run_xrun({"fix", dir.path() + "/net.xgraph"});
  EXPECT_THAT(read_file(dir.path() + "/" + "net.xgraph"), Not(HasSubstr("xgraph 1")));
}

TEST(Case25SettingsOfOtherTools, EachSettingOfAnotherToolGetsAHintThatNamesOurs) {
  TemporaryDirectory dir;
  dir.write("m.xgraph", R"(xgraph 1

model m {
  input x: f32[N, 8]

  feature = x -> linear(8)
  output feature

  head id = cosine_classifier(feature, 100)
}

data d {
  source train = synthetic([8], 100, 1000)

  x = pixels
}

train t {
  batch_size    = 16
  num_epoch     = 2
  sample_rate   = 0.1
  fp16          = true
  warmup_epoch  = 2
  interclass_filtering_threshold = 0.4
  gradient_acc  = 2
  loss          = CombinedMarginLoss(id, label)
  optimizer     = sgd(lr=0.1, momentum=0.9)
  lr            = PolyScheduler(base_lr=0.1)
}
)");
  const auto run = run_xrun({"check", dir.path() + "/m.xgraph"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("`batch_size` is `batch` here"));
  EXPECT_THAT(run.err, HasSubstr("`num_epoch` is `epochs` here"));
  EXPECT_THAT(run.err, HasSubstr("~   active_classes = sample(0.1)"));
  EXPECT_THAT(run.err, HasSubstr("~   precision = mixed(f16)"));
  EXPECT_THAT(run.err, HasSubstr("write lr = [warmup(0 .. 0.1, 2 epochs), cosine(0.1 .. 0)]"));
  EXPECT_THAT(run.err, HasSubstr("write filter=0.4 in the loss: combined_margin(id, label, filter=0.4)"));
  EXPECT_THAT(run.err, HasSubstr("`gradient_acc` is `grad_accumulation` here"));
  EXPECT_THAT(run.err, HasSubstr("~   loss          = combined_margin(id, label)"));
  EXPECT_THAT(run.err, HasSubstr("write lr = 0.1 as a setting of `train`"));
  EXPECT_THAT(run.err, HasSubstr("write poly(0.1 .. 0)"));
  EXPECT_THAT(run.err, Not(HasSubstr("leave it out, or write a setting of `train`")));
}

}  // namespace
