// Tests: tests/runtime/cli/commands/text_commands_test.cpp
#include "lang/explain.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "graph/settings/reader_def.h"
#include "lang/lower/curves.h"
#include "lang/lower/setting_def.h"
#include "lang/syntax/parser.h"
#include "lang/text/std_library.h"

namespace xrun::lang {
namespace {

constexpr std::string_view kNotYet = "This version checks it but cannot run it yet.\n";

// Divides a text at the separators that are outside of brackets.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : separator;
    depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    if (c == separator && (depth == 0 || i == text.size())) {
      const size_t first = std::min(text.find_first_not_of(' ', begin), i);
      if (first < i) {
        parts.push_back(text.substr(first, i - first));
      }
      begin = i + 1;
    }
  }
  return parts;
}

// Makes a sentence of a phrase: "gives the mean over a window" becomes "Gives the mean over a window."
std::string sentence(std::string_view doc) {
  std::string text(doc);
  if (!text.empty()) {
    text[0] = text[0] >= 'a' && text[0] <= 'z' ? static_cast<char>(text[0] - 'a' + 'A') : text[0];
    text += text.ends_with('.') ? "\n" : ".\n";
  }
  return text;
}

// Cells in aligned columns, one row per line; an empty cell at the end is left out.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      line += fmt::format(" {:<{}}", row[i], i + 1 < row.size() ? widths[i] + 1 : 0);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// A row for each parameter of a signature: name, type, default.
std::string parameter_table(std::string_view signature) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string_view part : parts_of(signature.substr(1, signature.size() - 2), ',')) {
    const size_t colon = std::min(part.find(": "), part.size());
    const size_t equals = std::min(part.find(" = "), part.size());
    const size_t type = std::min(colon + 2, equals);
    rows.push_back({std::string(part.substr(0, std::min(colon, equals))), std::string(part.substr(type, equals - type)),
                    equals < part.size() ? "default " + std::string(part.substr(equals + 3)) : ""});
  }
  return rows.empty() ? "" : "\n" + table(rows);
}

// The names of an operator in other frameworks; the names of its arguments are left out.
std::string foreign_words(std::string_view aliases) {
  std::string words;
  for (const std::string_view word : parts_of(aliases, ' ')) {
    words += word.find('=') == std::string_view::npos ? (words.empty() ? "" : ", ") + std::string(word) : "";
  }
  return words;
}

template <class Def>
Topic topic_of_call(const Def& def, std::string kind, std::string_view before_example) {
  Topic topic{.name = std::string(def.name), .kind = std::move(kind), .title = std::string(def.doc)};
  topic.page = fmt::format("{}{}\n\n{}", def.name, def.signature, sentence(def.doc));
  if constexpr (requires { def.availability; }) {
    topic.is_available = def.availability == Availability::kReady;
    topic.page += topic.is_available ? "" : kNotYet;
  }
  topic.page += parameter_table(def.signature);
  if constexpr (requires { def.bounds; }) {
    topic.page += def.bounds.empty() ? "" : fmt::format("\nBounds: {}.\n", def.bounds);
  }
  if constexpr (requires { def.aliases; }) {
    const std::string words = foreign_words(def.aliases);
    topic.page += words.empty() ? "" : fmt::format("\nIn other frameworks: {}.\n", words);
  }
  topic.page += def.example.empty() ? "" : fmt::format("\nExample: {}{}\n", before_example, def.example);
  return topic;
}

std::string path_of(const SettingDef& def) { return fmt::format("{}.{}", keyword_of(def.kind), def.path()); }

std::string bounds_of(const SettingDef& def) {
  return def.low == 0 && std::isinf(def.high) ? ""
         : def.type.ends_with("size")         ? fmt::format("From {}B.\n", def.low)
         : std::isinf(def.high)               ? fmt::format("From {}.\n", def.low)
                                              : fmt::format("From {} to {}.\n", def.low, def.high);
}

