// The PTX of the kernels that is part of the project, and the table of their registers, memory and instructions.
#include <archive.h>
#include <archive_entry.h>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <sys/wait.h>

#include "graph/base/sha256.h"
#include "tests/ops/gpu/kernel_runner.h"
#include "tests/support/golden.h"

namespace xrun::ops::gpu {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = XRUN_SOURCE_DIR;

// The files of the archive by name.
std::map<std::string, std::string> packed_files() {
  std::map<std::string, std::string> files;
  const std::unique_ptr<archive, decltype(&archive_read_free)> from(archive_read_new(), &archive_read_free);
  archive_read_support_filter_all(from.get());
  archive_read_support_format_tar(from.get());
  EXPECT_EQ(archive_read_open_filename(from.get(), (kRoot / "ops/gpu/ptx.tar.xz").c_str(), 1 << 16), ARCHIVE_OK);
  for (archive_entry* entry = nullptr; archive_read_next_header(from.get(), &entry) == ARCHIVE_OK;) {
    std::string text(static_cast<size_t>(archive_entry_size(entry)), '\0');
    EXPECT_EQ(archive_read_data(from.get(), text.data(), text.size()), static_cast<la_ssize_t>(text.size()));
    files[fs::path(archive_entry_pathname(entry)).filename()] = text;
  }
  return files;
}

struct Output {
  int status = 0;
  std::string text;
};

// Runs a command in the root of the project.
Output output_of(const std::string& command) {
  Output done;
  FILE* const pipe = popen(("cd '" + kRoot.string() + "' && " + command).c_str(), "r");
  char part[4096];
  for (size_t n = 0; (n = fread(part, 1, sizeof part, pipe)) > 0;) {
    done.text.append(part, n);
  }
  done.status = WEXITSTATUS(pclose(pipe));
  return done;
}

constexpr int kToolMissing = 77;

TEST(GpuTexts, AModuleHasMachineCodeForAllArchitecturesOrNone) {
  const std::vector<std::string_view> modules = kernel_modules();
  const bool has_code = !machine_code(kernel_text(80, modules[0]), 80).empty();
  for (const std::string_view module : modules) {
    const std::string_view old = kernel_text(80, module), text = kernel_text(90, module);
    std::set<const char*> codes;
    for (const std::string_view code :
         {machine_code(old, 80), machine_code(text, 90), machine_code(text, 100), machine_code(text, 103)}) {
      EXPECT_EQ(code.starts_with("\x7f"
                                 "ELF"),
                has_code)
          << module;
      codes.insert(code.data());
    }
    EXPECT_EQ(codes.size(), has_code ? 3U : 1U) << module;
    EXPECT_EQ(machine_code(old, 86).data(), machine_code(old, 80).data()) << "a GPU of the generation";
    EXPECT_EQ(machine_code(text, 120), "") << "the driver compiles the text for later generations";
    EXPECT_EQ(machine_code(std::string(text), 90), "") << "another text with equal characters is not looked up";
  }
  if (!has_code) {
    GTEST_SKIP() << "ptxas of CUDA 12.8 or later was not found";
  }
}

TEST(GpuTexts, TheTextsWereCompiledFromTheSourcesOfTheTree) {
  const auto files = packed_files();
  std::set<std::string> listed;
  std::istringstream lines(files.at("sources"));
  for (std::string digest, path; lines >> digest >> path;) {
    EXPECT_EQ(sha256_hex(test::read_source_file(path)), digest) << path << " was changed: run `make ptx`";
    listed.insert(path);
  }
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "ops/gpu")) {
    if (entry.path().extension() != ".cu") {
      continue;
    }
    const std::string name = entry.path().stem();
    EXPECT_TRUE(listed.contains(fs::relative(entry.path(), kRoot))) << name << " is new: run `make ptx`";
    for (const Target& target : kTargets) {
      const std::string text = name + "_" + std::to_string(target.compute) + ".ptx";
      ASSERT_TRUE(files.contains(text)) << text;
      EXPECT_EQ(kernel_text(target.compute, name), files.at(text)) << "the binary has another text";
    }
  }
  EXPECT_EQ(files.size(), 1 + 2 * kernel_modules().size() + files.count(".") + files.count(""));
}

TEST(GpuTexts, AFreshCompilationGivesTheSameTexts) {
  const Output done = output_of("scripts/gpu_ptx.sh --check 2>&1");
  if (done.status == kToolMissing) {
    GTEST_SKIP() << done.text;
  }
  EXPECT_EQ(done.status, 0) << done.text;
}

