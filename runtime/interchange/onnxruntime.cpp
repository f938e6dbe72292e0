// Tests: tests/runtime/cli/commands/export_test.cpp
#include "runtime/interchange/onnxruntime.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <optional>

#include "graph/base/errors.h"
#include "graph/os/child_process.h"

namespace xrun::runtime {
namespace {

constexpr Seconds kPatience = 600;
constexpr int kNotRun = 3;  // exit status of the script if a package is missing or too old; it prints the reason

constexpr const char* kImports = "import numpy, onnxruntime";

// Arguments: the model, the folder, the number of rows, then for each input its name, NumPy type and the dimensions of
// a row.
constexpr const char* kScript = R"(
import sys
try:
    import numpy, onnxruntime
except ImportError as missing:
    print(missing, '(python3 -m pip install onnxruntime, or --python)')
    sys.exit(3)
model, folder, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
try:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
except Exception as fault:
    later = "Unsupported model IR version", "under development", "NOT_IMPLEMENTED"
    if not any(text in str(fault) for text in later):
        raise
    print("onnxruntime", onnxruntime.__version__, "is too old for this file")
    sys.exit(3)
feed = {}
for i, text in enumerate(sys.argv[4:]):
    name, dtype, dims = text.split("\t")
    shape = [rows] + [int(d) for d in dims.split(",") if d]
    feed[name] = numpy.fromfile(f"{folder}/in{i}", dtype).reshape(shape)
for i, result in enumerate(session.run(None, feed)):
    numpy.ascontiguousarray(result).tofile(f"{folder}/out{i}")
print("version", onnxruntime.__version__)
)";

std::string_view numpy_type(ops::OnnxType type) {
  switch (type) {
    case ops::OnnxType::kUint8:
      return "|u1";
    case ops::OnnxType::kInt32:
      return "<i4";
    case ops::OnnxType::kInt64:
      return "<i8";
    case ops::OnnxType::kBool:
      return "|b1";
    case ops::OnnxType::kDouble:
      return "<f8";
    case ops::OnnxType::kFloat8:  // no input has it
    case ops::OnnxType::kFloat:
      break;
  }
  return "<f4";
}

Status write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return out.flush() ? Status()
                     : Status(world_error("XG0901", {"cannot write {}", path}, "free some space, or export elsewhere"));
}

std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::byte> bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

// The last line of a text, which is where Python names an exception.
std::string last_line(std::string text) {
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return text.substr(text.rfind('\n') + 1).substr(0, 500);
}

}  // namespace

Status check_onnxruntime(const std::string& python) {
  ChildProcess child;
  if (child.start({python, "-c", kImports}, {.output = "/dev/null"}) != 0) {
    return usage_error(
        "XG0905", {"`--python {}` cannot be started", python},
        "name a Python that has onnxruntime, or leave the flag out: then `python3` is used if it has it");
  }
  if (child.wait_at_most(kPatience) != 0) {
    return usage_error("XG0905", {"`--python {}` has no onnxruntime or no NumPy", python},
                       {"install them (`{} -m pip install onnxruntime`), or leave the flag out", python});
  }
  return {};
}

Result<OnnxRun> run_in_onnxruntime(const std::string& python, const std::string& file, const ops::OnnxGraph& graph,
                                   std::span<const OnnxRunInput> inputs, int64_t rows, const std::string& folder,
                                   StopFlag stop) {
  std::vector<std::string> words{python, "-c", kScript, file, folder, std::to_string(rows)};
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ops::OnnxValue& input = graph.inputs[i];
    const auto given = std::ranges::find(inputs, input.name, &OnnxRunInput::name);
    XRUN_TRY(write_bytes(fmt::format("{}/in{}", folder, i), given->rows));
    words.push_back(fmt::format("{}\t{}\t{}", input.name, numpy_type(input.type), fmt::join(given->dims, ",")));
  }
  const std::string log = folder + "/log";
  ChildProcess child;
  if (child.start(words, {.output = log}) != 0) {
    return OnnxRun{.why = fmt::format("`{}` cannot be started (name a Python that has onnxruntime: --python)", python)};
  }
  const std::optional<int> status = child.wait_at_most(kPatience, stop);
  XRUN_TRY(check_stop(stop));
  const std::vector<std::byte> said = read_bytes(log);
  const std::string text = last_line({reinterpret_cast<const char*>(said.data()), said.size()});
  if (status == kNotRun) {
    return OnnxRun{.why = text};
  }
  if (!status) {
    return OnnxRun{.why = fmt::format("`{}` did not end within {} s", python, kPatience)};
  }
  if (*status > kSignalled) {
    return OnnxRun{.why = fmt::format("`{}` was ended by a signal, perhaps for lack of memory", python)};
  }
  if (*status != 0) {
    return content_error("XG0932", {"onnxruntime rejects the model: {}", text},
                         "no file was written; please report this with the model, or name a Python with another "
                         "onnxruntime: --python");
  }
  OnnxRun run{.ran = true, .version = text.starts_with("version ") ? text.substr(8) : text};
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    run.outputs.push_back(read_bytes(fmt::format("{}/out{}", folder, i)));
  }
  return run;
}

}  // namespace xrun::runtime
