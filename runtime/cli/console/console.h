// The output of a command: results to stdout, diagnostics and progress to stderr, in a form that the terminal can show.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

// A JSON value as one line.
std::string json_line(const nlohmann::ordered_json& json);

// Colours, width and characters follow NO_COLOR, CLICOLOR_FORCE, TERM=dumb, COLUMNS, the locale, --color and --ascii.
class Console {
 public:
  // `held`: collects the text that is meant for stderr; null: it is printed there.
  explicit Console(const GlobalOptions& options, std::string* held = nullptr);

  bool color() const { return color_; }
  bool unicode() const { return unicode_; }
  bool stderr_is_tty() const { return tty_; }
  bool json() const { return json_; }
  int columns() const { return columns_; }            // width of stderr
  int page_columns() const { return page_columns_; }  // width of stdout; 0: no limit (neither a terminal nor COLUMNS)

  // The next three functions replace characters that control the terminal or hide text (graph/base/utf8.h,
  // `printable`).
  void out(std::string_view text) const;  // a result; with --format json the text is printed unchanged
  void out_json(std::string_view text) const;
  void note(std::string_view text) const;  // to stderr, unless quiet
  // Writes text with terminal control sequences to stderr unchanged, unless quiet. REQUIRES: apart from those sequences
  // the text is printable.
  void draw(std::string_view text) const;
  bool verbose() const { return verbose_; }

  // Prints the diagnostics in order to stderr, in the chosen format.
  void report(const Diagnostics& diagnostics, const SourceMap& sources) const;
  // Prints a failure in the same form and returns its exit code.
  int fail(const Failure& failure) const;
  int fail(const Error& error) const { return fail(Failure(error)); }

 private:
  void to_stderr(std::string_view text) const;

  bool color_ = false;
  bool unicode_ = true;
  bool tty_ = false;
  bool json_ = false;
  bool quiet_ = false;
  bool verbose_ = false;
  int columns_ = 80;
  int page_columns_ = 0;
  std::string* held_ = nullptr;
};

// One part of a command's work. With -v it prints a line with its result and its time.
class Phase {
 public:
  explicit Phase(const Console& console) : console_(console), begin_(std::chrono::steady_clock::now()) {}
  // Ends this part and begins the next one. `what`: "planned"; `about`: details of the result.
  void done(std::string_view what, const std::string& about);

 private:
  const Console& console_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace xrun::cli
