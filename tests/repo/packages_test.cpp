// Checks that the lists of Debian packages (packages/) are complete: each library, program and font that the build, the
// tests, the demos and the Makefile use has its package in the right list. No package is in two lists, and NOTICE names
// every package.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

using Words = std::set<std::string>;

const Words kLists{"build", "demo", "dev", "package", "test"};

std::string text_of(const fs::path& path) {
  std::ifstream in(fs::path(XRUN_SOURCE_DIR) / path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Returns the text of the first group of each match.
Words matches(const std::string& text, const std::string& pattern) {
  Words found;
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    found.insert((*it)[1].str());
  }
  return found;
}

std::vector<std::string> packages_of(const std::string& list) {
  std::istringstream in(text_of("packages/" + list + ".txt"));
  std::vector<std::string> packages;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && !line.starts_with("#")) {
      packages.push_back(line);
    }
  }
  return packages;
}

// Returns the list that each package is in.
const std::map<std::string, std::string>& lists_by_package() {
  static const std::map<std::string, std::string> lists = [] {
    std::map<std::string, std::string> made;
    for (const std::string& list : kLists) {
      for (const std::string& package : packages_of(list)) {
        made.emplace(package, list);
      }
    }
    return made;
  }();
  return lists;
}

std::string list_of(const std::string& package) {
  const auto found = lists_by_package().find(package);
  return found == lists_by_package().end() ? "no list" : found->second;
}

// Expects that each name in `used` has a package in `packages`, and that the package is in one of `lists`.
void expect_listed(const Words& used, const std::map<std::string, std::string>& packages, const Words& lists) {
  for (const std::string& name : used) {
    const auto found = packages.find(name);
    if (found == packages.end()) {
      ADD_FAILURE() << name << " is used: add its package to packages/ and to the table of this test";
      continue;
    }
    EXPECT_TRUE(lists.contains(list_of(found->second)))
        << name << " needs the package " << found->second << ", which is in " << list_of(found->second);
  }
}

TEST(Packages, EachLineIsAPackageAndNoPackageIsListedTwice) {
  Words files;
  for (const auto& entry : fs::directory_iterator(fs::path(XRUN_SOURCE_DIR) / "packages")) {
    files.insert(entry.path().stem().string());
  }
  EXPECT_EQ(files, kLists);
  const std::regex name("[a-z0-9][a-z0-9+.-]+");
  Words seen;
  for (const std::string& list : kLists) {
    EXPECT_GT(packages_of(list).size(), 1u) << list;
    for (const std::string& package : packages_of(list)) {
      EXPECT_TRUE(std::regex_match(package, name)) << "packages/" << list << ".txt: \"" << package << '"';
      EXPECT_TRUE(seen.insert(package).second) << package << " is listed twice";
    }
  }
}

TEST(Packages, TheMakefileUsesEachListAndNoOther) {
  Words used;
  for (const std::string& lists : matches(text_of("Makefile"), "PACKAGES := ([a-z ]+)")) {
    std::istringstream in(lists);
    used.insert(std::istream_iterator<std::string>(in), {});
  }
  EXPECT_EQ(used, kLists);
}

TEST(Packages, EverythingThatCMakeFindsIsListed) {
  const std::map<std::string, std::string> packages{
      {"TBB", "libtbb-dev"},
      {"fmt", "libfmt-dev"},
      {"spdlog", "libspdlog-dev"},
      {"nlohmann_json", "nlohmann-json3-dev"},
      {"OpenSSL", "libssl-dev"},
      {"JPEG", "libjpeg62-turbo-dev"},
      {"PNG", "libpng-dev"},
      {"Freetype", "libfreetype-dev"},
      {"LibArchive", "libarchive-dev"},
      {"ZLIB", "zlib1g-dev"},
      {"OpenMP", "g++"},
      {"PkgConfig", "pkg-config"},
      {"hwloc", "libhwloc-dev"},
      {"libxxhash", "libxxhash-dev"},
      {"libexif", "libexif-dev"},
      {"libwebp", "libwebp-dev"},
      {"prometheus-cpp-pull", "prometheus-cpp-dev"},
      {"ompi-c", "libopenmpi-dev"},
      {"flatbuffers/flatbuffers.h", "libflatbuffers-dev"},
      {"flatc", "flatbuffers-compiler"},
      {"CLI/CLI.hpp", "libcli11-dev"},
      {"oneapi/dnnl/dnnl.hpp", "libdnnl-dev"},
      {"dnnl", "libdnnl-dev"},
      {"llvm/IR/IRBuilder.h", "llvm-19-dev"},
      {"LLVM", "llvm-19-dev"},
      {"ONNX", "libonnx-dev"},
      {"Protobuf", "libprotobuf-dev"},
      {"ccache", "ccache"},
      {"mold", "mold"},
  };
  const std::string calls =
      R"((?:find_package\(|find_(?:path|library|program)\(\w+ |pkg_(?:check_modules|search_module)\(\w+ (?:REQUIRED )?)"
      R"((?:IMPORTED_TARGET )?)([\w./+-]+))";
  Words used = matches(text_of("cmake/dependencies.cmake") + text_of("cmake/compiler.cmake"), calls);
  EXPECT_GT(used.size(), 20u);
  EXPECT_EQ(used.erase("mpich"), 1u);
  EXPECT_EQ(list_of("libmpich-dev"), "dev") << "the second MPI is optional";
  expect_listed(used, packages, {"build"});

  const Words of_tests = matches(text_of("CMakeLists.txt") + text_of("tests/CMakeLists.txt"), calls);
  EXPECT_EQ(of_tests, (Words{"GTest", "benchmark"}));
  expect_listed(of_tests, {{"GTest", "libgtest-dev"}, {"benchmark", "libbenchmark-dev"}}, {"test"});
}

