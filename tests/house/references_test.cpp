// Follows every citation of the tree: a comment or a document that names a file in docs/, with or without a heading in
// quotes, and every file that the documents name in backticks. How a citation is written: docs/architecture.md,
// "Citations".
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

using Match = std::sregex_iterator;

// Relative paths of all files but those of builds, downloads and the version control.
const std::set<std::string>& files_of_the_tree() {
  static const std::set<std::string> files = [] {
    const std::set<std::string> folders{"cmake", "docs",    "graph",   "lang",    "models",
                                        "ops",   "planner", "runtime", "scripts", "tests"};
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(XRUN_SOURCE_DIR)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file()) {
        found.insert(name);
      } else if (folders.contains(name)) {
        for (const auto& below : fs::recursive_directory_iterator(entry.path())) {
          if (below.is_regular_file()) {
            found.insert(fs::relative(below.path(), XRUN_SOURCE_DIR).generic_string());
          }
        }
      }
    }
    return found;
  }();
  return files;
}

std::string text_of(const std::string& path) {
  std::ifstream in(fs::path(XRUN_SOURCE_DIR) / path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool is_document(const std::string& path) { return path.ends_with(".md"); }

// Files whose citations are followed.
bool cites(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const bool named = name == "CMakeLists.txt" || name == "Makefile" || path.starts_with("scripts/");
  const std::string extension = fs::path(path).extension().string();
  const std::set<std::string> extensions{".h", ".cpp", ".cu", ".def", ".fbs", ".md", ".cmake", ".in", ".sh", ".py"};
  return named || extensions.contains(extension);
}

// Lines joined by blanks, so that a citation may be broken at the end of a line: without the signs of comments, and in
// documents without backticks and blocks of code.
std::string joined(const std::string& path) {
  std::string text = text_of(path);
  if (is_document(path)) {
    text = std::regex_replace(text, std::regex("```[^`]*```"), "");
    text = std::regex_replace(text, std::regex("`"), "");
    return std::regex_replace(text, std::regex("\\n[ ]*"), " ");
  }
  return std::regex_replace(text, std::regex("\\n[ ]*(//+|#+)?[ ]*"), " ");
}

// Headings of a document, by its path.
const std::set<std::string>& headings_of(const std::string& path) {
  static std::map<std::string, std::set<std::string>> known;
  const auto [at, fresh] = known.try_emplace(path);
  if (fresh) {
    std::ifstream in(fs::path(XRUN_SOURCE_DIR) / path);
    bool code = false;
    for (std::string line; std::getline(in, line);) {
      code = code != line.starts_with("```");
      if (!code && line.starts_with("#")) {
        const std::string heading = line.substr(std::min(line.find_first_not_of("# "), line.size()));
        EXPECT_TRUE(at->second.insert(heading).second) << path << " has two headings \"" << heading << '"';
      }
    }
  }
  return at->second;
}

TEST(References, EveryCitationNamesADocumentAndAHeadingThatExist) {
  // docs/formats.md, "Checkpoints" and "Tensor files"
  const std::regex citation(R"re(docs/[\w/-]+\.md((?:, "[^"]+")(?:,? (?:and |to )?"[^"]+")*)?)re");
  const std::regex quoted(R"re("([^"]+)")re");
  int followed = 0;
  for (const std::string& path : files_of_the_tree()) {
    if (!cites(path)) {
      continue;
    }
    const std::string text = joined(path);
    for (Match it(text.begin(), text.end(), citation), end; it != end; ++it) {
      const std::string found = it->str();
      const std::string document = found.substr(0, found.find(".md") + 3);
      if (!files_of_the_tree().contains(document)) {
        ADD_FAILURE() << path << " cites " << document << ", which does not exist";
        continue;
      }
      const std::string names = (*it)[1].str();
      for (Match name(names.begin(), names.end(), quoted); name != end; ++name, ++followed) {
        const std::string heading = (*name)[1].str();
        EXPECT_TRUE(headings_of(document).contains(heading))
            << path << " cites \"" << heading << "\", which is no heading of " << document;
      }
    }
  }
  EXPECT_GT(followed, 60) << "the citations were not found";
}

TEST(References, NoFileCitesADocumentThatItsReaderDoesNotHave) {
  // Written in parts, or this file would be found.
  const std::string names = std::string("DETERMIN") + "ISM|LANG" + "UAGE|FOR" + "MATS|ALGO" + "RITHMS|GO" + "ALS|DE" +
                            "SIGN|ST" + "YLE|CLI(?= [0-9])";
  const std::regex absent("\\b(" + names + ")\\b|\\bcontract [0-9]|\\b(section|sections) [0-9]+ of [a-z`]*docs/");
  const std::regex document(R"re(\b[A-Z_]{3,}\.md\b)re");
  for (const std::string& path : files_of_the_tree()) {
    if (!cites(path)) {
      continue;
    }
    const std::string text = joined(path);
    for (Match it(text.begin(), text.end(), absent), end; it != end; ++it) {
      ADD_FAILURE() << path << " cites \"" << it->str() << "\": cite a heading in docs/";
    }
    for (Match it(text.begin(), text.end(), document), end; it != end; ++it) {
      EXPECT_TRUE(files_of_the_tree().contains(it->str()))
          << path << " names " << it->str() << ", which does not exist";
    }
  }
}

// A path from the root, or the end of exactly one path: `cli.cpp` is a name for runtime/cli/cli.cpp.
int files_ending_in(const std::string& name) {
  const auto ends = [&](const std::string& path) { return path == name || path.ends_with("/" + name); };
  return files_of_the_tree().contains(name)
             ? 1
             : static_cast<int>(std::count_if(files_of_the_tree().begin(), files_of_the_tree().end(), ends));
}

TEST(References, EveryFileThatADocumentNamesIsInTheTree) {
  const std::regex code(R"re(```[^`]*```)re");
  const std::regex file(R"re(`([\w./-]+\.(?:h|cpp|cu|fbs|cmake|def|sh|py|dict|txt|md))`)re");
  const std::regex model(R"re(`((?:models|lang|tests)/[\w./-]+\.(?:xgraph|json))`)re");
  const std::regex folder(
      R"re(`((?:cmake|docs|graph|lang|models|ops|planner|runtime|scripts|tests)/[\w/-]*[\w-])/?`)re");
  int named = 0;
  for (const std::string& path : files_of_the_tree()) {
    const bool read = path == "README.md" || (is_document(path) && fs::path(path).parent_path() == "docs");
    if (!read) {
      continue;
    }
    const std::string text = std::regex_replace(text_of(path), code, "");
    for (const std::regex& pattern : {file, model}) {
      for (Match it(text.begin(), text.end(), pattern), end; it != end; ++it, ++named) {
        const std::string name = (*it)[1].str();
        EXPECT_EQ(files_ending_in(name), 1) << path << " names " << name << ": so many files of the tree are meant";
      }
    }
    for (Match it(text.begin(), text.end(), folder), end; it != end; ++it, ++named) {
      EXPECT_TRUE(fs::exists(fs::path(XRUN_SOURCE_DIR) / (*it)[1].str())) << path << " names " << it->str();
    }
  }
  EXPECT_GT(named, 100) << "the names of files were not found";
}

}  // namespace
