// The parser reads one line after another. A line with a fault is skipped up to its end, so that one run reports all
// faults. Lines inside `within` are expanded at once: each pair of its heading is put before their patterns and
// targets.
// Tests: tests/runtime/interchange/names/name_table_test.cpp
#include "runtime/interchange/names/name_parser.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

#include "runtime/interchange/names/name_words.h"

namespace xrun::runtime {
namespace {

using Kind = NameToken::Kind;

constexpr size_t kMostErrors = 20, kDeepest = 8;

class Parser {
 public:
  Parser(NameTable& table, std::vector<NameToken> tokens, Diagnostics& diagnostics)
      : table_(table), tokens_(std::move(tokens)), diagnostics_(diagnostics) {}

  void run() {
    heading();
    while (!is(Kind::kEnd) && !full()) {
      line({}, 0);
    }
  }

 private:
  const NameToken& now() const { return tokens_[at_]; }
  bool is(Kind kind) const { return now().kind == kind; }
  bool is_word(std::string_view text) const { return is(Kind::kWord) && now().text == text; }
  bool full() const {
    return static_cast<size_t>(diagnostics_.error_count()) >= kMostErrors || table_.lines() > kMostTableRules ||
           memory_ > kMostTableMemory;
  }
  void skip_newlines() {
    for (; is(Kind::kNewline); ++at_) {
    }
  }
  bool pass(bool there) {
    at_ += there ? 1 : 0;
    return there;
  }
  bool take(Kind kind) { return pass(is(kind)); }
  bool take_word(std::string_view text) { return pass(is_word(text)); }

  // Skips a `within` whose heading, which begins at token `first`, has a fault.
  void skip_block(size_t first) { at_ = end_of_block(tokens_, first); }

  // Reports a fault, and returns false.
  bool report(Span at, std::string message, std::string label, std::string help) {
    diagnostics_.add(name_fault(at, std::move(message), std::move(label), std::move(help)));
    return false;
  }

  // Reports a fault, skips the rest of the line, and returns false.
  bool fault(Span at, std::string message, std::string label, std::string help) {
    report(at, std::move(message), std::move(label), std::move(help));
    while (!is(Kind::kNewline) && !is(Kind::kEnd)) {
      ++at_;
    }
    return false;
  }

  // Counts the names that a line puts below each of the prefixes, before they are made.
  bool claim(const std::vector<NamePrefix>& prefixes, std::span<const NamePattern> from, std::span<const NameTarget> to,
             Span at) {
    memory_ += expanded_memory(prefixes, from, to);
    return memory_ <= kMostTableMemory || report(at, "too many names after `within` was expanded", "from here on",
                                                 "write shorter lines, or fewer pairs before the braces");
  }

  bool end_of_line() {
    return is(Kind::kEnd) || is(Kind::kClose) || take(Kind::kNewline) ||
           fault(now().span, "words that do not belong to this line", "not expected here",
                 "begin a new line, or quote names with blanks: \"a name\"");
  }

  void heading() {
    skip_newlines();
    if (!take_word("names")) {
      fault(now().span, "a name table begins with `names 1`", "begins with something else",
            "write `names 1` in the first line");
    } else if (!take_word("1")) {
      fault(now().span, "an unknown version of the language of name tables", "this xrun knows version 1",
            "write `names 1`");
    } else {
      end_of_line();
    }
  }

  void line(const std::vector<NamePrefix>& prefixes, size_t depth) {
    if (take(Kind::kNewline)) {
      return;
    }
    if (is(Kind::kClose) && depth == 0) {
      fault(now().span, "a brace that closes nothing", "no `within` is open here", "remove it");
      return;
    }
    if (!is_setting() || tokens_[at_ + 1].kind == Kind::kArrow) {
      rule(prefixes);
      return;
    }
    const NameToken word = tokens_[at_++];
    if (word.text == "within") {
      within(prefixes, depth);
    } else if (word.text == "ignore") {
      ignore(prefixes);
    } else if (depth > 0) {
      fault(word.span, fmt::format("`{}` inside `within`", word.text), "belongs to the whole table",
            "move the line out of the braces");
    } else {
      setting(word);
    }
  }

