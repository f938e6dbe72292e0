// Where words go: results to stdout, diagnostics and progress to stderr; what the terminal can show.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "graph/base/diagnostic.h"
#include "graph/base/result.h"
#include "graph/base/source.h"
#include "runtime/cli/options.h"

namespace xrun::cli {

// A JSON value as one line.
std::string json_line(const nlohmann::ordered_json& json);

// NO_COLOR, CLICOLOR_FORCE, TERM=dumb, COLUMNS, the locale and --color, --ascii decide.
class Console {
 public:
  // `held`: what would go to stderr is added to it instead.
  explicit Console(const GlobalOptions& options, std::string* held = nullptr);

  bool color() const { return color_; }
  bool unicode() const { return unicode_; }
  bool stderr_is_tty() const { return tty_; }
  bool json() const { return json_; }
  int columns() const { return columns_; }            // of what goes to stderr
  int page_columns() const { return page_columns_; }  // of pages on stdout; 0: no terminal, so there is no limit

  // What would steer the terminal or hide characters is replaced (graph/base/utf8.h, `printable`).
  void out(std::string_view text) const;  // result; JSON stays as it is
  void out_json(std::string_view text) const;
  void note(std::string_view text) const;  // to stderr, unless quiet
  // To stderr, unless quiet, as it is: text that steers the terminal itself. REQUIRES: all else in it is printable.
  void draw(std::string_view text) const;
  bool verbose() const { return verbose_; }

  // Diagnostics in order, to stderr, in the chosen format.
  void report(const Diagnostics& diagnostics, const SourceMap& sources) const;
  // One error in the same form; gives its exit code.
  int fail(const Error& error, const SourceMap& sources = {}) const;

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

// A part of a command's work. With -v a line says what was done and how long it took.
class Phase {
 public:
  explicit Phase(const Console& console) : console_(console), begin_(std::chrono::steady_clock::now()) {}
  // `what`: "planned", and more words about it. The next part begins here.
  void done(std::string_view what, const std::string& about);

 private:
  const Console& console_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace xrun::cli
