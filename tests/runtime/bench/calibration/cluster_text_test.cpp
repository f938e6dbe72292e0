#include "runtime/bench/calibration/cluster_text.h"

#include <gtest/gtest.h>

#include "graph/base/random.h"
#include "lang/format/format.h"
#include "lang/frontend.h"
#include "ops/op.h"

namespace xrun::runtime {
namespace {

Calibration random_calibration(uint64_t seed) {
  const RandomStream stream(seed, 0);
  uint64_t next = 0;
  const auto number = [&](double least, double most) {
    return least * std::pow(most / least, static_cast<double>(stream.uniform(next++)));
  };
  Calibration made{.instructions = "avx512_bf16"};
  for (CallTimes* calls : {&made.f32, &made.bf16}) {
    for (const char* kind : {"conv", "conv1x1_dx", "conv_depthwise_strided_dw", "bn_grad", "relu", "head"}) {
      for (int i = 0; i < 9; ++i) {
        (*calls)[kind].push_back({number(1, 1e12), number(1, 1e10), number(1e-8, 10)});
      }
    }
  }
  made.head_f32 = number(1e9, 1e12);
  made.head_bf16 = number(1e9, 1e13);
  made.update = number(1e8, 1e11);
  for (int i = 0; i < 5; ++i) {
    made.bandwidth.push_back(number(1e8, 1e12));
    made.slow_down.push_back(number(1, 5));
  }
  made.copy = {number(1e-7, 1e-4), number(1e8, 1e11)};
  made.all_gather = {0, number(1e8, 1e11)};
  made.reduce_scatter = {number(1e-7, 1e-4), number(1e8, 1e11)};
  made.hand_over = number(1e-7, 1e-4);
  made.decode = number(1e-10, 1e-7);
  return made;
}

TEST(ClusterText, IsInCanonicalLayoutAndHasTheFigures) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Calibration given = random_calibration(seed);
    const std::string text = cluster_text("gold", "AMD EPYC \"9454\" \\ {x}", 48, 64 * kGiB, given);
    SourceMap sources;
    Diagnostics diagnostics;
    EXPECT_EQ(lang::format("gold.xgraph", text, sources, diagnostics), text) << "seed " << seed;
    const auto file = lang::check_text("gold.xgraph", text, sources, diagnostics, {.ops = &ops::registry()});
    std::string faults;
    for (const Diagnostic& fault : diagnostics.all()) {
      faults += render(fault, sources);
    }
    ASSERT_TRUE(file) << "seed " << seed << "\n" << faults;
    EXPECT_EQ(faults, "");
    const Calibration& read = *file->run.figures.calibration;
    EXPECT_EQ(file->module.cluster.name, "gold");
    EXPECT_EQ(file->module.cluster.cpu, "AMD EPYC \"9454\" \\ {x}");
    EXPECT_EQ(file->module.cluster.cores, 48);
    EXPECT_EQ(file->module.cluster.memory, 64 * kGiB);
    EXPECT_EQ(read.instructions, given.instructions);
    ASSERT_EQ(read.bf16.size(), given.bf16.size());
    for (const auto& [kind, calls] : given.bf16) {
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_NEAR(read.bf16.at(kind)[i].time / calls[i].time, 1, 6e-3) << kind;
        EXPECT_NEAR(read.bf16.at(kind)[i].flops / calls[i].flops, 1, 6e-4) << kind;
      }
    }
    EXPECT_NEAR(read.bandwidth.back() / given.bandwidth.back(), 1, 6e-4);
    EXPECT_NEAR(*read.hand_over / *given.hand_over, 1, 6e-4);
    EXPECT_NEAR(read.decode / given.decode, 1, 6e-4);
    EXPECT_NEAR(read.all_gather.rate / given.all_gather.rate, 1, 6e-4);
  }
}

TEST(ClusterText, AFileNameThatIsNoNameGivesHere) {
  const std::string text = cluster_text("2 sockets", "cpu", 1, kGiB, random_calibration(1));
  EXPECT_NE(text.find("cluster here {"), std::string::npos);
}

}  // namespace
}  // namespace xrun::runtime
