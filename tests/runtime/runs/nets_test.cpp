// The networks of std/nets, and models with products, attention and norms, can be trained: the loss falls, and every
// plan gives the bits of one device.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/base/random.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

struct Net {
  const char* name;
  const char* use;   // name that is imported from std/nets
  const char* call;  // call on `image`, a picture of `shape`
  const char* shape;
};

std::ostream& operator<<(std::ostream& out, const Net& net) { return out << net.name; }

constexpr Net kNets[] = {
    {"swin", "swin", "swin(8, [2, 2, 2, 2], [1, 2, 2, 4], window=2, patch=2, drop=0.1)", "3, 16, 16"},
    {"vit", "vit", "vit(16, 2, 2, 4, drop=0.1)", "3, 16, 16"},
    {"resnet", "basic_stage", "conv(8, 3, stride=2) -> basic_stage(16, 2) -> global_avg_pool", "3, 16, 16"},
    {"iresnet", "improved_stage", "conv(8, 3, stride=2) -> improved_stage(16, 2) -> flatten", "3, 16, 16"},
    {"mobilefacenet", "inverted_stage", "conv(8, 3, stride=2) -> inverted_stage(8, 2, 2) -> flatten -> linear(16)",
     "3, 16, 16"},
    {"amoebanet", "amoebanet_d", "amoebanet_d(3, 16)", "3, 32, 32"},
    {"efficientnet", "mbconv_stage",
     "conv(8, 3, stride=2) -> mbconv_stage(8, 3, 2, stride=2) -> mbconv_stage(16, 5, 1) -> global_avg_pool",
     "3, 16, 16"},
};

std::string text_of(const Net& net) {
  return fmt::format(R"(xgraph 1

from "std/nets" use {}

model small {{
  input image: f32[N, {}]

  logits = image -> {} -> linear(8)
  output logits
}}

data made {{
  source train = synthetic([{}], 8, 320)

  image = pixels
}}

train quick {{
  batch     = 32
  steps     = 50
  norm_rows = 8
  loss      = softmax_ce(logits, label)
  optimizer = adamw
  lr        = 2e-3
  log {{
    every = 1 step
  }}
}}
)",
                     net.use, net.shape, net.call, net.shape);
}

// Trains in a directory of its own, and holds the losses of the steps and the digest of the weights.
struct Trained {
  std::vector<double> losses;
  std::string weights;
};

Trained train(const TemporaryDirectory& directory, const std::string& out, const std::vector<std::string>& flags) {
  std::vector<std::string> words{"train", "net.xgraph", "--deterministic", "--progress", "json", "-C", out};
  words.insert(words.end(), flags.begin(), flags.end());
  CommandOptions options;
  options.directory = directory.path();
  const auto result = run_xrun(words, options);
  EXPECT_EQ(result.exit, 0) << result.err;
  Trained run;
  std::string line;
  for (std::istringstream in(result.out); std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("t") == "step") {
      run.losses.push_back(event.at("loss"));
    } else if (event.at("t") == "end") {
      run.weights = event.at("weights");
    }
  }
  return run;
}

const std::vector<std::string> kTwoStages{"--devices",         "2",     "--set",
                                          "schedule.stages=2", "--set", "schedule.micro_batches=4"};

class Nets : public ::testing::TestWithParam<Net> {
 protected:
  TemporaryDirectory directory;
};

TEST_P(Nets, LearnAndHaveTheSameBitsInTwoStages) {
  directory.write("net.xgraph", text_of(GetParam()));
  const Trained one = train(directory, "one", {"--devices", "1"});
  ASSERT_EQ(one.losses.size(), 50U);
  EXPECT_LT(one.losses.back(), 0.7 * one.losses.front());
  EXPECT_EQ(train(directory, "two", kTwoStages).weights, one.weights);
}

INSTANTIATE_TEST_SUITE_P(StandardLibrary, Nets, ::testing::ValuesIn(kNets),
                         [](const auto& given) { return std::string(given.param.name); });

// Products with parameters, transposed convolutions, group norm, windows and masks in one model.
constexpr const char* kProducts = R"(xgraph 1

block low_rank(x: [N, T, D], r: int) -> [N, T, D] {
  param a: [D, r] = xavier_normal()
  param b: [r, D] = normal(0.1)
  return x + (x -> matmul(a) -> einsum(b, "ntr,rd->ntd"))
}

model small {
  input image: f32[N, 3, 8, 8]

  h = image -> conv(16, 3, stride=2, init=xavier_normal()) -> group_norm(4) -> gelu
    -> deconv(8, 2, stride=2, bias=true) -> group_norm(2) -> silu
  s = h -> flatten(2) -> transpose(1, 2) -> low_rank(4)
  t = s -> attention(2, window=4, shift=2, relative=true) -> attention(2, causal=true)
  k = t -> matmul(t -> transpose(1, 2)) -> softmax -> matmul(s)
  logits = k -> mean(1) -> linear(8, init=lecun_normal())
  output logits
}

