// Tests: tests/cuda/machine/gpu_probe_test.cpp
#include "runtime/device/cuda/machine/gpu_probe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace xrun::cuda {
namespace {

constexpr std::string_view kEnd = "end\n";  // the last line; the child may take long to exit after it

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

// Returns the text before the separator, and removes both.
std::string take(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  std::string taken(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

// The work of the child, which must not return or throw: objects of its parent would be destroyed twice.
[[noreturn]] void answer(const std::string& library, int pipe, pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == parent) {
    const std::string text = print_gpus(detect_gpus(library));
    for (size_t done = 0; done < text.size();) {
      const ssize_t wrote = ::write(pipe, text.data() + done, text.size() - done);
      if (wrote <= 0) {
        break;
      }
      done += static_cast<size_t>(wrote);
    }
  }
  ::_exit(0);
}

}  // namespace

std::string print_gpus(const Gpus& gpus) {
  std::string text = fmt::format("driver\t{}\nerror\t{}\n", one_line(gpus.driver), one_line(gpus.error));
  for (const Gpu& gpu : gpus.found) {
    text += fmt::format("gpu\t{}\t{}\t{}\n", gpu.memory, one_line(gpu.capability), one_line(gpu.name));
  }
  return text.append(kEnd);
}

Gpus read_gpus(const std::string& text) {
  Gpus gpus;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string line = take(rest, '\n');
    std::string_view values = line;
    const std::string key = take(values, '\t');
    if (key == "driver") {
      gpus.driver = values;
    } else if (key == "error") {
      gpus.error = values;
    } else if (key == "gpu") {
      Gpu gpu;
      const std::string memory = take(values, '\t');
      std::from_chars(memory.data(), memory.data() + memory.size(), gpu.memory);
      gpu.capability = take(values, '\t');
      gpu.name = values;
      gpus.found.push_back(std::move(gpu));
    }
  }
  return gpus;
}

GpuProbe::GpuProbe(const std::string& library) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return;
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    answer(library, ends[1], parent);
  }
  ::close(ends[1]);
  answer_ = ends[0];
}

GpuProbe::~GpuProbe() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    // A process that waits in the kernel for a damaged driver cannot be ended, so nothing waits for it.
    ::waitpid(pid_, nullptr, WNOHANG);
  }
  if (answer_ >= 0) {
    ::close(answer_);
  }
}

Gpus GpuProbe::wait(Seconds limit) {
  const auto end = begin_ + std::chrono::duration<double>(limit);
  std::string text;
  while (pid_ > 0) {
    const std::chrono::duration<double, std::milli> left = end - std::chrono::steady_clock::now();
    pollfd one{.fd = answer_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::max(left.count(), 0.0)));
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    std::array<char, 4096> bytes{};
    const ssize_t got = ready > 0 ? ::read(answer_, bytes.data(), bytes.size()) : -1;
    if (got < 0) {
      return {.found = {},
              .driver = "",
              .error = fmt::format("the GPU driver does not answer within {:.0f} s; look for lines with Xid in the "
                                   "log of the system (`dmesg`), and restart the machine",
                                   limit)};
    }
    text.append(bytes.data(), static_cast<size_t>(got));
    if (text.ends_with(kEnd)) {
      return read_gpus(text);
    }
    if (got == 0) {
      break;
    }
  }
  return {.found = {},
          .driver = "",
          .error =
              "the process that asks the driver for GPUs has failed; run `nvidia-smi`, and install the driver "
              "again if it fails as well"};
}

}  // namespace xrun::cuda