std::vector<std::string> row_of(const SettingDef& def, std::string name) {
  return {std::move(name), std::string(def.fallback), std::string(def.doc) + (def.later ? " (not yet)" : "")};
}

Topic topic_of(const SettingDef& def) {
  Topic topic{.name = path_of(def), .kind = "setting", .title = std::string(def.doc), .is_available = !def.later};
  topic.page = fmt::format("{} = {}\n\n{}", topic.name, def.type, sentence(def.doc));
  topic.page += def.later ? kNotYet : "";
  topic.page += def.fallback.empty() ? "" : fmt::format("Default: {}.\n", def.fallback);
  topic.page += bounds_of(def);
  std::vector<std::vector<std::string>> inner;
  for (const SettingDef& other : all_settings()) {
    if (other.kind == def.kind && other.path().starts_with(def.path() + ".")) {
      inner.push_back(row_of(other, other.path().substr(def.path().size() + 1)));
    }
  }
  topic.page += inner.empty() ? "" : "\n" + table(inner);
  // The example of a group is the title of a fix and its lines.
  const std::string_view example =
      inner.empty() ? def.example : def.example.substr(std::min(def.example.find('\n') + 1, def.example.size()));
  if (!example.empty()) {
    topic.page += "\nExample:\n";
    for (size_t at = 0; at < example.size();) {
      const size_t end = std::min(example.find('\n', at), example.size());
      topic.page += fmt::format("  {}\n", example.substr(at, end - at));
      at = end + 1;
    }
  }
  return topic;
}

// The topic of a kind of declaration that has settings: the list of its first-level settings.
Topic topic_of(DeclKind kind, std::string_view title) {
  Topic topic{.name = std::string(keyword_of(kind)), .kind = "declaration", .title = std::string(title)};
  topic.page = fmt::format("{} NAME {{ ... }}\n\n{}", topic.name, sentence(title));
  std::vector<std::vector<std::string>> rows;
  for (const SettingDef& def : all_settings()) {
    if (def.kind == kind && def.group.empty()) {
      rows.push_back(row_of(def, std::string(def.key)));
    }
  }
  topic.page += fmt::format("\nSettings, their defaults, and what they are (`xrun explain {}.KEY` says more):\n\n{}",
                            topic.name, table(rows));
  return topic;
}

// Adds blocks, functions and optimizers of the standard library, as they are written there.
void add_library(std::vector<Topic>& topics) {
  for (const std::string_view file : std_files()) {
    SourceMap sources;
    Diagnostics faults;
    const int32_t source = sources.add(std::string(file), std::string(*std_source(file)));
    const Ast ast = parse(sources, source, faults);
    const bool is_known = is_known_without_import(file);
    for (const Decl& decl : ast.decls) {
      if (!decl.name) {
        continue;
      }
      std::string title = decl.doc.substr(0, decl.doc.find_last_not_of(".\n") + 1);
      std::ranges::replace(title, '\n', ' ');
      Topic topic{.name = std::string(decl.name.text), .kind = std::string(keyword_of(decl.kind)), .title = title};
      std::string_view text = sources.text(decl.span);
      text = text.substr(0, text.find_last_not_of('\n') + 1);
      topic.page = fmt::format("{}\n\n{}\n{}\n\n{}\n", topic.name, sentence(title), text,
                               is_known ? "Every file knows it without an import."
                                        : fmt::format("Import: from \"{}\" use {}", file, topic.name));
      topics.push_back(std::move(topic));
    }
  }
}

// Whether each part of `name` equals that part of `path`. A part of the path in capitals stands for any name.
bool matches(std::string_view name, std::string_view path) {
  const std::vector<std::string_view> a = parts_of(name, '.');
  const std::vector<std::string_view> b = parts_of(path, '.');
  return std::ranges::equal(a, b, [](std::string_view one, std::string_view other) {
    return one == other || (other[0] >= 'A' && other[0] <= 'Z');
  });
}

}  // namespace

