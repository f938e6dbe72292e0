// Tests: tests/runtime/cli/commands/command_test.cpp, tests/runtime/cli/commands/foreign_text_test.cpp
#include "runtime/cli/console/console.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <sys/ioctl.h>
#include <unistd.h>

#include "graph/base/units.h"
#include "graph/base/utf8.h"

namespace xrun::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool wants_color(const GlobalOptions& options, bool tty) {
  if (options.color != "auto") {
    return options.color == "always";
  }
  if (!environment("CLICOLOR_FORCE").empty() && environment("CLICOLOR_FORCE") != "0") {
    return true;
  }
  return tty && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

bool has_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = environment(name);
    if (value.empty()) {
      continue;
    }
    std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// The width of a terminal. Nullopt if the file is not a terminal and COLUMNS is not set.
std::optional<int> find_columns(int file) {
  const int wanted = std::atoi(environment("COLUMNS").c_str());
  if (wanted > 0) {
    return wanted;
  }
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? std::optional<int>(size.ws_col) : std::nullopt;
}

nlohmann::json label_json(const Label& label, bool primary, const SourceMap& sources) {
  const Position begin = sources.position(label.span.file, label.span.begin);
  const Position end = sources.position(label.span.file, label.span.end);
  return {{"file", sources.path(label.span.file)},
          {"byte_start", label.span.begin},
          {"byte_end", label.span.end},
          {"line", begin.line},
          {"col", begin.column},
          {"end_line", end.line},
          {"end_col", end.column},
          {"label", label.text},
          {"primary", primary}};
}

// A diagnostic as one object (docs/reference/language.md, "Mistakes").
nlohmann::json to_json(const Diagnostic& d, const SourceMap& sources) {
  nlohmann::json spans = nlohmann::json::array();
  if (d.primary.span.valid()) {
    spans.push_back(label_json(d.primary, true, sources));
  }
  for (const Label& label : d.secondary) {
    if (label.span.valid()) {
      spans.push_back(label_json(label, false, sources));
    }
  }
  nlohmann::json expansion = nlohmann::json::array();
  for (const Expansion& step : d.expansion) {
    expansion.push_back({{"name", step.name}, {"place", sources.place(step.call)}});
  }
  nlohmann::json fixes = nlohmann::json::array();
  for (const Fix& fix : d.fixes) {
    nlohmann::json edits = nlohmann::json::array();
    for (const Edit& edit : fix.edits) {
      edits.push_back({{"file", sources.path(edit.span.file)},
                       {"byte_start", edit.span.begin},
                       {"byte_end", edit.span.end},
                       {"text", edit.text}});
    }
    const std::vector<std::string> titles = fix.numbered ? fix.lines : std::vector<std::string>{fix.title};
    for (const std::string& title : titles) {
      fixes.push_back(
          {{"title", title}, {"applicability", fix.sure ? "machine-applicable" : "suggestion"}, {"edits", edits}});
    }
  }
  return {{"v", 1},
          {"code", d.code},
          {"severity", d.severity == Severity::kError ? "error" : "warning"},
          {"message", d.message},
          {"file", d.primary.span.valid() ? sources.path(d.primary.span.file) : ""},
          {"spans", spans},
          {"notes", d.notes},
          {"expansion", expansion},
          {"fixes", fixes},
          {"rendered", render(d, sources)}};
}

void write(FILE* to, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

}  // namespace

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Console::Console(const GlobalOptions& options, std::string* held)
    : color_(wants_color(options, isatty(STDERR_FILENO) == 1)),
      unicode_(!options.ascii && has_utf8_locale()),
      tty_(isatty(STDERR_FILENO) == 1 && environment("TERM") != "dumb"),
      json_(options.format == "json"),
      quiet_(options.quiet),
      verbose_(options.verbose && !options.quiet),
      columns_(find_columns(STDERR_FILENO).value_or(80)),
      page_columns_(find_columns(STDOUT_FILENO).value_or(0)),
      held_(held) {}

void Console::to_stderr(std::string_view text) const {
  if (held_ != nullptr) {
    *held_ += text;
  } else {
    write(stderr, text);
  }
}

void Console::out(std::string_view text) const { write(stdout, json_ ? text : printable(text)); }

void Console::out_json(std::string_view text) const { write(stdout, text); }

void Console::note(std::string_view text) const { draw(printable(text)); }

void Console::draw(std::string_view text) const {
  if (!quiet_) {
    to_stderr(text);
  }
}

void Console::report(const Diagnostics& diagnostics, const SourceMap& sources) const {
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    if (quiet_ && diagnostic.severity == Severity::kWarning) {
      continue;
    }
    if (json_) {
      to_stderr(json_line(to_json(diagnostic, sources)));
    } else {
      to_stderr(render(diagnostic, sources, {.color = color_}) + "\n");
    }
  }
}

void Phase::done(std::string_view what, const std::string& about) {
  const auto now = std::chrono::steady_clock::now();
  if (console_.verbose()) {
    console_.note(fmt::format("  {:<10}{}   {}\n", what, about,
                              format_seconds(std::chrono::duration<double>(now - begin_).count())));
  }
  begin_ = now;
}

int Console::fail(const Failure& failure) const {
  const Error& error = failure.error;
  if (failure.is_plain) {
    to_stderr("error: " + printable_line(error.message) + "\nhelp: " + printable_line(error.help) + "\n");
    return failure.exit;
  }
  to_stderr(failure.heading.empty() ? "" : failure.heading + ":\n");
  report(failure.diagnostics, failure.sources);
  if (error.message.empty()) {
    return failure.exit;
  }
  if (json_) {
    to_stderr(json_line(to_json(diagnostic_of(error), failure.sources)));
  } else {
    to_stderr(render(error, failure.sources, {.color = color_}));
  }
  return failure.exit;
}

}  // namespace xrun::cli
