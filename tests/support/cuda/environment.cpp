// Tests: tests/cuda/library_test.cpp
#include "tests/support/cuda/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <string>

namespace xrun::cuda::fake {
namespace {

std::string_view text_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? text : "";
}

int number_in(std::string_view text, int otherwise) {
  int number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

int number_of(const char* variable, int otherwise) { return number_in(text_of(variable), otherwise); }

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// The GPU of an entry of CUDA_VISIBLE_DEVICES; -1: none.
int gpu_of_entry(std::string_view entry, int gpus) {
  if (!entry.starts_with("GPU-")) {
    const int number = number_in(entry, -1);
    return number < gpus ? number : -1;
  }
  int found = -1;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    if (uuid_of(gpu).starts_with(entry)) {
      found = found < 0 ? gpu : gpus;  // several have this beginning
    }
  }
  return found < gpus ? found : -1;
}

// "cuLaunchKernel:5:700" makes the fifth call return 700; a comma separates several.
std::vector<InjectedError> errors_of(std::string_view text) {
  std::vector<InjectedError> errors;
  for (const std::string& one : parts_of(text, ',')) {
    const auto parts = parts_of(one, ':');
    if (parts.size() == 3) {
      errors.push_back({.symbol = parts[0],
                        .number = number_in(parts[1], 1),
                        .result = static_cast<CUresult>(number_in(parts[2], CUDA_ERROR_UNKNOWN))});
    }
  }
  return errors;
}

}  // namespace

std::string uuid_of(int gpu) { return fmt::format("GPU-{:08x}-0000-0000-0000-000000000000", gpu + 1); }

std::vector<int> visible_gpus(std::string_view value, int gpus) {
  std::vector<int> visible;
  for (const std::string& entry : parts_of(value, ',')) {
    const int gpu = gpu_of_entry(entry, gpus);
    if (gpu < 0) {
      break;
    }
    if (std::ranges::find(visible, gpu) != visible.end()) {
      return {};
    }
    visible.push_back(gpu);
  }
  return visible;
}

Settings settings_of_environment() {
  const int gpus = number_of("FAKE_CUDA_GPUS", 1);
  const std::vector<std::string> names = parts_of(text_of("FAKE_CUDA_NAMES"), ',');
  Settings settings{.gpus = gpus,
                    .names = names,
                    .capability = number_of("FAKE_CUDA_CAPABILITY", 90),
                    .memory = static_cast<uint64_t>(number_of("FAKE_CUDA_MEMORY_MIB", 1024)) << 20,
                    .used = static_cast<uint64_t>(number_of("FAKE_CUDA_USED_MIB", 0)) << 20,
                    .version = number_of("FAKE_CUDA_VERSION", 13000),
                    .seed = static_cast<uint64_t>(number_of("FAKE_CUDA_SEED", 1)),
                    .background = true,
                    .errors = errors_of(text_of("FAKE_CUDA_ERRORS")),
                    .blocks = std::string(text_of("FAKE_CUDA_BLOCKS"))};
  if (const char* const value = std::getenv("CUDA_VISIBLE_DEVICES")) {
    const std::vector<int> visible = visible_gpus(value, gpus);
    settings.gpus = static_cast<int>(visible.size());
    settings.names.clear();
    for (const int gpu : visible) {
      settings.names.push_back(static_cast<size_t>(gpu) < names.size() ? names[static_cast<size_t>(gpu)] : "");
    }
  }
  return settings;
}

}  // namespace xrun::cuda::fake
