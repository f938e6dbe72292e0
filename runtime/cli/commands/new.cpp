#include "runtime/cli/commands/new.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "graph/os/durable.h"
#include "runtime/cli/console/console.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;

// Makes the directory. If it exists, it must be empty.
Status make_directory(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !(fs::is_directory(path, error) && fs::is_empty(path, error))) {
    return usage_error("XG0911", {"`{}` exists already", path}, "choose another name");
  }
  fs::create_directories(path, error);
  if (error) {
    return world_error("XG0911", {"`{}` cannot be made: {}", path, error.message()}, "choose another place");
  }
  return {};
}

Status make(const NewArgs& args, const std::string& file) {
  const std::vector<Template> all = templates();
  const auto found = std::ranges::find(all, args.model, &Template::name);
  XRUN_CHECK(found != all.end(), "the command line takes only names of templates");
  XRUN_TRY(make_directory(args.directory));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(found->text));
  return replace_file(file, Pieces(&bytes, 1), {.name = "model", .code = "XG0911", .magic = "xgraph"});
}

}  // namespace

Outcome<int> run_new(const GlobalOptions& options, const NewArgs& args) {
  const Console console(options);
  const fs::path directory = fs::path(args.directory).lexically_normal();
  const std::string name = (directory.has_filename() ? directory : directory.parent_path()).filename().string();
  const std::string file = (directory / (name + ".xgraph")).string();
  XRUN_TRY(make(args, file));
  const std::string shown = printable_line(file);
  console.out("  wrote " + shown + "      train it: xrun train " + shown + " -C " + printable_line(directory.string()) +
              "\n");
  return 0;
}

}  // namespace xrun::cli