  // Whether the line begins with a word of the language, and not with a pattern.
  bool is_setting() const {
    constexpr std::string_view kWords[] = {"title", "note", "like", "drop", "ignore", "within"};
    return is(Kind::kWord) && std::ranges::find(kWords, now().text) != std::end(kWords);
  }

  void setting(const NameToken& word) {
    if (word.text == "title" || word.text == "note") {
      if (!is(Kind::kString)) {
        fault(now().span, fmt::format("`{}` needs a text in quotes", word.text), "not a text in quotes",
              fmt::format("write {} \"...\"", word.text));
        return;
      }
      (word.text == "title" ? table_.title : table_.notes.emplace_back()) = tokens_[at_++].text;
    } else if (word.text == "like") {
      if (!is(Kind::kWord) || !table_.like.empty()) {
        fault(now().span, "`like` names one table", "not the name of a table",
              "write one line `like torchvision_resnet`");
        return;
      }
      table_.like = tokens_[at_++].text;
    } else {
      do {
        if (!is(Kind::kWord) && !is(Kind::kString)) {
          fault(now().span, "`drop` needs the first parts of names", "not a part of a name",
                "write drop module, model");
          return;
        }
        table_.drop.emplace_back(tokens_[at_++].text);
      } while (take(Kind::kComma));
    }
    end_of_line();
  }

  void ignore(const std::vector<NamePrefix>& prefixes) {
    NamePattern pattern;
    const NameToken word = now();
    if (!read_pattern(pattern, true) || !end_of_line()) {
      return;
    }
    if (!prefixes.empty() && pattern.anywhere) {
      report(word.span, "`*.` inside `within`", "this pattern", "move the line out of the braces");
      return;
    }
    if (!claim(prefixes, {&pattern, 1}, {}, word.span)) {
      return;
    }
    if (prefixes.empty()) {
      table_.ignored.push_back(pattern);
    }
    for (const NamePrefix& prefix : prefixes) {
      table_.ignored.push_back(joined(prefix.from, pattern));
    }
  }

  void within(const std::vector<NamePrefix>& outer, size_t depth) {
    const size_t first = at_;
    const Span at = now().span;
    std::vector<NamePrefix> pairs;
    do {
      NamePrefix pair;
      if (!read_pattern(pair.from, false) || !arrow() || !read_target(pair.to) || !captured(pair.from, pair.to, at) ||
          !add_pairs(outer, pair, at, pairs)) {
        return skip_block(first);
      }
      if (pair.to.classes) {
        report(at, "`within` with the target `<classes>`", "this pair",
               "write one line for each tensor: fc -> <classes>");
        return skip_block(first);
      }
      skip_newlines();
    } while (take_word("or"));
    if (!take(Kind::kOpen)) {
      fault(now().span, "`within` needs its lines in braces", "no `{` here",
            "write within PATH -> PATH { ... }, and further pairs after `or`");
      return;
    }
    if (depth + 1 >= kDeepest) {
      fault(at, "`within` is nested too deep", "this one", fmt::format("nest fewer than {}", kDeepest));
      return;
    }
    while (!is(Kind::kClose) && !is(Kind::kEnd) && !full()) {
      line(pairs, depth + 1);
    }
    if (take(Kind::kClose)) {
      end_of_line();
    } else if (!full()) {
      fault(at, "a `within` that does not end", "opened here", "close it with }");
    }
  }

  // Puts the pairs of the outer `within` before a pair.
  bool add_pairs(const std::vector<NamePrefix>& outer, const NamePrefix& pair, Span at,
                 std::vector<NamePrefix>& pairs) {
    if (!claim(outer, {&pair.from, 1}, {&pair.to, 1}, at)) {
      return false;
    }
    if (outer.empty()) {
      pairs.push_back(pair);
    }
    for (const NamePrefix& prefix : outer) {
      pairs.push_back({joined(prefix.from, pair.from), joined(prefix.to, pair.to)});
    }
    return pairs.size() <= kMostTableRules || report(at, "too many pairs", "from here on", "split the table");
  }

