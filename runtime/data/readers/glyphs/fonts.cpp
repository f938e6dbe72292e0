// Tests: tests/runtime/data/readers/glyphs/glyphs_test.cpp
#include "runtime/data/readers/glyphs/fonts.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <vector>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

struct Package {
  std::string_view stem;  // a file stem, or its beginning followed by '*'
  std::string_view package;
};

constexpr Package kPackages[] = {
    {"wqy-zenhei", "fonts-wqy-zenhei"},
    {"wqy-microhei", "fonts-wqy-microhei"},
    {"DroidSansFallback*", "fonts-droid-fallback"},
    {"NotoSansCJK-Regular", "fonts-noto-cjk"},
    {"NotoSansCJK-Bold", "fonts-noto-cjk"},
    {"NotoSerifCJK-Regular", "fonts-noto-cjk"},
    {"NotoSerifCJK-Bold", "fonts-noto-cjk"},
    {"NotoSansCJK-*", "fonts-noto-cjk-extra"},
    {"NotoSerifCJK-*", "fonts-noto-cjk-extra"},
    {"HanaMin*", "fonts-hanazono"},
    {"BabelStoneHan", "fonts-babelstone-han"},
    {"uming", "fonts-arphic-uming"},
    {"ukai", "fonts-arphic-ukai"},
    {"cwkai", "fonts-cwtex-kai"},
    {"cwming", "fonts-cwtex-ming"},
    {"cwfs", "fonts-cwtex-fs"},
    {"cwyen", "fonts-cwtex-yen"},
    {"ipag*", "fonts-ipafont-gothic"},
    {"ipam*", "fonts-ipafont-mincho"},
    {"unifont*", "fonts-unifont"},
    {"DejaVu*", "fonts-dejavu-core"},
};

std::vector<fs::path> font_folders() {
  std::vector<fs::path> folders{"/usr/share/fonts", "/usr/local/share/fonts"};
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data != 0) {
    folders.push_back(fs::path(data) / "fonts");
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0) {
    folders.push_back(fs::path(home) / ".local/share/fonts");
    folders.push_back(fs::path(home) / ".fonts");
  }
  return folders;
}

bool is_font_file(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".ttf" || extension == ".ttc" || extension == ".otf" || extension == ".otc";
}

// Returns the first file with this stem below `folder`, in byte order of paths. Unreadable folders are skipped, since
// the font may be in another folder.
std::string find_below(const fs::path& folder, std::string_view stem) {
  std::string best;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const fs::path& path = at->path();
    std::error_code ignored;
    if (path.stem() == stem && is_font_file(path) && at->is_regular_file(ignored) &&
        (best.empty() || path.native() < best)) {
      best = path.native();
    }
  }
  return best;
}

}  // namespace

std::string_view package_of_font(std::string_view stem) {
  for (const Package& entry : kPackages) {
    const bool prefix = entry.stem.ends_with('*');
    if (prefix ? stem.starts_with(entry.stem.substr(0, entry.stem.size() - 1)) : stem == entry.stem) {
      return entry.package;
    }
  }
  return "";
}

Result<FontFace> find_font(std::string_view name) {
  FontFace found{.name = std::string(name)};
  std::string_view stem = name;
  if (const size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    stem = name.substr(0, colon);
    const char* end = name.data() + name.size();
    const auto [last, fault] = std::from_chars(name.data() + colon + 1, end, found.face);
    if (fault != std::errc() || last != end || found.face < 0) {
      return content_error("XG0413", {"the font \"{}\" has no face number after its colon", name},
                           "faces of a collection are counted from 0: \"NotoSansCJK-Regular:2\"");
    }
  }
  for (const fs::path& folder : font_folders()) {
    found.path = find_below(folder, stem);
    if (!found.path.empty()) {
      return found;
    }
  }
  std::vector<std::string> names;
  std::ranges::transform(font_folders(), std::back_inserter(names), [](const fs::path& path) { return path.string(); });
  const std::string_view package = package_of_font(stem);
  return world_error(
      "XG0411",
      {"the font \"{}\" is not installed: no {}.ttf, .ttc or .otf below {}", name, stem, fmt::join(names, ", ")},
      package.empty() ? "install the font, or name the file of one that `fc-list` shows"
                      : fmt::format("apt-get install {}", package));
}

}  // namespace xrun::runtime
