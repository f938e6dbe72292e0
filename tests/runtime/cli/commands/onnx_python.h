// The Python in which tests run exported ONNX files.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace xrun::testing {

// Returns a Python that has onnxruntime: the one in XRUN_ONNX_PYTHON, or the one that `make test` installs. Empty:
// none.
inline std::string find_onnxruntime() {
  const char* given = std::getenv("XRUN_ONNX_PYTHON");
  for (const std::string& python :
       {std::string(given == nullptr ? "" : given), std::string(XRUN_SOURCE_DIR) + "/build/onnx-venv/bin/python3"}) {
    if (!python.empty() && std::filesystem::exists(python) &&
        std::system(("'" + python + "' -c 'import onnxruntime, onnx' >/dev/null 2>&1").c_str()) == 0) {
      return python;
    }
  }
  return "";
}

// Adds `--python` if a Python has onnxruntime; otherwise an export compares nothing.
inline std::vector<std::string> with_onnxruntime(std::vector<std::string> words) {
  if (const std::string python = find_onnxruntime(); !python.empty()) {
    words.insert(words.end(), {"--python", python});
  }
  return words;
}

}  // namespace xrun::testing
