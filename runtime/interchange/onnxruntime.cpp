// Tests: tests/runtime/cli/commands/export_test.cpp
#include "runtime/interchange/onnxruntime.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/os/clock.h"

namespace xrun::runtime {
namespace {

constexpr Seconds kPatience = 600;
constexpr int kMissing = 3;  // exit status of the script if it cannot import a package

// Arguments: the model, the folder, the number of rows, then for each input its name, NumPy type and the dimensions of
// a row.
constexpr const char* kScript = R"(
import sys
try:
    import numpy, onnxruntime
except ImportError as missing:
    print(missing)
    sys.exit(3)
model, folder, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
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

// Starts the program with its output in a file, and returns its exit status; -1: it did not end in time, 127: it cannot
// be started.
int run_program(std::vector<std::string> words, const std::string& output) {
  std::vector<char*> arguments;
  std::ranges::transform(words, std::back_inserter(arguments), [](std::string& word) { return word.data(); });
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int fault = ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) {
    return 127;
  }
  int status = 0;
  const Seconds begin = system_clock().now();
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (system_clock().now() > begin + kPatience) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The last line of a text, which is where Python names an exception.
std::string last_line(std::string text) {
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return text.substr(text.rfind('\n') + 1).substr(0, 500);
}

}  // namespace

Result<OnnxRun> run_in_onnxruntime(const std::string& python, const std::string& file, const ops::OnnxGraph& graph,
                                   std::span<const OnnxRunInput> inputs, int64_t rows, const std::string& folder) {
  std::vector<std::string> words{python, "-c", kScript, file, folder, std::to_string(rows)};
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ops::OnnxValue& input = graph.inputs[i];
    const auto given = std::ranges::find(inputs, input.name, &OnnxRunInput::name);
    XRUN_TRY(write_bytes(fmt::format("{}/in{}", folder, i), given->rows));
    const std::vector<int64_t> row(input.dims.begin() + 1, input.dims.end());
    words.push_back(fmt::format("{}\t{}\t{}", input.name, numpy_type(input.type), fmt::join(row, ",")));
  }
  const std::string log = folder + "/log";
  const int status = run_program(std::move(words), log);
  const std::vector<std::byte> said = read_bytes(log);
  const std::string text = last_line({reinterpret_cast<const char*>(said.data()), said.size()});
  if (status == 127 || status == kMissing) {
    return OnnxRun{.why = status == 127 ? fmt::format("`{}` cannot be started", python) : text};
  }
  if (status != 0) {
    return content_error("XG0932",
                         status == -1 ? fmt::format("onnxruntime did not end within {} s", kPatience)
                                      : fmt::format("onnxruntime rejects the model: {}", text),
                         "report this with the model: xrun wrote a wrong file");
  }
  OnnxRun run{.ran = true, .version = text.starts_with("version ") ? text.substr(8) : text};
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    run.outputs.push_back(read_bytes(fmt::format("{}/out{}", folder, i)));
  }
  return run;
}

}  // namespace xrun::runtime
