#include "runtime/data/readers/left_out.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::runtime {
namespace {

constexpr size_t kMostNamed = 20;

// Returns a count with noun and verb: "3 files are", "1 file is".
std::string counted(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", format_count(count),
                     count == 1 ? fmt::format("{} is", one) : fmt::format("{} are", many));
}

}  // namespace

bool is_tool_directory(std::string_view name) {
  // Synology and QNAP devices, Windows, ext4, Python and macOS make directories with these names.
  constexpr std::string_view kTools[] = {"@eaDir",     "#recycle",     "#snapshot",
                                         "@Recycle",   "$RECYCLE.BIN", "System Volume Information",
                                         "lost+found", "__pycache__",  "__MACOSX"};
  const bool hidden = name.starts_with('.') && name != "." && name != "..";
  return hidden || std::ranges::find(kTools, name) != std::end(kTools);
}

std::string_view tool_directory_of(std::string_view file) {
  for (size_t begin = 0, slash = 0; (slash = file.find('/', begin)) != std::string_view::npos; begin = slash + 1) {
    if (is_tool_directory(file.substr(begin, slash - begin))) {
      return file.substr(0, slash);
    }
  }
  return {};
}

void LeftOut::add(std::string name) {
  ++count_;
  first_.insert(std::move(name));
  if (first_.size() > kMostNamed) {
    first_.erase(std::prev(first_.end()));
  }
}

std::string LeftOut::names() const {
  const auto named = static_cast<int64_t>(first_.size());
  return fmt::format("{}{}", fmt::join(first_, ", "),
                     count_ > named ? fmt::format(" and {} more", format_count(count_ - named)) : "");
}

std::string FolderLeftOut::describe() const {
  std::string text;
  const auto add = [&](const LeftOut& left, const char* one, const char* many) {
    if (left.count() > 0) {
      text += fmt::format(", {} {}", format_count(left.count()), left.count() == 1 ? one : many);
    }
  };
  add(others, "other file", "other files");
  add(strays, "picture left out", "pictures left out");
  add(tools, "directory left out", "directories left out");
  return text;
}

std::vector<Error> FolderLeftOut::warnings() const {
  std::vector<Error> all;
  if (others.count() > 0) {
    all.push_back(content_error(
        "XG0415",
        {"{} not read, since pictures are {} files: {}", counted(others.count(), "file", "files"), picture_formats(),
         others.names()},
        "convert them if they are samples, or remove them; the name of a picture needs the extension of its format"));
  }
  if (strays.count() > 0) {
    all.push_back(content_error(
        "XG0415",
        {"{} left out, since {} in no class directory: {}", counted(strays.count(), "picture", "pictures"),
         strays.count() == 1 ? "it is" : "they are", strays.names()},
        "move them into the directories of their classes, or remove them"));
  }
  if (tools.count() > 0) {
    all.push_back(content_error("XG0415",
                                {"{} left out, since hidden directories and those of tools hold no classes: {}",
                                 counted(tools.count(), "directory", "directories"), tools.names()},
                                "remove them, or rename those that hold a class"));
  }
  return all;
}

}  // namespace xrun::runtime
