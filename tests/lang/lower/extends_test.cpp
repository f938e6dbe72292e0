// `extends`: a declaration inherits the settings of another declaration of its kind and may replace each of them.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lang/print_module.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const char* const kBase = R"(
model net {
  input x: f32[N, 8]

  feature = x -> linear(4) as embed
  output feature

  head id = cosine_classifier(feature, 10)
}

data items {
  source train = synthetic([8], 10, samples=1000)
  source val   = synthetic([8], 10, samples=100, seed=2)

  x = pixels -> scale(2)
}

train base {
  epochs    = 2
  loss      = softmax_ce(id, label, scale=16)
  optimizer = sgd(momentum=0.9)
  lr        = 0.1
  groups {
    id {
      lr           = 0.5
      weight_decay = 0
    }
  }
  eval {
    every = 1 epoch
    val   = accuracy(id, label, source=val)
  }
}

schedule hints {
  stages = 2
  shard id {
    over        = 2
    granularity = micro_batch
  }
}

cluster small {
  node {
    cores  = 2
    memory = 4GiB
  }
}
)";

std::string text_of(const Checked& checked) {
  EXPECT_TRUE(checked.file.has_value()) << checked.rendered();
  return checked.file ? print_module(checked.module(), checked.file->run) : "";
}

// Expects that two files describe the same run, except for the names of their declarations.
void expect_same(const Checked& extended, const Checked& written) {
  const auto nameless = [](std::string text) {
    for (const char* name : {" large", " more", " deep", " big"}) {
      for (size_t at = text.find(name); at != std::string::npos; at = text.find(name)) {
        text.erase(at, std::string(name).size());
      }
    }
    return text;
  };
  EXPECT_EQ(nameless(text_of(extended)), nameless(text_of(written)));
  EXPECT_EQ(extended.module().math_digest, written.module().math_digest);
}

TEST(Extends, HasTheDigestOfTheWrittenOutDeclaration) {
  const Checked extended(std::string(kBase) + R"(
data more extends items {
  source val = synthetic([8], 10, samples=200, seed=3)

  x       = pixels -> scale(3)
  max_bad = 1%
}

train large extends base {
  batch = 128
  lr    = 0.2
  groups {
    id {
      lr = 0.25
    }
    embed.lr = 2
  }
  eval.every = 5 steps
}

schedule deep extends hints {
  stages        = 4
  shard.id.over = 4
}

cluster big extends small {
  nodes   = 2
  network = ethernet(10Gbit/s)
  node.cores = 8
}

run all {
  data     = more
  train    = large
  schedule = deep
  cluster  = big
}
)");
  std::string base(kBase);
  base = base.substr(0, base.find("\ndata items"));
  const Checked written(base + R"(
data more {
  source train = synthetic([8], 10, samples=1000)
  source val   = synthetic([8], 10, samples=200, seed=3)

  x       = pixels -> scale(3)
  max_bad = 1%
}

train large {
  batch     = 128
  epochs    = 2
  loss      = softmax_ce(id, label, scale=16)
  optimizer = sgd(momentum=0.9)
  lr        = 0.2
  groups {
    id {
      lr           = 0.25
      weight_decay = 0
    }
    embed {
      lr = 2
    }
  }
  eval {
    every = 5 steps
    val   = accuracy(id, label, source=val)
  }
}

schedule deep {
  stages = 4
  shard id {
    over        = 4
    granularity = micro_batch
  }
}

cluster big {
  nodes   = 2
  network = ethernet(10Gbit/s)
  node {
    cores  = 8
    memory = 4GiB
  }
}
)");
  expect_same(extended, written);
}

TEST(Extends, AChainOfThreeIsResolvedForARun) {
  const Checked checked(std::string(kBase) + R"(
train large extends larger {
  batch = 512
}

train larger extends base {
  batch = 256
  seed  = 7
}

run one {
  schedule = hints
  train    = larger
}

run two extends one {
  train = large
}
)",
                        {.run = "two"});
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_EQ(checked.module().train.name, "large");
  EXPECT_EQ(checked.module().train.batch, 512);
  EXPECT_EQ(checked.module().train.seed, 7U);
  EXPECT_EQ(checked.module().train.lr[0].from, 0.1);
  EXPECT_EQ(checked.module().schedule.name, "hints");
}

