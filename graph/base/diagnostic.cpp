// Rendering of a diagnostic:
//   1. The marks of all labels are grouped by file and line; the primary label's file comes first.
//   2. block prints the lines that are near one another, each with its underline. Labels of one line share an underline
//      row if their texts fit; otherwise the texts are below each other, rightmost first.
//   3. The notes, the chain of expansions and the fixes follow. A fix with edits shows each edited line as it will
//      read.
// A long line is cut to a window around its first mark (marked_line.h).
// Tests: tests/graph/base/base_test.cpp
#include "graph/base/diagnostic.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/base/marked_line.h"
#include "graph/base/utf8.h"

namespace xrun {
namespace {

struct Palette {
  std::string error, warning, bold, blue, help, reset;
};

Palette palette(bool color) {
  if (!color) {
    return {};
  }
  return {"\033[1;31m", "\033[1;33m", "\033[1m", "\033[1;34m", "\033[1;36m", "\033[0m"};
}

class Renderer {
 public:
  Renderer(const SourceMap& sources, const RenderOptions& options)
      : sources_(sources), paint_(palette(options.color)) {}

  std::string run(const Diagnostic& d) {
    const bool error = d.severity == Severity::kError;
    out_ = (error ? paint_.error + "error" : paint_.warning + "warning") + (d.code.empty() ? "" : "[" + d.code + "]") +
           paint_.reset + paint_.bold + ": " + printable_line(d.message) + paint_.reset + "\n";
    gutter_ = gutter_width(d);
    if (d.primary.span.valid()) {
      snippet(d);
    }
    tail(d);
    return std::move(out_);
  }

 private:
  int gutter_width(const Diagnostic& d) const {
    int last = 1;
    const auto see = [&](const Span& span) {
      if (span.valid() && span.file < sources_.size()) {
        last = std::max(last, sources_.position(span.file, span.begin).line);
      }
    };
    see(d.primary.span);
    for (const Label& label : d.secondary) {
      see(label.span);
    }
    for (const Fix& fix : d.fixes) {
      for (const Edit& edit : fix.edits) {
        see(edit.span);
      }
    }
    return static_cast<int>(std::to_string(last).size());
  }

  std::string pad() const { return std::string(static_cast<size_t>(gutter_), ' '); }

  void blank_row() { out_ += paint_.blue + pad() + " |" + paint_.reset + "\n"; }

  void row(const std::string& number, char sign, std::string_view text) {
    std::string left = number;
    left.insert(0, static_cast<size_t>(gutter_) - left.size(), ' ');
    std::string body = printable_line(text);
    while (!body.empty() && body.back() == ' ') {
      body.pop_back();
    }
    out_ += paint_.blue + left + " " + sign + paint_.reset + (body.empty() ? "" : " " + body) + "\n";
  }

  LineMark mark_of(const Label& label, bool primary) const {
    const Position at = sources_.position(label.span.file, label.span.begin);
    const std::string_view line = sources_.line(label.span.file, at.line);
    std::string_view covered = sources_.text(label.span);
    covered = covered.substr(0, covered.find('\n'));
    const int space = std::max(1, count_code_points(line) - at.column + 1);
    return {at.column, std::clamp(count_code_points(covered), 1, space), primary, label.text};
  }

  void snippet(const Diagnostic& d) {
    // file -> line -> marks; the primary label's file comes first
    std::map<int32_t, std::map<int, std::vector<LineMark>>> files;
    std::vector<int32_t> order{d.primary.span.file};
    const auto add = [&](const Label& label, bool primary) {
      if (!label.span.valid()) {
        return;
      }
      if (std::find(order.begin(), order.end(), label.span.file) == order.end()) {
        order.push_back(label.span.file);
      }
      const int line = sources_.position(label.span.file, label.span.begin).line;
      files[label.span.file][line].push_back(mark_of(label, primary));
    };
    add(d.primary, true);
    for (const Label& label : d.secondary) {
      add(label, false);
    }
    block(d.primary.span.file, files[d.primary.span.file], sources_.position(d.primary.span.file, d.primary.span.begin),
          "--> ");
    for (const int32_t file : order) {
      while (!files[file].empty()) {
        const auto& [line, marks] = *files[file].begin();
        const auto first = std::min_element(marks.begin(), marks.end(),
                                            [](const LineMark& a, const LineMark& b) { return a.column < b.column; });
        block(file, files[file], {line, first->column}, "::: ");
      }
    }
  }

  // Prints the lines of a file that are near `at` or near a line already printed, and removes them from `lines`.
  void block(int32_t file, std::map<int, std::vector<LineMark>>& lines, Position at, const char* arrow) {
    constexpr int kNear = 3;  // lines at most this far apart are printed as one block
    auto from = lines.find(at.line);
    while (from != lines.begin() && from->first - std::prev(from)->first <= kNear) {
      --from;
    }
    auto to = std::next(from);
    while (to != lines.end() && to->first - std::prev(to)->first <= kNear) {
      ++to;
    }
    out_ += pad() + paint_.blue + arrow + paint_.reset + printable_line(sources_.path(file)) + ":" +
            std::to_string(at.line) + ":" + std::to_string(at.column) + "\n";
    blank_row();
    for (auto line = from; line != to; ++line) {
      const LineWindow window = window_of(sources_.line(file, line->first), shown_of(line->second).column - 1);
      if (window.is_part) {
        move_marks(line->second, window);
      }
      row(std::to_string(line->first), '|', window.text);
      for (const std::string& text : underline(line->second)) {
        row("", '|', text);
      }
    }
    blank_row();
    lines.erase(from, to);
  }

