// Content: "xrun kernel times 1\n", the origin and "\n", then for each kernel in order of its name
//   seconds " " kernel "\n"
#include "runtime/cli/model/kernel_times.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <sys/stat.h>

#include "graph/os/cache_file.h"
#include "ops/dnn/dnn.h"
#include "ops/jit/compiler.h"

namespace xrun::runtime {
namespace {

// Enough for many thousand kernels.
constexpr Bytes kMaxBytes = 4 * kMiB;

std::string head_of(std::string_view origin) { return fmt::format("xrun kernel times 1\n{}\n", origin); }

}  // namespace

std::string times_origin(ops::Isa isa, const std::string& cpu) {
  struct stat build {};
  ::stat("/proc/self/exe", &build);
  const std::string compiler = ops::open_jit().compiler;
  return fmt::format("{}, {}, oneDNN {}, {}, xrun of {} bytes and {}.{:09} s", ops::name_of(isa), cpu,
                     ops::dnn::library_version(), compiler.empty() ? "loops interpreted" : compiler, build.st_size,
                     build.st_mtim.tv_sec, build.st_mtim.tv_nsec);
}

std::string print_kernel_times(const ops::KernelTimes& times, std::string_view origin) {
  std::string text = head_of(origin);
  for (const auto& [kernel, time] : times) {
    text += fmt::format("{} {}\n", time.seconds, kernel);
  }
  return text;
}

std::optional<ops::KernelTimes> parse_kernel_times(std::string_view text, std::string_view origin) {
  const std::string head = head_of(origin);
  if (!text.starts_with(head)) {
    return std::nullopt;
  }
  ops::KernelTimes times;
  for (std::string_view rest = text.substr(head.size()); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t space = std::min(line.find(' '), line.size());
    double seconds = -1;
    std::from_chars(line.data(), line.data() + space, seconds);
    if (!std::isfinite(seconds) || seconds < 0 || space == line.size()) {
      return std::nullopt;
    }
    times.emplace(line.substr(space + 1), ops::KernelTime{.seconds = seconds, .known = true});
  }
  return print_kernel_times(times, origin) == text ? std::optional(std::move(times)) : std::nullopt;
}

std::string kernel_times_path(std::string_view origin) { return path_in_cache("times", origin); }

ops::KernelTimes load_kernel_times(const std::string& path, std::string_view origin) {
  auto file = CachedFile::open(path);
  if (!file || file->size() > kMaxBytes) {
    return {};
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  if (!file->read(std::as_writable_bytes(std::span(text))) || !file->intact()) {
    return {};
  }
  return parse_kernel_times(text, origin).value_or(ops::KernelTimes());
}

void store_kernel_times(const std::string& path, std::string_view origin, ops::KernelTimes times) {
  std::string text = print_kernel_times(times, origin);
  if (static_cast<Bytes>(text.size()) > kMaxBytes) {
    std::erase_if(times, [](const auto& entry) { return !entry.second.used; });
    text = print_kernel_times(times, origin);
  }
  store_cached(path, {std::as_bytes(std::span(text))});
}

}  // namespace xrun::runtime