// The machine refuses approximate instructions, calls and atomic operations on floating-point numbers.
TEST(GpuTexts, TheMachineAcceptsEveryKernelOfEveryModule) {
  for (const std::string_view name : kernel_modules()) {
    for (const Target& target : kTargets) {
      const ptx::Module& module = module_of(target.compute, std::string(name));
      EXPECT_GT(module.kernels.size(), 0u) << name;
      for (const ptx::Kernel& kernel : module.kernels) {
        for (const ptx::Variable& parameter : kernel.parameters) {
          EXPECT_LE(parameter.bytes, 8u) << kernel.name;
        }
      }
    }
  }
}

TEST(GpuStatic, TheTableHasEveryKernelAndNoSpillsLocalMemoryOrFloatAtomics) {
  std::map<std::string, std::set<std::string>> rows;  // architectures by kernel
  std::istringstream lines(test::read_source_file("tests/golden/gpu/static.txt"));
  std::string heading;
  std::getline(lines, heading);
  std::string kernel, architecture;
  int registers = 0, shared = 0, stack = 0, spills = 0, local = 0, atomics = 0, tensor = 0;
  while (lines >> kernel >> architecture >> registers >> shared >> stack >> spills >> local >> atomics >> tensor) {
    rows[kernel].insert(architecture);
    EXPECT_EQ(stack + spills + local + atomics, 0) << kernel << ", " << architecture;
    EXPECT_EQ(std::regex_match(kernel, std::regex("(products?_|conv|attention)\\w*_bf16")), tensor > 0) << kernel;
    EXPECT_LE(shared, 48 << 10) << kernel;
    EXPECT_LE(registers, 128) << kernel;
  }
  size_t kernels = 0;
  for (const std::string_view name : kernel_modules()) {
    for (const ptx::Kernel& of : module_of(90, std::string(name)).kernels) {
      EXPECT_EQ(rows[of.name], (std::set<std::string>{"sm_80", "sm_90", "sm_100"})) << of.name << ": `make gpu-static`";
      ++kernels;
    }
  }
  EXPECT_EQ(rows.size(), kernels);
}

// `make test-gpu` judges these launches, and compares the verdicts with the table.
TEST(GpuRaces, EachKernelHasALaunchAndAVerdict) {
  std::map<std::string, std::vector<std::string>> launches;  // arguments of each kernel
  std::istringstream lines(test::read_source_file("tests/golden/gpu/launches.jsonl"));
  const std::regex pattern(R"-(\{"kernel": "(\w+)", "grid": \[.*\], "block": \[.*\], "shared": 0, )-"
                           R"-("arguments": \[([^\]]*)\](, "aligned": \[.*\])?\})-");
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(line, parts, pattern)) << line;
    std::istringstream arguments(parts[2]);
    for (std::string argument; std::getline(arguments, argument, ',');) {
      launches[parts[1]].push_back(argument);
    }
  }
  std::map<std::string, std::string> verdicts;
  std::istringstream table(test::read_source_file("tests/golden/gpu/races.txt"));
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("#")) {
      verdicts[line.substr(0, line.find(' '))] = line;
    }
  }
  const std::regex verdict("\\w+ +(all|one side) +(race_free|not decided|unsupported: \\w+)");
  size_t kernels = 0;
  for (const std::string_view name : kernel_modules()) {
    for (const ptx::Kernel& kernel : module_of(90, std::string(name)).kernels) {
      const std::vector<std::string>& arguments = launches[kernel.name];
      EXPECT_EQ(arguments.size(), kernel.parameters.size()) << kernel.name << " in launches.jsonl";
      for (size_t i = 0; i < std::min(arguments.size(), kernel.parameters.size()); ++i) {
        const bool is_buffer = arguments[i].find('"') != std::string::npos;
        EXPECT_TRUE(!is_buffer || kernel.parameters[i].bytes == sizeof(void*))
            << kernel.name << " in launches.jsonl: parameter " << i << " is no address";
      }
      EXPECT_TRUE(std::regex_match(verdicts[kernel.name], verdict))
          << kernel.name << ": `make test-gpu GPU_RACES=--update`";
      ++kernels;
    }
  }
  EXPECT_EQ(launches.size(), kernels);
  EXPECT_EQ(verdicts.size(), kernels);
}

TEST(GpuStatic, TheToolsGiveTheSameTable) {
  const Output done = output_of("scripts/gpu_static.py 2>&1");
  if (done.status == kToolMissing) {
    GTEST_SKIP() << done.text;
  }
  ASSERT_EQ(done.status, 0) << done.text;
  EXPECT_TRUE(test::matches_golden(done.text, "gpu/static.txt"));
}

}  // namespace
}  // namespace xrun::ops::gpu