  void tail(const Diagnostic& d) {
    for (std::string note : d.notes) {
      for (size_t end = note.find('\n'); end != std::string::npos; end = note.find('\n', end + 1)) {
        note.insert(end + 1, pad() + "   ");
      }
      out_ += pad() + paint_.blue + " = " + paint_.reset + "note: " + printable(note) + "\n";
    }
    if (!d.expansion.empty()) {
      std::string names;
      std::string places;
      for (const Expansion& step : d.expansion) {
        names += (names.empty() ? "" : " > ") + step.name;
      }
      for (const Expansion& step : d.expansion) {
        const std::string place = sources_.place(step.call);
        if (!place.empty()) {
          places += (places.empty() ? "" : ", ") + place;
        }
      }
      out_ += pad() + paint_.blue + " = " + paint_.reset + "note: expanding " + printable_line(names) + "\n";
      if (!places.empty()) {
        out_ += pad() + "         " + printable_line(places) + "\n";
      }
    }
    const Fix* before = nullptr;
    for (const Fix& fix : d.fixes) {
      const bool again = before != nullptr && before->title == fix.title;
      before = &fix;
      if (!again) {
        out_ += paint_.help + "help" + paint_.reset + ": " + printable_line(fix.title) + "\n";
      }
      if (fix.edits.empty() && fix.lines.empty()) {
        continue;
      }
      if (!again) {
        blank_row();
      }
      char number = '0';
      for (const std::string& line : fix.lines) {
        const bool command = line.starts_with("$ ");
        row("", fix.numbered ? ++number : command ? '$' : '|', command ? std::string_view(line).substr(2) : line);
      }
      edited_lines(fix, again);
    }
  }

  // Prints each line that the edits touch, in its edited form. `again`: the fix is an alternative to one already shown,
  // and the line number is left out.
  void edited_lines(const Fix& fix, bool again) {
    std::set<std::pair<int32_t, int>> lines;
    for (const Edit& edit : fix.edits) {
      if (edit.span.valid() && edit.span.file < sources_.size()) {
        lines.insert({edit.span.file, sources_.position(edit.span.file, edit.span.begin).line});
      }
    }
    for (const auto& [file, number] : lines) {
      std::string text(sources_.line(file, number));
      const char* start = sources_.line(file, number).data();
      const auto offset = static_cast<uint32_t>(start - sources_.text(file).data());
      uint32_t first = UINT32_MAX;  // first byte of the line that an edit changes
      std::vector<Edit> edits = fix.edits;
      std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.span.begin > b.span.begin; });
      for (const Edit& edit : edits) {
        if (edit.span.file == file && sources_.position(file, edit.span.begin).line == number) {
          // A carriage return is not part of the line that is shown.
          const auto size = static_cast<uint32_t>(text.size());
          const uint32_t begin = std::min(edit.span.begin - offset, size);
          const uint32_t end = std::clamp(edit.span.end - offset, begin, size);
          text.replace(begin, end - begin, edit.text);
          first = begin;  // the leftmost edit is applied last
        }
      }
      // An edit may insert line ends; the lines after the first have no number yet.
      size_t begin = 0;
      for (size_t end = 0; end != std::string::npos; begin = end + 1) {
        end = text.find('\n', begin);
        const std::string_view line = std::string_view(text).substr(begin, end - begin);
        const int at = first > begin ? count_code_points(line.substr(0, first - begin)) : 0;
        row(begin == 0 && !again ? std::to_string(number) : "", '~', window_of(line, at).text);
      }
    }
  }

  const SourceMap& sources_;
  Palette paint_;
  int gutter_ = 1;
  std::string out_;
};

}  // namespace

void Diagnostics::add(Diagnostic diagnostic) {
  // Further diagnostics are only counted, so that a hostile text costs neither memory nor time. Errors and warnings
  // have separate limits, so that no number of warnings hides an error.
  constexpr int kMostKept = 500;
  int& count = diagnostic.severity == Severity::kError ? errors_ : warnings_;
  if (count >= kMostKept) {
    ++count;
    return;
  }
  // A diagnostic with the place, code and message of an earlier one has the same cause, so it is dropped.
  const bool known = std::any_of(all_.begin(), all_.end(), [&](const Diagnostic& d) {
    return d.primary.span == diagnostic.primary.span && d.code == diagnostic.code && d.message == diagnostic.message;
  });
  if (known) {
    return;
  }
  ++count;
  all_.push_back(std::move(diagnostic));
}

std::string render(const Diagnostic& diagnostic, const SourceMap& sources, const RenderOptions& options) {
  return Renderer(sources, options).run(diagnostic);
}

Diagnostic diagnostic_of(const Error& error) {
  Diagnostic diagnostic{.code = error.code,
                        .message = error.message,
                        .primary = {error.span, error.label},
                        .secondary = error.others,
                        .notes = error.notes};
  if (!error.help.empty()) {
    diagnostic.fixes.push_back(
        {.title = error.help, .edits = error.edits, .lines = error.choices, .numbered = !error.choices.empty()});
  }
  return diagnostic;
}

std::string render(const Error& error, const SourceMap& sources, const RenderOptions& options) {
  return render(diagnostic_of(error), sources, options);
}

}  // namespace xrun
