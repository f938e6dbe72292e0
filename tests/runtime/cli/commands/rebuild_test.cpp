// Runs docs/reference/rebuild_in_pytorch.py if PyTorch is installed.
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;

// Returns the first Python that has PyTorch: the one in XRUN_TORCH_PYTHON, the one of `make bench`, or the system's.
std::string find_torch() {
  const char* given = std::getenv("XRUN_TORCH_PYTHON");
  const std::vector<std::string> pythons{
      given == nullptr ? "" : given, std::string(XRUN_SOURCE_DIR) + "/build/torch-venv/bin/python", "/usr/bin/python3"};
  for (const std::string& python : pythons) {
    if (!python.empty() && fs::exists(python) &&
        std::system(("'" + python + "' -c 'import torch' >/dev/null 2>&1").c_str()) == 0) {
      return python;
    }
  }
  return "";
}

TEST(Rebuild, ThreeModelsGiveTheSameInPyTorch) {
  const std::string python = find_torch();
  if (python.empty()) {
    GTEST_SKIP() << "no Python here has PyTorch: set XRUN_TORCH_PYTHON, or let `make bench` install it";
  }
  const TemporaryDirectory directory;
  const std::string output = directory.path() + "/output";
  const std::string command = "'" + python + "' '" + XRUN_SOURCE_DIR + "/docs/reference/rebuild_in_pytorch.py' '" +
                              XRUN_BINARY_DIR + "/xrun' >'" + output + "' 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << read_file(output);
  EXPECT_NE(read_file(output).find("vit: logits"), std::string::npos) << read_file(output);
}

}  // namespace
}  // namespace xrun::testing
