// Traces are decoded by the schema of PyPI's `perfetto`, if it is installed (XRUN_PERFETTO_PYTHON names another
// Python), and compared with the plan.
#include "planner/report/page/trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "planner/report/page/memory_curve.h"
#include "planner/report/page/protobuf_writer.h"
#include "planner/report/page/schedule_json.h"
#include "planner/report/summary.h"
#include "tests/planner/report/page/planned_pages.h"

namespace xrun::planner {
namespace {

using Json = nlohmann::json;

std::string python() {
  const char* named = std::getenv("XRUN_PERFETTO_PYTHON");
  return named != nullptr ? named : "python3";
}

bool has_perfetto() {
  return std::system(
             (python() + " -c 'import perfetto.protos.perfetto.trace.perfetto_trace_pb2' 2>/dev/null").c_str()) == 0;
}

// Returns the contents of a trace by the schema of Perfetto.
Json read_trace(const std::string& trace) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("xrun-trace-" + std::to_string(::getpid()) + ".pftrace");
  std::ofstream(file, std::ios::binary) << trace;
  const std::string command =
      python() + " " XRUN_SOURCE_DIR "/tests/planner/report/page/read_trace.py " + file.string();
  std::string text;
  std::FILE* out = ::popen(command.c_str(), "r");
  std::array<char, 4096> part{};
  for (size_t got = 0; (got = std::fread(part.data(), 1, part.size(), out)) > 0;) {
    text.append(part.data(), got);
  }
  EXPECT_EQ(::pclose(out), 0);
  std::filesystem::remove(file);
  return Json::parse(text);
}

// The examples of https://protobuf.dev/programming-guides/encoding/.
TEST(Trace, NumbersAreVarints) {
  ProtobufWriter writer;
  writer.number(1, 150);
  writer.text(2, "testing");
  writer.fixed64(3, 1);
  EXPECT_EQ(writer.bytes(), std::string("\x08\x96\x01\x12\x07testing\x19\x01\0\0\0\0\0\0\0", 21));
  ProtobufWriter negative;
  negative.number(1, static_cast<uint64_t>(int64_t{-1}));
  EXPECT_EQ(negative.bytes().size(), 11U);
}

TEST(Trace, HasTheSlicesFlowsAndCountersOfThePlan) {
  if (!has_perfetto()) {
    GTEST_SKIP() << "the Python package perfetto is not installed (XRUN_PERFETTO_PYTHON names another python)";
  }
  const testing::PlannedPage page = testing::plan_page(4, 2, 2);
  const Program& program = page.plan.training;
  const ProgramTimes times = times_of(page.plan);
  const Json trace = read_trace(perfetto_trace(page.plan));
  ASSERT_EQ(trace["slices"].size(), program.instructions.size());
  std::map<uint64_t, int> flow_ends;  // the instruction at which a flow ends
  for (const Json& slice : trace["slices"]) {
    for (const Json& flow : slice["ending_flows"]) {
      EXPECT_TRUE(flow_ends.emplace(flow.get<uint64_t>(), slice["id"].get<int>()).second);
    }
  }
  size_t flows = 0;
  for (const Json& slice : trace["slices"]) {
    const auto id = slice["id"].get<size_t>();
    EXPECT_EQ(slice["begin"], whole_nanoseconds(times.instructions[id].start));
    EXPECT_EQ(slice["end"], whole_nanoseconds(times.instructions[id].end));
    const std::string track = std::to_string(slice["track"].get<uint64_t>());
    const std::string process = std::to_string(trace["tracks"][track][1].get<uint64_t>());
    const int device = program.instructions[id].device;
    EXPECT_EQ(trace["tracks"][process][0], device == kHost ? "host" : "device " + std::to_string(device));
    for (const Json& flow : slice["flows"]) {
      ++flows;
      const Instruction& to = program.instructions[static_cast<size_t>(flow_ends.at(flow.get<uint64_t>()))];
      EXPECT_TRUE(std::ranges::count(to.deps, InstructionId(id)) + std::ranges::count(to.releases, InstructionId(id)) >
                  0);
    }
  }
  EXPECT_EQ(flows, flow_ends.size());
  EXPECT_GT(flows, 4U);
  size_t points = 0;
  for (const MemoryCurve& curve : memory_curves(program, times)) {
    points += curve.points.size();
  }
  EXPECT_EQ(trace["counters"].size(), points);
}

}  // namespace
}  // namespace xrun::planner