data made {
  source train = synthetic([3, 8, 8], 8, 320)

  image = pixels
}

train quick {
  batch     = 32
  steps     = 50
  norm_rows = 4
  loss      = softmax_ce(logits, label)
  optimizer = adamw
  lr        = 4e-3
  log {
    every = 1 step
  }
}
)";

TEST(Products, HaveTheSameBitsInEveryPlan) {
  const TemporaryDirectory directory;
  directory.write("net.xgraph", kProducts);
  for (const std::string precision : {"f32", "mixed(bf16)"}) {
    const auto run = [&](const std::string& out, std::vector<std::string> flags) {
      flags.insert(flags.end(), {"--set", "train.precision=" + precision});
      return train(directory, out + precision, flags);
    };
    const Trained one = run("one", {"--devices", "1"});
    ASSERT_EQ(one.losses.size(), 50U);
    EXPECT_LT(one.losses.back(), 0.6 * one.losses.front()) << precision;
    EXPECT_EQ(run("stages", kTwoStages).weights, one.weights) << precision;
    EXPECT_EQ(run("replicas",
                  {"--devices", "4", "--set", "schedule.replicas=2", "--set", "schedule.stages=1", "--threads", "5"})
                  .weights,
              one.weights)
        << precision;
    EXPECT_EQ(run("recomputed", {"--devices", "2", "--set", "schedule.stages=2", "--set", "schedule.micro_batches=2",
                                 "--set", "schedule.pipeline=one_f_one_b", "--set", "schedule.recompute=all"})
                  .weights,
              one.weights)
        << precision;
  }
}

// The output of the last position must be the first of eight tokens, which only attention can carry there.
TEST(TextEncoder, LearnsToCopyATokenFromTheBeginningToTheEnd) {
  const TemporaryDirectory directory;
  const RandomStream stream(3, 0);
  std::string rows;
  for (uint64_t i = 0; i < 1200; ++i) {
    for (uint64_t t = 0; t < 8; ++t) {
      rows += fmt::format("{}{}", stream.below(8 * i + t, 12), t < 7 ? "," : "\n");
    }
  }
  directory.write("words.csv", rows);
  directory.write("net.xgraph", R"(xgraph 1

from "std/nets" use text_encoder

model copy {
  input text: index(12)[N, 8]

  logits = text -> text_encoder(12, 32, 2, 4) -> take(7) -> linear(12)
  output logits
}

data words {
  source train = csv("words.csv", rows=0..1000)
  source test  = csv("words.csv", rows=1000..1200)

  text  = columns(0..8) -> as_index(12)
  label = column(0) -> as_index(12)
}

train quick {
  batch     = 64
  steps     = 120
  norm_rows = 8
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = [warmup(0 .. 4e-3, 10 steps), cosine(4e-3 .. 0)]
  log {
    every = 1 step
  }
}
)");
  const Trained one = train(directory, "one", {"--devices", "1"});
  ASSERT_FALSE(one.losses.empty());
  EXPECT_GT(one.losses.front(), 2);
  EXPECT_LT(one.losses.back(), 0.1);
  EXPECT_EQ(train(directory, "two", kTwoStages).weights, one.weights);
}

// Every position has a loss and an accuracy. The first position has no token before it, so its label is its own token.
TEST(TextEncoder, LearnsTheTokenBeforeAtEveryPosition) {
  const TemporaryDirectory directory;
  const RandomStream stream(4, 0);
  std::string rows;
  for (uint64_t i = 0; i < 1200; ++i) {
    std::string tokens;
    std::string before;
    std::string labels;
    for (uint64_t t = 0; t < 6; ++t) {
      const auto token = std::to_string(stream.below(8 * i + t, 9));
      tokens += token + ",";
      labels += (t == 0 ? token : before) + (t < 5 ? "," : "\n");
      before = token;
    }
    rows += tokens + labels;
  }
  directory.write("words.csv", rows);
  directory.write("net.xgraph", R"(xgraph 1

from "std/nets" use text_encoder

model before {
  input text: index(9)[N, 6]

  logits = text -> text_encoder(9, 32, 2, 4) -> linear(9)
  output logits
}

data words {
  source train = csv("words.csv", rows=0..1000)
  source test  = csv("words.csv", rows=1000..1200)

  text  = columns(0..6) -> as_index(9)
  label = columns(6..12) -> as_index(9)
}

train quick {
  batch     = 64
  steps     = 120
  norm_rows = 8
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = adamw
  lr        = [warmup(0 .. 4e-3, 10 steps), cosine(4e-3 .. 0)]
  log {
    every = 1 step
  }
}
)");
  const Trained one = train(directory, "one", {"--devices", "1"});
  ASSERT_FALSE(one.losses.empty());
  EXPECT_GT(one.losses.front(), 1.8);
  EXPECT_LT(one.losses.back(), 0.1);
  EXPECT_EQ(train(directory, "two", kTwoStages).weights, one.weights);
}

}  // namespace
}  // namespace xrun::testing