std::vector<Topic> all_topics(const OpRegistry& ops) {
  std::vector<Topic> topics;
  for (const OpDef* op : ops.all()) {
    if (op->is_word()) {
      topics.push_back(topic_of_call(*op, "operator", op->group == "losses" ? "loss = " : ""));
    }
  }
  for (const ReaderDef* reader : data_registry().readers) {
    topics.push_back(topic_of_call(*reader, "reader", "source train = "));
  }
  for (const AugmentDef* stage : data_registry().augments) {
    topics.push_back(topic_of_call(*stage, "data stage", "x = pixels -> "));
  }
  for (const CurveKind& curve : curve_kinds()) {
    topics.push_back(topic_of_call(curve, "curve", "lr = "));
  }
  add_library(topics);
  topics.push_back(topic_of(DeclKind::kData, "what a run learns from: sources, and what is made of their fields"));
  topics.push_back(topic_of(DeclKind::kTrain, "how a run learns"));
  topics.push_back(topic_of(DeclKind::kCluster, "the machines of a run"));
  topics.push_back(topic_of(DeclKind::kSchedule, "constraints on the plan; they change time and memory only"));
  topics.push_back(topic_of(DeclKind::kRun, "which model, data, train, cluster and schedule go together"));
  for (const SettingDef& def : all_settings()) {
    topics.push_back(topic_of(def));
  }
  topics.push_back(
      {.name = "extends",
       .kind = "part",
       .title = "a declaration that takes the settings of another one of its kind",
       .page = "train large extends base { batch = 8192 }\n\n"
               "A declaration that takes the settings of another one of its kind.\n"
               "It replaces them key by key, including those in groups. `xrun show --explicit` prints the result.\n"});
  topics.push_back(
      {.name = "state",
       .kind = "part",
       .title = "a tensor that a block keeps and no gradient changes, such as running statistics",
       .page = "state center: [D] = 0\ncenter = 0.99 * center + 0.01 * batch_mean(x)\n\n"
               "A tensor that a block or model keeps and no gradient changes, such as running statistics.\n"
               "It is assigned once, from itself and means of the batch: `batch_mean(x)` is the mean of x over the\n"
               "samples of a step. Operators that read it in a step get the value from before the step. Checkpoints\n"
               "contain it, and evaluation does not change it. In an optimizer, it is a number for each weight:\n"
               "state m = 0.\n"});
  topics.push_back(
      {.name = "moved",
       .kind = "part",
       .title = "the new name of a tensor, or of a prefix of names, for checkpoints that have the old one",
       .page = "moved \"backbone.conv\" -> \"backbone.stem\"\n\n"
               "The new name of a tensor, or of a prefix of names, for checkpoints that have the old one.\n"
               "Such checkpoints can resume, initialise and evaluate a run; its random numbers stay the same.\n"
               "Moves may be chained: \"a\" -> \"b\", \"b\" -> \"c\".\n"});
  return topics;
}

std::vector<Topic> find_topics(std::string_view name, const std::vector<Topic>& topics) {
  const auto without_declaration = [](const Topic& topic) {
    const std::string_view path = topic.name;
    return topic.kind == "setting" ? path.substr(path.find('.') + 1) : std::string_view();
  };
  std::vector<Topic> found;
  const auto find = [&](auto fits) {
    if (found.empty()) {
      std::ranges::copy_if(topics, std::back_inserter(found), fits);
    }
  };
  find([&](const Topic& topic) { return topic.kind == "declaration" && topic.name == name; });
  find([&](const Topic& topic) { return topic.name == name || without_declaration(topic) == name; });
  find([&](const Topic& topic) { return topic.kind == "setting" && matches(name, topic.name); });
  find([&](const Topic& topic) {
    const std::string_view path = without_declaration(topic);
    return !path.empty() && path[0] >= 'a' && matches(name, path);  // a path that begins with capitals fits any name
  });
  return found;
}

}  // namespace xrun::lang
