// Tests: tests/cases/gpu_commands_test.cpp
#include "runtime/cli/console/device_flag.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/cli/console/counts.h"

namespace xrun::cli {
namespace {

constexpr std::string_view kGpus = "cuda";
constexpr const char* kForms =
    "give a number of CPU devices (--devices 2) or GPUs (--devices cuda, cuda:0 or cuda:0,1)";
constexpr const char* kNumbers =
    "number the GPUs from 0: --devices cuda:0, or cuda:0,1 for two; --devices cuda means all of them";

// Returns the number of a GPU; -1 if the text is not one.
int gpu_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number < kMostDevices ? number : -1;
}

// Reads the numbers after "cuda:".
Result<DeviceFlag> read_numbers(std::string_view text) {
  if (text.empty()) {
    return usage_error("", "names no GPU", kNumbers);
  }
  DeviceFlag flag{.count = 0, .gpus = std::vector<int>()};
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, end);
    const int number = gpu_number(one);
    if (number < 0) {
      return one.empty()
                 ? usage_error("", "lacks a number before or after a comma", kNumbers)
                 : usage_error("", {"has `{}` in place of the number of a GPU, from 0 to {}", one, kMostDevices - 1},
                               kNumbers);
    }
    flag.gpus->push_back(number);
    if (end == text.size()) {
      break;
    }
    text.remove_prefix(end + 1);
  }
  flag.count = static_cast<int>(flag.gpus->size());
  if (flag.count > kMostDevices) {
    return usage_error("", {"has {} devices, and a plan at most {}", flag.count, kMostDevices}, kNumbers);
  }
  return flag;
}

// Returns the form that was probably meant: "gpu:0" and "CUDA0" mean "cuda:0". Empty: none.
std::string meant_form(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  for (const std::string_view prefix : {"cuda", "gpus", "gpu", "nvidia"}) {
    if (lower.starts_with(prefix)) {
      std::string_view rest = std::string_view(lower).substr(prefix.size());
      rest.remove_prefix(!rest.empty() && std::string_view(":=").find(rest[0]) != std::string_view::npos ? 1 : 0);
      std::string form = rest.empty() ? std::string(kGpus) : fmt::format("{}:{}", kGpus, rest);
      return form != text && (rest.empty() || read_numbers(rest).ok()) ? form : "";
    }
  }
  return "";
}

}  // namespace

Result<DeviceFlag> parse_device_flag(std::string_view text) {
  if (text == kGpus) {
    return DeviceFlag{.count = 0, .gpus = std::vector<int>()};
  }
  if (text.starts_with("cuda:")) {
    return read_numbers(text.substr(kGpus.size() + 1));
  }
  const auto count = parse_count(text);
  if (count && *count >= 1 && *count <= kMostDevices) {
    return DeviceFlag{.count = static_cast<int>(*count), .gpus = std::nullopt};
  }
  if (count) {
    return usage_error("", {"is not a number of devices from 1 to {}", kMostDevices}, kForms);
  }
  const std::string meant = meant_form(text);
  return usage_error(
      "", {"is not a number of devices from 1 to {}, and names no GPUs", kMostDevices},
      meant.empty() ? std::string(kForms) : fmt::format("did you mean `--devices {}`? {}", meant, kForms));
}

}  // namespace xrun::cli