TEST(Packages, EveryProgramThatTheTestsRunIsListed) {
  const std::map<std::string, std::string> packages{
      {"chromium", "chromium"}, {"ip", "iproute2"},         {"mkfs.ext4", "e2fsprogs"}, {"mkfs.xfs", "xfsprogs"},
      {"mount", "mount"},       {"mpiexec.mpich", "mpich"}, {"mpirun", "openmpi-bin"},  {"munged", "munge"},
      {"python3", "python3"},   {"sbatch", "slurm-client"}, {"slurmctld", "slurmctld"}, {"slurmd", "slurmd"},
      {"srun", "slurm-client"}, {"strace", "strace"},
  };
  Words used;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(XRUN_SOURCE_DIR) / "tests")) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".cpp" || extension == ".h") {
      used.merge(matches(text_of(entry.path()), "\"/usr/s?bin/([\\w.+-]+)\""));
    }
  }
  EXPECT_GT(used.size(), 10u);
  EXPECT_EQ(used.erase("unshare"), 1u) << "of util-linux, which every Debian has";
  expect_listed(used, packages, kLists);
}

TEST(Packages, EveryToolOfTheMakefileIsListed) {
  const std::map<std::string, std::string> packages{
      {"clang++-19", "clang-19"},
      {"clang-format-14", "clang-format-14"},
      {"clang-tidy-14", "clang-tidy-14"},
      {"nvim", "neovim"},
  };
  const Words used = matches(text_of("Makefile") + text_of("CMakePresets.json"), R"(\b(clang[\w+-]*-1[49]|nvim)\b)");
  EXPECT_EQ(used.size(), packages.size());
  expect_listed(used, packages, {"dev"});
}

// Reads the fonts that models name. Their packages are taken from the table that is used when a font is missing.
TEST(Packages, TheFontsOfTheModelsAreListedForTheDemo) {
  std::map<std::string, std::string> packages;
  const std::string table = text_of("runtime/data/readers/glyphs/fonts.cpp");
  const std::regex row(R"re(\{"([\w*-]+)", "(fonts-[\w-]+)"\})re");
  for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end; ++it) {
    packages.emplace((*it)[1].str(), (*it)[2].str());
  }
  EXPECT_GT(packages.size(), 15u);

  Words needed;
  int faces = 0;
  for (const char* model : {"models/glyphs.xgraph", "tests/golden/bits/glyphs.xgraph"}) {
    for (const std::string& names : matches(text_of(model), R"(glyphs\(\s*\[([^\]]*)\])")) {
      for (const std::string& face : matches(names, "\"([^\":]+)[^\"]*\"")) {
        auto package = packages.find(face);
        for (auto at = packages.begin(); package == packages.end() && at != packages.end(); ++at) {
          const std::string& stem = at->first;
          if (stem.ends_with('*') && face.starts_with(stem.substr(0, stem.size() - 1))) {
            package = at;
          }
        }
        ASSERT_NE(package, packages.end()) << face << " has no package in runtime/data/readers/glyphs/fonts.cpp";
        EXPECT_EQ(list_of(package->second), "demo") << face << " needs " << package->second;
        needed.insert(package->second);
        ++faces;
      }
    }
  }
  EXPECT_GE(faces, 18);
  for (const auto& [package, list] : lists_by_package()) {
    EXPECT_TRUE(!package.starts_with("fonts-") || needed.contains(package)) << "no model needs " << package;
  }
}

TEST(Packages, NoticeNamesEveryPackage) {
  const Words named = matches(text_of("NOTICE"), "([a-z0-9][a-z0-9+.-]*[a-z0-9+])");
  for (const auto& [package, list] : lists_by_package()) {
    EXPECT_TRUE(named.contains(package)) << "NOTICE does not name " << package << " and its licence";
  }
}

}  // namespace