  void rule(const std::vector<NamePrefix>& prefixes) {
    NameRule made{.from = {}, .to = {}, .how = NameRule::How::kAsIs, .span = now().span};
    do {
      if (!read_pattern(made.from.emplace_back(), false)) {
        return;
      }
    } while (take_comma());
    if (!arrow()) {
      return;
    }
    do {
      if (!read_target(made.to.emplace_back())) {
        return;
      }
    } while (take_comma());
    made.span = join(made.span, tokens_[at_ - 1].span);
    if (!manner(made) || !end_of_line() || !is_sound(made, !prefixes.empty()) ||
        !claim(prefixes, made.from, made.to, made.span)) {
      return;
    }
    if (prefixes.empty()) {
      table_.rules.push_back(made);
    }
    for (const NamePrefix& prefix : prefixes) {
      NameRule whole = made;
      for (NamePattern& from : whole.from) {
        from = joined(prefix.from, from);
      }
      for (NameTarget& to : whole.to) {
        to = joined(prefix.to, to);
      }
      table_.rules.push_back(std::move(whole));
    }
  }

  // A line goes on after a comma at its end.
  bool take_comma() {
    const bool there = take(Kind::kComma);
    if (there) {
      skip_newlines();
    }
    return there;
  }

  bool manner(NameRule& made) {
    if (take_word("transposed")) {
      made.how = NameRule::How::kTransposed;
    } else if (take_word("reshaped")) {
      made.how = NameRule::How::kReshaped;
    } else if (take_word("by")) {
      made.how = NameRule::How::kByRank;
      return take_word("rank") || fault(now().span, "`by` without `rank`", "`rank` is missing", "write `by rank`");
    }
    return true;
  }

  // Checks what concerns the whole line.
  bool is_sound(const NameRule& made, bool inside) {
    if (made.from.size() > 1 && made.to.size() > 1) {
      return report(made.span, "a line that joins and divides at once", "several names on both sides",
                    "join several tensors to one, or divide one among several");
    }
    if (made.from.size() + made.to.size() > 2 && made.how != NameRule::How::kAsIs) {
      return report(made.span, "`transposed`, `reshaped` and `by rank` need one name on each side", "several names",
                    "leave the word out, or write one line for each tensor");
    }
    for (const NameTarget& to : made.to) {
      if (to.classes && inside) {
        return report(made.span, "`<classes>` inside `within`", "it is not below another path",
                      "move the line out of the braces");
      }
      for (const NamePattern& from : made.from) {
        if (!captured(from, to, made.span)) {
          return false;
        }
      }
    }
    return true;
  }

  bool captured(const NamePattern& from, const NameTarget& to, Span at) {
    for (const TargetPiece& piece : to.pieces) {
      if (!piece.capture.empty() &&
          std::ranges::find(from.parts, piece.capture, &PatternPart::capture) == from.parts.end()) {
        return report(at, fmt::format("`{{{}}}` is not captured by `{}`", piece.capture, to_text(from)), "in this line",
                      fmt::format("write {{{}}} in the pattern before the arrow", piece.capture));
      }
    }
    return true;
  }

  bool arrow() {
    return take(Kind::kArrow) || fault(now().span, "a line without an arrow", "`->` is missing",
                                       "write NAME IN THE FILE -> NAME IN THE MODEL");
  }

  bool read_pattern(NamePattern& pattern, bool may_be_anywhere) {
    return word_for("a pattern of names") && checked(parse_pattern(tokens_[at_ - 1].text, may_be_anywhere, pattern));
  }
  bool read_target(NameTarget& target) {
    return word_for("a path in the model") && checked(parse_target(tokens_[at_ - 1].text, target));
  }
  bool word_for(const char* what) {
    return take(Kind::kWord) || take(Kind::kString) ||
           fault(now().span, fmt::format("{} is missing", what), "not a name", "write names as a.b.{capture}");
  }
  bool checked(const WordFault& found) {
    return found.message.empty() || fault(tokens_[at_ - 1].span, found.message, "in this name", found.help);
  }

  NameTable& table_;
  std::vector<NameToken> tokens_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  size_t memory_ = 0;  // bytes of the patterns and targets that were made
};

}  // namespace

void read_lines(std::vector<NameToken> tokens, NameTable& table, Diagnostics& diagnostics) {
  Parser(table, std::move(tokens), diagnostics).run();
}

}  // namespace xrun::runtime