TEST(Extends, StepsReplaceInheritedEpochs) {
  const Checked checked(std::string(kBase) +
                        "\ntrain large extends base {\n  batch = 64\n  steps = 10\n}\n"
                        "\nrun r {\n  train = large\n}\n");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_EQ(to_text(checked.module().train.duration), "10 steps");
}

TEST(Extends, ABaseMayBeIncompleteUntilItRuns) {
  const std::string large = "\ntrain large extends base {\n  batch = 64\n}\n";
  EXPECT_THAT(Checked(kBase + large + "\nrun r {\n  train = large\n}\n").codes(), IsEmpty());
  EXPECT_THAT(Checked(kBase + large + "\nrun r {\n  train = base\n}\n").codes(), ElementsAre("XG0501"));
  // A file without a model has no run, so it may be incomplete.
  EXPECT_THAT(Checked("train base {\n  precision = mixed(bf16)\n}\n\ntrain large extends base {\n  batch = 8192\n}\n"
                      "\nmoved \"backbone.conv\" -> \"backbone.stem\"\n")
                  .codes(),
              IsEmpty());
}

TEST(Extends, AFaultOfTheBaseIsReportedOnceAtItsPlace) {
  const Checked checked(std::string(kBase) + R"(
train wrong extends base {
  batchsize = 64
  seed      = 1 epoch
}

train large extends wrong {
  batch = 64
}

run r {
  train = large
}
)");
  EXPECT_THAT(checked.codes(), testing::UnorderedElementsAre("XG0210", "XG0107")) << checked.rendered();
}

TEST(Extends, SetFlagsReplaceInheritedAndOwnSettings) {
  const Checked checked(
      std::string(kBase) + "\ntrain large extends base {\n  batch = 64\n}\n\nrun r {\n  train = large\n}\n",
      {.sets = {{"train.groups.id.lr", "4"}, {"train.batch", "256"}}});
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_EQ(checked.module().train.batch, 256);
  EXPECT_THAT(text_of(checked), HasSubstr("groups.id.lr = 4"));
  EXPECT_THAT(text_of(checked), HasSubstr("groups.id.weight_decay = 0"));
}

// Names and paths in a declaration refer to the file that contains the declaration.
TEST(Extends, ADeclarationOfAnotherFileKeepsItsNamesAndItsDirectory) {
  namespace fs = std::filesystem;
  const fs::path dir = fs::path(testing::TempDir()) / "xrun_extends";
  fs::create_directories(dir / "parts");
  std::ofstream(dir / "parts/base.xgraph") << "xgraph 1\nlet rate = 0.25\nlet file = \"digits.csv\"\n"
                                              "data digits {\n  source train = csv(file, rows=0..10)\n"
                                              "  x = columns(0..8)\n  label = column(8) -> as_index(10)\n}\n"
                                              "train base {\n  epochs = 1\n  optimizer = sgd\n  lr = rate\n"
                                              "  loss = softmax_ce(y, label)\n}\n";
  std::ofstream(dir / "main.xgraph") << "xgraph 1\nfrom \"parts/base.xgraph\" use base, digits\n"
                                        "let rate = 7\n"
                                        "model net {\n  input x: f32[N, 8]\n  y = x -> linear(10)\n  output y\n}\n"
                                        "data mine extends digits {\n  max_bad = 1%\n}\n"
                                        "train large extends base {\n  batch = 8\n}\n"
                                        "run r {\n  data = mine\n  train = large\n}\n";
  const OpRegistry ops = test_ops::registry();
  SourceMap sources;
  Diagnostics diagnostics;
  const auto checked = load((dir / "main.xgraph").string(), sources, diagnostics, {.ops = &ops});
  ASSERT_TRUE(checked.has_value()) << render(diagnostics.all().front(), sources);
  EXPECT_EQ(checked->module.train.lr[0].from, 0.25);
  EXPECT_EQ(checked->module.data.sources[0].directory, (dir / "parts").string());
}

}  // namespace
}  // namespace xrun::lang
