// Measures the whole front end, from text to checked module, on texts of 4 MiB, the largest that it reads. Some look
// like texts that a program has written, and some are hostile.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "lang/format/format.h"
#include "lang/frontend.h"
#include "lang/syntax/parser.h"
#include "tests/lang/test_ops.h"

namespace xrun::lang {
namespace {

constexpr size_t kBytes = size_t{4} << 20;

// Repeats `line` as often as it fits between `before` and `after`. {0} stands for the number of the line, and {1} for
// that of the line before.
std::string text_of(const std::string& before, const char* line, const std::string& after) {
  std::string text = "xgraph 1\n" + before;
  for (int64_t i = 1;; ++i) {
    const std::string next = fmt::format(fmt::runtime(line), i, i - 1);
    if (text.size() + next.size() + after.size() > kBytes) {
      return text + after;
    }
    text += next;
  }
}

void check(benchmark::State& state, const std::string& before, const char* line, const std::string& after) {
  const OpRegistry ops = test_ops::registry();
  const std::string text = text_of(before, line, after);
  size_t faults = 0;
  for (auto _ : state) {
    SourceMap sources;
    Diagnostics diagnostics;
    benchmark::DoNotOptimize(check_text("bench.xgraph", text, sources, diagnostics, {.ops = &ops}));
    faults = diagnostics.all().size();
  }
  state.counters["faults"] = static_cast<double>(faults);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

// Measures the lexer and the parser alone.
void parse_only(benchmark::State& state, const std::string& before, const char* line, const std::string& after) {
  const std::string text = text_of(before, line, after);
  for (auto _ : state) {
    SourceMap sources;
    Diagnostics diagnostics;
    const int32_t file = sources.add("bench.xgraph", text);
    benchmark::DoNotOptimize(parse(sources, file, diagnostics));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

// Measures the formatter. Some results are larger than a file may be, which is detected only at the end.
void format_only(benchmark::State& state, const std::string& before, const char* line, const std::string& after) {
  const std::string text = text_of(before, line, after);
  for (auto _ : state) {
    SourceMap sources;
    Diagnostics diagnostics;
    benchmark::DoNotOptimize(format("bench.xgraph", text, sources, diagnostics));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

const std::string kModel = "model m {\n  input x: f32[N, 8]\n  y0 = x\n";

#define XRUN_FRONTEND_BENCH(name, before, line, after) \
  BENCHMARK_CAPTURE(check, name, before, line, after)->Unit(benchmark::kMillisecond)

#define XRUN_PARSE_BENCH(name, before, line, after) \
  BENCHMARK_CAPTURE(parse_only, name, before, line, after)->Unit(benchmark::kMillisecond)

#define XRUN_FORMAT_BENCH(name, before, line, after) \
  BENCHMARK_CAPTURE(format_only, name, before, line, after)->Unit(benchmark::kMillisecond)

XRUN_PARSE_BENCH(constants, "let a0 = 1\n", "let a{0} = 2 * a{1} - (a{1} + 1) // 3\n", "");
XRUN_PARSE_BENCH(numbers, "let a = [\n", "  {0}, 0x{0}, {0}.5, {0}e3, {0}KiB,\n", "]\n");
XRUN_PARSE_BENCH(strings, "let a = [\n", "  \"a string of {0} with \\u{{41}} and \\n\",\n", "]\n");
XRUN_PARSE_BENCH(sum, "let a = 0\n", "let b{0} = 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14\n", "");
XRUN_PARSE_BENCH(layers, kModel, "  y{0} = y{1} -> linear(8) -> relu as act{0}\n", "  output y1\n}\n");
XRUN_PARSE_BENCH(pipe, kModel + "  y = x\n", "    -> linear(8) -> relu\n", "  output y\n}\n");

XRUN_FORMAT_BENCH(constants, "let a0 = 1\n", "let a{0} = 2 * a{1} - (a{1} + 1) // 3\n", "");
XRUN_FORMAT_BENCH(strings, "let a = [\n", "  \"a string of {0} with \\u{{41}} and \\n\",\n", "]\n");
XRUN_FORMAT_BENCH(sum, "let a = 0\n", "let b{0} = 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14\n", "");
XRUN_FORMAT_BENCH(dense_sum, "let a = 0\n", "let b{0}=1+2+3+4+5+6+7+8+9+1+2+3+4+5\n", "");
XRUN_FORMAT_BENCH(layers, kModel, "  y{0} = y{1} -> linear(8) -> relu as act{0}\n", "  output y1\n}\n");
XRUN_FORMAT_BENCH(pipe, kModel + "  y = x\n", "    -> linear(8) -> relu\n", "  output y\n}\n");

XRUN_FRONTEND_BENCH(comments, "", "# a comment of the line {0} says what the next one means\n", "let a = 1\n");
XRUN_FRONTEND_BENCH(constants, "let a0 = 1\n", "let a{0} = 2 * a{1} - (a{1} + 1) // 3\n", "");
XRUN_FRONTEND_BENCH(numbers, "let a = [\n", "  {0}, 0x{0}, {0}.5, {0}e3, {0}KiB,\n", "]\n");
XRUN_FRONTEND_BENCH(strings, "let a = [\n", "  \"a string of {0} with \\u{{41}} and \\n\",\n", "]\n");
XRUN_FRONTEND_BENCH(sum, "let a = 0\n", "let b{0} = 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14\n", "");
XRUN_FRONTEND_BENCH(layers, kModel, "  y{0} = y{1} -> linear(8) -> relu as act{0}\n", "  output y1\n}\n");
XRUN_FRONTEND_BENCH(pipe, kModel + "  y = x\n", "    -> linear(8) -> relu\n", "  output y\n}\n");
XRUN_FRONTEND_BENCH(arithmetic, kModel, "  y{0} = y{1} + x * 2 - y{1} / 3\n", "  output y1\n}\n");
XRUN_FRONTEND_BENCH(blocks_called, "block b0(x: [N, D], k: int) {\n  return x -> relu\n}\n" + kModel,
                    "  y{0} = b0(y{1}, k={0})\n", "  output y1\n}\n");
XRUN_FRONTEND_BENCH(blocks_uncalled, "",
                    "block b{0}(x: [N, D], k: int = 2) {{\n  return x -> linear(D * k) -> relu\n}}\n", "");
XRUN_FRONTEND_BENCH(functions, "fn f0(x: int) = x\n", "fn f{0}(x: int) = f0(x) + {0}\nlet a{0} = f{0}(1)\n", "");
XRUN_FRONTEND_BENCH(settings, "train t {\n", "  key{0}.part = {0}\n", "}\n");
XRUN_FRONTEND_BENCH(tests, kModel + "  output y0\n}\n", "test \"{0}\" {{\n  expect shape(m) == [N, 8]\n}}\n", "");
XRUN_FRONTEND_BENCH(unknown_names, "let a = 1\n", "let b{0} = aa{0} + 1\n", "");
XRUN_FRONTEND_BENCH(unknown_operators, kModel, "  y{0} = x -> lineer(8)\n", "  output y0\n}\n");
XRUN_FRONTEND_BENCH(same_names, "", "let a = {0}\n", "");
XRUN_FRONTEND_BENCH(wrong_statements, "", "lett a{0} = 1\n", "");
XRUN_FRONTEND_BENCH(wrong_characters, "", "let a{0} = $ ; \\ @ ` ? ! ~\n", "");
XRUN_FRONTEND_BENCH(open_brackets, "let a = 1\n", "([{{", "");
XRUN_FRONTEND_BENCH(long_line, "let a = 1", " + 1", "\n");
XRUN_FRONTEND_BENCH(imports, "", "import \"std/nets\" as n{0}\n", "");
XRUN_FRONTEND_BENCH(uses, "", "from \"std/nets\" use r{0}, s{0}\n", "");

}  // namespace
}  // namespace xrun::lang
