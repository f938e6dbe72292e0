// The lines that report the progress of a long search for a plan.
#include "runtime/cli/model/search_watch.h"

#include <gmock/gmock.h>
#include <thread>

namespace xrun::cli {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(SearchWatch, PrintsTheProgressOfTheSearch) {
  std::string text;
  const Console console(GlobalOptions{}, &text);
  {
    SearchWatch watch(console, 5ms);
    watch.set("program 2 of at most 6 (stages = 1, micro_batches = 4)");
    std::this_thread::sleep_for(200ms);
  }
  EXPECT_THAT(text, HasSubstr("planning for 0 s: program 2 of at most 6 (stages = 1, micro_batches = 4)\n"));
}

TEST(SearchWatch, PrintsNothingForAShortSearch) {
  std::string text;
  const Console console(GlobalOptions{}, &text);
  {
    SearchWatch watch(console);
    watch.set("program 1");
  }
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace xrun::cli
