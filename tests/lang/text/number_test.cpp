#include "lang/text/number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

struct Read {
  Number number;
  std::string rest;
  std::vector<std::string> faults;  // "code@text"
};

Read read(const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const int32_t file = sources.add("a", text);
  Read out;
  {
    Faults faults(diagnostics);
    uint32_t end = 0;
    out.number = lex_number(sources.text(file), file, 0, end, faults);
    faults.flush();
    out.rest = text.substr(end);
  }
  for (const Diagnostic& d : diagnostics.all()) {
    out.faults.push_back(d.code + "@" + std::string(sources.text(d.primary.span)));
  }
  out.number.text = {};  // the view ends with this function
  return out;
}

int64_t whole(const std::string& text) {
  const Read out = read(text);
  EXPECT_TRUE(out.faults.empty()) << text << ": " << testing::PrintToString(out.faults);
  EXPECT_TRUE(out.number.is_whole) << text;
  EXPECT_EQ(out.rest, "") << text;
  return static_cast<int64_t>(out.number.whole);
}

double real(const std::string& text) {
  const Read out = read(text);
  EXPECT_TRUE(out.faults.empty()) << text << ": " << testing::PrintToString(out.faults);
  EXPECT_FALSE(out.number.is_whole) << text;
  EXPECT_EQ(out.rest, "") << text;
  return out.number.value;
}

double base(const std::string& text, Dimension dimension) {
  const Read out = read(text);
  EXPECT_TRUE(out.faults.empty()) << text << ": " << testing::PrintToString(out.faults);
  EXPECT_EQ(out.number.dimension(), dimension) << text;
  EXPECT_EQ(out.rest, "") << text;
  return out.number.in_base();
}

