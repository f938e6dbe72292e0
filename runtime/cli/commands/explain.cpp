// `xrun explain`: the page of a code, an operator, a setting or another word of the language.
// Tests: tests/runtime/cli/commands/text_commands_test.cpp
#include "lang/explain.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/codes.h"
#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "lang/text/foreign_names.h"
#include "lang/text/nearest.h"
#include "ops/op.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/commands/explain_tensor.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/model/load.h"

namespace xrun::cli {
namespace {

std::string indented(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    out += line.empty() ? "\n" : "  " + std::string(line) + "\n";
    at = end + 1;
  }
  return out;
}

// Breaks a text into lines of at most `width` columns; empty lines are kept.
std::string reflowed(std::string_view text, size_t width) {
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at, 2) == "\n\n") {
      out += "\n\n";
      column = 0;
      at += 2;
      continue;
    }
    const size_t begin = text[at] == '\n' || text[at] == ' ' ? at + 1 : at;
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const auto length = static_cast<size_t>(count_code_points(text.substr(begin, end - begin)));
    const bool breaks = column > 0 && column + 1 + length > width;
    out += column == 0 ? "" : breaks ? "\n" : " ";
    out += text.substr(begin, end - begin);
    column = (column == 0 || breaks ? 0 : column + 1) + length;
    at = end;
  }
  return out;
}

std::string page_of(const CodePage& code, size_t width) {
  std::string page = fmt::format("{}  {}\n\n{}\n", code.code, code.title, reflowed(code.text, width));
  if (!code.wrong.empty()) {
    page += fmt::format("\nGives {}:\n\n{}", code.code, indented(code.wrong));
    page += fmt::format("\nCorrected:\n\n{}", indented(code.right));
  }
  return page;
}

// Finds the page of a code. It may be written in small letters and without `XG`: `XG0301`, `301`.
std::optional<CodePage> find_page(const std::string& topic) {
  std::string code;
  for (const char c : topic) {
    code.push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  }
  return find_code(code.starts_with("XG") ? code : "XG" + code);
}

class Command {
 public:
  Command(const GlobalOptions& options, const ExplainArgs& args, const Console& console)
      : options_(options), args_(args), console_(console), topics_(lang::all_topics(ops::registry())) {}

  void list() const {
    std::string heading;
    for (const CodePage& code : args_.unavailable ? std::vector<CodePage>{} : code_pages()) {
      row("code", std::string(code.code), std::string(code.title), true, heading);
    }
    for (const lang::Topic& topic : topics_) {
      if (!args_.unavailable || !topic.is_available) {
        row(topic.kind, topic.name, topic.title, topic.is_available, heading);
      }
    }
  }

  Outcome<void> explain(const std::string& name) const {
    if (const size_t colon = name.rfind(':'); colon != std::string::npos) {
      return tensor(name.substr(0, colon), name.substr(colon + 1));
    }
    if (const auto code = find_page(name)) {
      console_.json() ? console_.out(json_line({{"v", 1},
                                                {"kind", "code"},
                                                {"name", code->code},
                                                {"title", code->title},
                                                {"text", code->text},
                                                {"wrong", code->wrong},
                                                {"right", code->right}}))
                      : console_.out(page_of(*code, width()));
      return {};
    }
    std::vector<lang::Topic> found = lang::find_topics(name, topics_);
    if (const OpDef* op = found.empty() ? lang::foreign_op(ops::registry(), name) : nullptr) {
      found = lang::find_topics(op->name, topics_);  // PyTorch's `Conv2d` is called `conv` here
    }
    for (const lang::Topic& topic : found) {
      if (console_.json()) {
        console_.out(json_line({{"v", 1},
                                {"kind", topic.kind},
                                {"name", topic.name},
                                {"title", topic.title},
                                {"available", topic.is_available},
                                {"text", topic.page}}));
      } else {
        console_.out((&topic == found.data() ? "" : "\n") + topic.kind + " " + topic.page);
      }
    }
    return found.empty() ? Outcome<void>(unknown(name)) : Outcome<void>();
  }

 private:
  // The maximum width of the printed lines. It is limited, since long lines are hard to read.
  size_t width() const {
    constexpr int kMost = 100;
    const int columns = console_.page_columns();
    return static_cast<size_t>(columns > 0 ? std::min(columns, kMost) : kMost);
  }

  Outcome<void> tensor(const std::string& file, const std::string& name) const {
    XRUN_ASSIGN(const LoadedModel model, load_model(file, options_, console_, false));
    XRUN_ASSIGN(const std::string text, explain_tensor(model, name));
    console_.out(console_.json() ? json_line({{"v", 1}, {"kind", "tensor"}, {"name", name}, {"text", text}}) : text);
    return {};
  }

  // Prints one topic of the list. On a terminal, the line includes the title, and each kind of topic has a heading.
  // Elsewhere the line is only the name, for other commands: `xrun explain --list | xargs -n1 xrun explain`.
  void row(const std::string& kind, const std::string& name, const std::string& title, bool is_available,
           std::string& heading) const {
    if (console_.json()) {
      console_.out(
          json_line({{"v", 1}, {"kind", kind}, {"name", name}, {"title", title}, {"available", is_available}}));
      return;
    }
    if (console_.page_columns() == 0) {
      console_.out(name + "\n");
      return;
    }
    if (heading != kind) {
      console_.out((heading.empty() ? "" : "\n") + kind + "s\n");
      heading = kind;
    }
    console_.out(fmt::format("  {:<28} {}{}\n", name, title, is_available || args_.unavailable ? "" : " (not yet)"));
  }

  Error unknown(const std::string& name) const {
    std::vector<std::string> names = lang::names_of(topics_, &lang::Topic::name);
    for (const lang::Topic& topic : topics_) {
      if (topic.kind == "setting") {
        names.push_back(topic.name.substr(topic.name.find('.') + 1));
      }
    }
    for (const CodePage& code : code_pages()) {
      names.emplace_back(code.code);
    }
    const std::string near = nearest(name, names);
    return usage_error("XG0906", {"there is nothing called `{}` to explain", name},
                       near.empty() ? Text("`xrun explain --list` names all codes, operators and settings")
                                    : Text("did you mean `{}`?", near));
  }

  const GlobalOptions& options_;
  const ExplainArgs& args_;
  const Console& console_;
  std::vector<lang::Topic> topics_;
};

Status check_request(const ExplainArgs& args) {
  if (args.list && !args.topics.empty()) {
    return usage_error("XG0906", "`--list` names everything, so `" + args.topics[0] + "` has no effect",
                       "leave one of them out");
  }
  if (args.unavailable && !args.list) {
    return usage_error("XG0906", "`--unavailable` has no effect without `--list`",
                       "add `--list`, or leave `--unavailable` out");
  }
  if (!args.list && args.topics.empty()) {
    return usage_error("XG0906", "`xrun explain` needs something to explain",
                       "name a code, an operator, a setting or FILE:TENSOR, or ask for `--list`");
  }
  return {};
}

}  // namespace

Outcome<int> run_explain(const GlobalOptions& options, const ExplainArgs& args) {
  const Console console(options);
  XRUN_TRY(check_request(args));
  const Command command(options, args, console);
  if (args.list) {
    command.list();
    return 0;
  }
  int worst = 0;
  for (const std::string& topic : args.topics) {
    const Outcome<void> explained = command.explain(topic);
    worst = std::max(worst, explained.ok() ? 0 : console.fail(explained.error()));
    console.out(&topic == &args.topics.back() || console.json() ? "" : "\n");
  }
  return worst;
}

}  // namespace xrun::cli
