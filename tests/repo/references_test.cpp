// Follows every citation in the repository: a comment or a document that names a file in docs/, with or without a
// heading in quotes, and every file that the documents name in backticks. How to write a citation:
// docs/internals/architecture.md, "Citations".
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

using Match = std::sregex_iterator;

// Returns the relative paths of all files, except those of builds, downloads and version control.
const std::set<std::string>& files_of_the_tree() {
  static const std::set<std::string> files = [] {
    const std::set<std::string> folders{"cmake", "docs",     "editors", "graph",   "lang",    "models",
                                        "ops",   "packages", "planner", "runtime", "scripts", "tests"};
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(XRUN_SOURCE_DIR)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file()) {
        found.insert(name);
      } else if (folders.contains(name)) {
        for (const auto& below : fs::recursive_directory_iterator(entry.path())) {
          if (below.is_regular_file()) {
            found.insert(
                below.path().lexically_relative(XRUN_SOURCE_DIR).generic_string());  // links keep their own path
          }
        }
      }
    }
    return found;
  }();
  return files;
}

bool is_document(const std::string& path) { return path.ends_with(".md"); }

// Returns whether the citations in a file are followed.
bool cites(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const bool named = name == "CMakeLists.txt" || name == "Makefile" || path.starts_with("scripts/");
  const std::string extension = fs::path(path).extension().string();
  const std::set<std::string> extensions{".h", ".cpp", ".cu", ".def", ".fbs", ".md", ".cmake", ".in", ".sh", ".py"};
  return named || extensions.contains(extension);
}

// Returns the lines of a file without blocks of code.
std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(fs::path(XRUN_SOURCE_DIR) / path);
  std::vector<std::string> lines;
  bool code = false;
  for (std::string line; std::getline(in, line);) {
    const bool fence = is_document(path) && line.starts_with("```");
    code = code != fence;
    if (!code && !fence) {
      lines.push_back(line);
    }
  }
  return lines;
}

// Joins the lines with blanks, so that a citation may continue on the next line. Comment signs and backticks are
// removed.
std::string joined(const std::string& path) {
  std::string text;
  for (const std::string& line : lines_of(path)) {
    text += line.substr(std::min(line.find_first_not_of(is_document(path) ? " " : " /#"), line.size())) + ' ';
  }
  std::erase(text, '`');
  return text;
}

// Returns the headings of a document without backticks.
const std::set<std::string>& headings_of(const std::string& path) {
  static std::map<std::string, std::set<std::string>> known;
  const auto [at, fresh] = known.try_emplace(path);
  if (fresh) {
    for (const std::string& line : lines_of(path)) {
      if (line.starts_with("#")) {
        std::string heading = line.substr(std::min(line.find_first_not_of("# "), line.size()));
        std::erase(heading, '`');
        EXPECT_TRUE(at->second.insert(heading).second) << path << " has two headings \"" << heading << '"';
      }
    }
  }
  return at->second;
}

TEST(References, EveryCitationNamesADocumentAndAHeadingThatExist) {
  // docs/reference/formats.md, "Checkpoints" and "Tensor files"
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

// Finds citations of documents that are not in the repository: documents with names in capital letters, and contracts
// by number.
std::vector<std::string> absent_documents(const std::string& text) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made{"determinism", "language", "formats", "algorithms",
                                  "goals",       "design",   "style",   "cli "};
    for (std::string& name : made) {
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    }
    made.emplace_back("contract ");
    return made;
  }();
  const auto is_letter = [&](size_t at) {
    return at < text.size() && (std::isalnum(text[at]) != 0 || text[at] == '_');
  };
  std::vector<std::string> found;
  for (const std::string& name : names) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const size_t end = at + name.size();
      const bool numbered = name.ends_with(' ');  // a citation only if a number follows
      const bool digit = end < text.size() && std::isdigit(text[end]) != 0;
      if ((at == 0 || !is_letter(at - 1)) && (numbered ? digit : !is_letter(end))) {
        found.push_back(text.substr(at, name.size() + (numbered ? 1 : 0)));
      }
    }
  }
  return found;
}

TEST(References, NoFileCitesADocumentThatItsReaderDoesNotHave) {
  for (const std::string& path : files_of_the_tree()) {
    for (const std::string& name : cites(path) ? absent_documents(joined(path)) : std::vector<std::string>{}) {
      ADD_FAILURE() << path << " cites \"" << name << "\": cite a heading in docs/";
    }
  }
}

// Counts the files whose path is `name` or ends in it. `cli.cpp`, for example, matches runtime/cli/cli.cpp.
int files_ending_in(const std::string& name) {
  const auto ends = [&](const std::string& path) { return path == name || path.ends_with("/" + name); };
  return files_of_the_tree().contains(name)
             ? 1
             : static_cast<int>(std::count_if(files_of_the_tree().begin(), files_of_the_tree().end(), ends));
}

TEST(References, EveryFileThatADocumentNamesIsInTheTree) {
  const std::regex file(R"re(`([\w./-]+\.(?:h|cpp|cu|fbs|cmake|def|sh|py|dict|txt|md))`)re");
  const std::regex model(R"re(`((?:models|lang|tests)/[\w./-]+\.(?:xgraph|json))`)re");
  const std::regex folder(
      R"re(`((?:cmake|docs|graph|lang|models|ops|packages|planner|runtime|scripts|tests)/[\w/-]*[\w-])/?`)re");
  int named = 0;
  for (const std::string& path : files_of_the_tree()) {
    const bool in_root = path.find('/') == std::string::npos;
    const bool in_docs = path.starts_with("docs/") && !path.starts_with("docs/decisions/");
    if (!is_document(path) || (!in_root && !in_docs)) {
      continue;
    }
    for (const std::string& line : lines_of(path)) {
      for (const std::regex& pattern : {file, model}) {
        for (Match it(line.begin(), line.end(), pattern), end; it != end; ++it, ++named) {
          const std::string name = (*it)[1].str();
          EXPECT_EQ(files_ending_in(name), 1)
              << path << " names " << name << ", which has to mean one file of the tree";
        }
      }
      for (Match it(line.begin(), line.end(), folder), end; it != end; ++it, ++named) {
        EXPECT_TRUE(fs::exists(fs::path(XRUN_SOURCE_DIR) / (*it)[1].str())) << path << " names " << it->str();
      }
    }
  }
  EXPECT_GT(named, 100) << "the names of files were not found";
}

}  // namespace
