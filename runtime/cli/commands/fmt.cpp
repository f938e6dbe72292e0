// `xrun fmt`: writes files in canonical layout, or reports the files that are not in it.
// Tests: tests/runtime/cli/commands/text_commands_test.cpp
#include <cstdio>
#include <nlohmann/json.hpp>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "lang/format/format.h"
#include "lang/syntax/parser.h"
#include "lang/text/lexer.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/model/model_text.h"

namespace xrun::cli {
namespace {

constexpr const char* kStdin = "<stdin>";

Status check_request(const FmtArgs& args) {
  if (args.std_in && !args.paths.empty()) {
    return usage_error("XG0906", "`--stdin` reads no files, but `" + args.paths[0] + "` is named",
                       "leave one of them out");
  }
  if (!args.std_in && args.paths.empty()) {
    return usage_error("XG0906", "`xrun fmt` needs files", "name files or directories, or give `--stdin`");
  }
  return {};
}

// Reads stdin up to one byte more than the longest text that the parser accepts.
std::string read_stdin() {
  std::string text(lang::kMaxFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stdin));
  return text;
}

class Command {
 public:
  Command(const FmtArgs& args, const Console& console) : args_(args), console_(console) {}

  Outcome<int> stdin_to_stdout() {
    const std::string text = read_stdin();
    if (const auto out = layout(kStdin, text)) {
      if (args_.check) {
        tell(kStdin, lang::changed_lines(text, *out));
      } else {
        console_.out_json(*out);
      }
    }
    return exit_;
  }

  Outcome<int> files() {
    XRUN_ASSIGN(const auto found, find_model_files(args_.paths));
    for (const std::string& path : found) {
      if (const Status done = file(path); !done.ok()) {
        exit_ = std::max(exit_, console_.fail(done.error()));
      }
    }
    return exit_;
  }

 private:
  Status file(const std::string& path) {
    XRUN_ASSIGN(const std::string text, read_model_text(path));
    const auto out = layout(path, text);
    if (!out || *out == text) {
      return {};
    }
    if (!args_.check) {
      XRUN_TRY(write_model_text(path, *out));
    }
    tell(path, lang::changed_lines(text, *out));
    return {};
  }

  // The canonical layout of a text. If the text does not parse, prints its faults and returns nullopt.
  std::optional<std::string> layout(const std::string& path, const std::string& text) {
    SourceMap sources;
    Diagnostics diagnostics;
    auto out = lang::format(path, text, sources, diagnostics);
    if (!out) {
      exit_ = std::max(exit_, console_.fail(Failure(std::move(diagnostics), std::move(sources))));
    }
    return out;
  }

  void tell(const std::string& path, const lang::ChangedLines& lines) {
    if (lines.first == 0) {
      return;
    }
    if (args_.check) {
      exit_ = std::max(exit_, exit_code(ErrorKind::kContent));
    }
    if (console_.json()) {
      console_.out(json_line({{"v", 1},
                              {"file", path},
                              {"written", !args_.check},
                              {"first_line", lines.first},
                              {"last_line", lines.last}}));
      return;
    }
    const std::string range = lines.first == lines.last
                                  ? "line " + std::to_string(lines.first)
                                  : "lines " + std::to_string(lines.first) + "-" + std::to_string(lines.last);
    console_.out("  " + printable_line(path) + ": " + (args_.check ? "would change " : "changed ") + range + "\n");
  }

  const FmtArgs& args_;
  const Console& console_;
  int exit_ = 0;
};

}  // namespace

Outcome<int> run_fmt(const GlobalOptions& options, const FmtArgs& args) {
  const Console console(options);
  XRUN_TRY(check_request(args));
  Command command(args, console);
  return args.std_in ? command.stdin_to_stdout() : command.files();
}

}  // namespace xrun::cli
