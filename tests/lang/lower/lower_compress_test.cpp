// The setting `compress` of `train`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lang/print_module.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Checked with_compress(const std::string& value) { return Checked(small_run("  compress = " + value + "\n")); }

TEST(Compress, IsStoredPrintedAndPartOfTheMathDigest) {
  const Checked plain(small_run());
  const Checked checked = with_compress("topk(0.1%, per_layer=true, on=[embed], warmup=4000 samples)");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  const CompressSpec& compress = checked.module().train.compress;
  EXPECT_DOUBLE_EQ(compress.density, 0.001);
  EXPECT_THAT(compress.on, ElementsAre("embed"));
  ASSERT_TRUE(compress.warmup.has_value());
  EXPECT_EQ(to_text(*compress.warmup), "4000 samples");
  EXPECT_NE(checked.module().math_digest, plain.module().math_digest);
  EXPECT_NE(checked.module().math_digest,
            with_compress("topk(0.2%, on=embed, warmup=4000 samples)").module().math_digest);
  EXPECT_THAT(print_module(checked.module(), checked.file->run),
              HasSubstr("  compress = topk(0.1%, on=[embed], warmup=4000 samples)\n"));
  EXPECT_THAT(checked.module().not_yet, IsEmpty());
}

TEST(Compress, PerNodeIsStoredPrintedAndPartOfTheMathDigest) {
  const Checked checked = with_compress("topk(0.1%, per_node=true)");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_TRUE(checked.module().train.compress.per_node);
  const Checked plain = with_compress("topk(0.1%)");
  EXPECT_FALSE(plain.module().train.compress.per_node);
  EXPECT_NE(checked.module().math_digest, plain.module().math_digest);
  EXPECT_EQ(with_compress("topk(0.1%, per_node=false)").module().math_digest, plain.module().math_digest);
  EXPECT_THAT(print_module(checked.module(), checked.file->run), HasSubstr("  compress = topk(0.1%, per_node=true)\n"));
  EXPECT_THAT(print_module(plain.module(), plain.file->run), HasSubstr("  compress = topk(0.1%)\n"));
  const Checked number = with_compress("topk(0.1%, per_node=2)");
  EXPECT_THAT(number.codes(), testing::Not(IsEmpty())) << number.rendered();
}

TEST(Compress, NoneIsTheDefaultAndChangesNoDigest) {
  const Checked checked = with_compress("none");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_FALSE(checked.module().train.compress.is_on());
  EXPECT_EQ(checked.module().math_digest, Checked(small_run()).module().math_digest);
}

TEST(Compress, SharesOutOfRangeAreRejected) {
  for (const char* share : {"0%", "-1%", "101%", "2"}) {
    const Checked checked = with_compress("topk(" + std::string(share) + ")");
    EXPECT_THAT(checked.codes(), ElementsAre("XG0214")) << checked.rendered();
    EXPECT_THAT(checked.rendered(), HasSubstr("write a share above 0% and up to 100%"));
  }
}

TEST(Compress, PathsWithoutWeightsThatAreSentAreRejected) {
  const Checked unknown = with_compress("topk(1%, on=embod)");
  EXPECT_THAT(unknown.codes(), ElementsAre("XG0217")) << unknown.rendered();
  EXPECT_THAT(unknown.rendered(), HasSubstr("nothing is called `embod`"));
  const Checked head = with_compress("topk(1%, on=id)");
  EXPECT_THAT(head.codes(), ElementsAre("XG0217")) << head.rendered();
  EXPECT_THAT(head.rendered(), HasSubstr("whose class weights are sharded"));
  const Checked bias = with_compress("topk(1%, on=embed.bias)");
  EXPECT_THAT(bias.rendered(), HasSubstr("no weights of two dimensions or more")) << bias.rendered();
  const Checked frozen(small_run("  compress = topk(1%)\n  freeze = [embed]\n"));
  EXPECT_THAT(frozen.codes(), ElementsAre("XG0205")) << frozen.rendered();
}

TEST(Compress, OtherOptimizersAndOneThresholdAreReportedAsUnavailable) {
  for (const char* optimizer : {"adamw", "lamb", "adam"}) {
    const Checked checked(replaced(small_run("  compress = topk(1%)\n"), "sgd(momentum=0.9)", optimizer));
    ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
    ASSERT_EQ(checked.module().not_yet.size(), 1U) << optimizer;
    EXPECT_EQ(checked.module().not_yet[0].code, "XG0199");
  }
  const Checked together = with_compress("topk(1%, per_layer=false)");
  ASSERT_TRUE(together.file.has_value()) << together.rendered();
  EXPECT_EQ(together.module().not_yet.size(), 1U);
}

TEST(Compress, LarsAndNesterovAreAvailable) {
  for (const char* optimizer :
       {"sgd", "sgd(momentum=0.9, nesterov=true)", "lars", "lars(momentum=0)", "lars(weight_decay=0, trust=0.5)"}) {
    const Checked checked(replaced(small_run("  compress = topk(1%)\n"), "sgd(momentum=0.9)", optimizer));
    ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
    EXPECT_THAT(checked.module().not_yet, IsEmpty()) << optimizer;
  }
}

TEST(Compress, UnknownArgumentsAndSpansWithoutUnitsAreRejected) {
  EXPECT_THAT(with_compress("topk(1%, exact=false)").codes(), testing::Not(IsEmpty()));
  EXPECT_THAT(with_compress("topk()").codes(), testing::Not(IsEmpty()));
  EXPECT_THAT(with_compress("topk(1%, warmup=4)").codes(), ElementsAre("XG0107"));
  EXPECT_THAT(with_compress("topk(1%, warmup=0 steps)").codes(), ElementsAre("XG0214"));
}

}  // namespace
}  // namespace xrun::lang