TEST(Number, WholeNumbersAreExact) {
  EXPECT_EQ(whole("0"), 0);
  EXPECT_EQ(whole("16_384"), 16384);
  EXPECT_EQ(whole("0x4E00"), 0x4E00);
  EXPECT_EQ(whole("0x9fa6"), 0x9FA6);
  EXPECT_EQ(whole("10k"), 10'000);
  EXPECT_EQ(whole("100M"), 100'000'000);
  EXPECT_EQ(whole("1G"), 1'000'000'000);
  EXPECT_EQ(whole("2T"), 2'000'000'000'000);
  EXPECT_EQ(whole("1.5M"), 1'500'000);
  EXPECT_EQ(whole("1.50k"), 1500);
  EXPECT_EQ(whole("9223372036854775807"), INT64_MAX);
}

TEST(Number, FractionsAreRoundedOnce) {
  EXPECT_EQ(real("0.1"), 0.1);
  EXPECT_EQ(real("5e-4"), 5e-4);
  EXPECT_EQ(real("3e+2"), 300.0);
  EXPECT_EQ(real("4.0"), 4.0);
  EXPECT_EQ(real("10%"), 0.1);
  EXPECT_EQ(real("0.1%"), 0.001);
  EXPECT_EQ(real("0.0001k"), 0.1);
  EXPECT_EQ(real("1e-7"), 1e-7);
}

TEST(Number, ValuesWithUnitsAreConvertedToTheBaseUnit) {
  EXPECT_EQ(base("16GiB", Dimension::kSize), 17179869184.0);
  EXPECT_EQ(base("16GB", Dimension::kSize), 16e9);
  EXPECT_EQ(base("8bit", Dimension::kSize), 1.0);
  EXPECT_EQ(base("25Gbit/s", Dimension::kRate), 3.125e9);
  EXPECT_EQ(base("150GB/s", Dimension::kRate), 150e9);
  EXPECT_EQ(base("20us", Dimension::kTime), 20e-6);
  EXPECT_EQ(base("2h", Dimension::kTime), 7200.0);
  EXPECT_EQ(base("0.5min", Dimension::kTime), 30.0);
  EXPECT_EQ(base("312TFLOPS", Dimension::kCompute), 312e12);
  EXPECT_EQ(base("250W", Dimension::kPower), 250.0);
  EXPECT_EQ(base("2.5GHz", Dimension::kClock), 2.5e9);
  EXPECT_EQ(base("20 epochs", Dimension::kEpochs), 20.0);
  EXPECT_EQ(base("1 epoch", Dimension::kEpochs), 1.0);
  EXPECT_EQ(base("10k steps", Dimension::kSteps), 10000.0);
  EXPECT_EQ(base("1M samples", Dimension::kSamples), 1e6);
}

TEST(Number, WholeInBaseIsEmptyUnlessItIsExact) {
  EXPECT_EQ(static_cast<int64_t>(*read("16GiB").number.whole_in_base()), int64_t{16} << 30);
  EXPECT_EQ(static_cast<int64_t>(*read("25Gbit/s").number.whole_in_base()), 3'125'000'000);
  EXPECT_FALSE(read("3bit").number.whole_in_base().has_value());
  EXPECT_FALSE(read("0.1s").number.whole_in_base().has_value());
  EXPECT_FALSE(read("100000000000000000000000000000000000000TB").number.whole_in_base().has_value());
}

TEST(Number, EndsBeforeTextThatIsNotPartOfIt) {
  EXPECT_EQ(read("0..10").rest, "..10");
  EXPECT_EQ(read("1 / s").rest, " / s");
  EXPECT_EQ(read("100M/s").rest, "/s");
  EXPECT_EQ(read("3ms/steps").rest, "/steps");
  EXPECT_EQ(read("10 % 3").rest, " % 3");
  EXPECT_EQ(read("3 in 2").rest, " in 2");
  EXPECT_EQ(read("20 epochs_done").rest, " epochs_done");
  EXPECT_EQ(read("20\nepochs").rest, "\nepochs");
  for (const char* text : {"0..10", "1 / s", "100M/s", "3ms/steps", "10 % 3", "3 in 2", "20 epochs_done"}) {
    EXPECT_THAT(read(text).faults, testing::IsEmpty()) << text;
  }
}

TEST(Number, EachFaultIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"1.", "XG0105@1."},
      {"1.x", "XG0105@1."},
      {"1_", "XG0105@1_"},
      {"1__0", "XG0105@1__0"},
      {"0x", "XG0105@0x"},
      {"0x1Fk", "XG0105@k"},
      {"0x1F%", "XG0105@%"},
      {"0X1F", "XG0105@0X"},
      {"0x1FGiB", "XG0105@GiB"},
      {"0x1F epochs", "XG0105@ "},
      {"10K", "XG0108@K"},
      {"10kb", "XG0108@kb"},
      {"25gbit/s", "XG0108@gbit/s"},
      {"5E-4", "XG0108@E"},
      {"5foo", "XG0108@foo"},
      {"20epochs", "XG0108@epochs"},
      {"20  epochs", "XG0108@epochs"},
      {"16 GiB", "XG0108@GiB"},
      {"20 us", "XG0108@us"},
      {"1 M", "XG0108@M"},
      {"10%x", "XG0108@x"},
      {"10% epochs", "XG0108@epochs"},
      {"1e999", "XG0109@1e999"},
      {"1e-999", "XG0109@1e-999"},
      {"999999999999999999999999999999999999999", "XG0109@999999999999999999999999999999999999999"},
      {"0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "XG0109@0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"},
  };
  for (const auto& [text, fault] : cases) {
    const Read out = read(text);
    EXPECT_THAT(out.faults, testing::ElementsAre(fault)) << text;
  }
}

TEST(Number, MechanicalFixesAreOffered) {
  const auto fix = [](const std::string& text) {
    SourceMap sources;
    Diagnostics diagnostics;
    const int32_t file = sources.add("a", text);
    Faults faults(diagnostics);
    uint32_t end = 0;
    (void)lex_number(sources.text(file), file, 0, end, faults);
    faults.flush();
    EXPECT_FALSE(diagnostics.all().empty()) << text;
    EXPECT_FALSE(diagnostics.all()[0].fixes.empty()) << text;
    const Edit& edit = diagnostics.all()[0].fixes[0].edits[0];
    return text.substr(0, edit.span.begin) + edit.text + text.substr(edit.span.end);
  };
  EXPECT_EQ(fix("20epochs"), "20 epochs");
  EXPECT_EQ(fix("20  epochs"), "20 epochs");
  EXPECT_EQ(fix("16 GiB"), "16GiB");
  EXPECT_EQ(fix("1 M"), "1M");
  EXPECT_EQ(fix("10K"), "10k");
  EXPECT_EQ(fix("25gbit/s"), "25Gbit/s");
  EXPECT_EQ(fix("5E-4"), "5e-4");
  EXPECT_EQ(fix("0X1F"), "0x1F");
}

TEST(UnitTable, SpellingsAreUniqueAndFound) {
  std::set<std::string_view> seen;
  for (size_t i = 0; i < unit_table().size(); ++i) {
    EXPECT_TRUE(seen.insert(unit_table()[i].text).second) << unit_table()[i].text;
    if (i > 0) {
      EXPECT_EQ(find_unit(unit_table()[i].text), static_cast<Unit>(i));
    }
  }
  EXPECT_FALSE(find_unit("").has_value());
  EXPECT_FALSE(find_unit("gib").has_value());
}

}  // namespace
}  // namespace xrun::lang
