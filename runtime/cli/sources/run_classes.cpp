// Tests: tests/cases/classes_test.cpp
#include "runtime/cli/sources/run_classes.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/units.h"

namespace xrun::cli {
namespace {

using runtime::ClassTable;
using runtime::ClassTables;

constexpr size_t kMostNamed = 5;

// The end of a list that shows only the first names: " and 3 more".
std::string rest_of(const std::vector<std::string>& names) {
  return names.size() > kMostNamed
             ? fmt::format(" and {} more", format_count(static_cast<int64_t>(names.size() - kMostNamed)))
             : "";
}

// "`ape`, `bat` and 3 more".
std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    shown.push_back(fmt::format("`{}`", names[i]));
  }
  return fmt::format("{}{}", fmt::join(shown, ", "), rest_of(names));
}

// "cat, dog, owl as classes 0, 1, 2".
std::string numbered(const std::vector<std::string>& names) {
  std::vector<std::string> shown(names.begin(), names.begin() + std::ptrdiff_t(std::min(names.size(), kMostNamed)));
  std::vector<size_t> numbers(shown.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = i;
  }
  return fmt::format("{} as {} {}{}", fmt::join(shown, ", "), names.size() == 1 ? "class" : "classes",
                     fmt::join(numbers, ", "), rest_of(names));
}

// The names of `from` that `in` lacks, in their order.
std::vector<std::string> missing(const std::vector<std::string>& from, const std::vector<std::string>& in) {
  const auto positions = runtime::positions_of(from, in);
  std::vector<std::string> names;
  for (size_t i = 0; i < from.size(); ++i) {
    if (positions[i] < 0) {
      names.push_back(from[i]);
    }
  }
  return names;
}

Span span_of_train(const Module& module) {
  const auto source = std::ranges::find(module.data.sources, "train", &SourceSpec::name);
  return source == module.data.sources.end() ? Span() : source->reader.span;
}

// The error for a source with classes that the checkpoint lacks. The source may also lack classes of the checkpoint.
Error other_classes(const ClassTable& trained, const std::vector<std::string>& added,
                    const std::vector<std::string>& gone, const Span& span) {
  Error error = content_error("XG0402",
                              {"{} of `{}` in the source `train` {} not in the checkpoint, which has {}", listed(added),
                               trained.input, added.size() == 1 ? "is" : "are", numbered(trained.names)},
                              "", span);
  const std::string rename =
      gone.empty() ? ""
                   : fmt::format("if `{}` was renamed, say so in `data`: classes {{ moved \"{}\" -> \"{}\" }}; ",
                                 gone[0], gone[0], added[0]);
  error.help = fmt::format("{}to add {} as {}: --extend; to begin another run: -C DIR", rename,
                           added.size() == 1 ? "it" : "them", added.size() == 1 ? "a new class" : "new classes");
  return error;
}

// The model's number of classes for the input.
int64_t classes_of(const Graph& graph, const std::string& input) {
  const auto found = std::ranges::find(graph.inputs, input, &NamedValue::name);
  return found == graph.inputs.end() ? 0 : graph.value(found->value).type.classes;
}

class Settling {
 public:
  Settling(const Module& module, bool extend, runtime::EventSink& events)
      : module_(module), extend_(extend), events_(events) {}

  Result<ClassTable> settle(const ClassTable& own, const ClassTable& trained) {
    const std::vector<std::string> added = missing(own.names, trained.names);
    const std::vector<std::string> gone = missing(trained.names, own.names);
    if (!added.empty() && !extend_) {
      return other_classes(trained, added, gone, span_of_train(module_));
    }
    ClassTable table = trained;
    table.names.insert(table.names.end(), added.begin(), added.end());
    const int64_t places = classes_of(module_.graph, own.input);
    if (std::ssize(table.names) > places) {
      return content_error("XG0402",
                           {"`{}` has {} classes with {}, which {} added, but the model has {}", own.input,
                            table.names.size(), listed(added), added.size() == 1 ? "is" : "are", places},
                           {"give the model {} classes", format_with_underscores(std::ssize(table.names))},
                           span_of_train(module_));
    }
    for (size_t i = 0; i < std::min(added.size(), kMostNotes); ++i) {
      events_.on(runtime::NoteEvent{
          fmt::format("`{}` is added to `{}` as class {}", added[i], own.input, trained.names.size() + i)});
    }
    if (added.size() > kMostNotes) {
      events_.on(runtime::NoteEvent{fmt::format("{} more classes are added to `{}`, up to class {}",
                                                format_count(static_cast<int64_t>(added.size() - kMostNotes)),
                                                own.input, table.names.size() - 1)});
    }
    if (!gone.empty()) {
      events_.on(runtime::WarnEvent{
          "XG0416", fmt::format("the source `train` has no samples of {}, {} of the checkpoint: {} {} kept",
                                listed(gone), gone.size() == 1 ? "a class" : "classes",
                                gone.size() == 1 ? "its row" : "their rows", gone.size() == 1 ? "is" : "are")});
    }
    return table;
  }

 private:
  static constexpr size_t kMostNotes = 20;

  const Module& module_;
  bool extend_;
  runtime::EventSink& events_;
};

}  // namespace

Result<ClassTables> settle_classes(runtime::SampleRows& rows, const std::optional<ClassTables>& trained,
                                   const Module& module, bool extend, runtime::EventSink& events) {
  if (!trained) {
    return rows.classes();
  }
  const ClassTables of_checkpoint = runtime::of_graph(*trained, module.graph);
  Settling settling(module, extend, events);
  ClassTables settled;
  for (const ClassTable& own : rows.classes()) {
    const ClassTable* found = runtime::find_table(of_checkpoint, own.input);
    if (found == nullptr && own.named) {
      events.on(runtime::NoteEvent{
          fmt::format("the checkpoint does not say what the classes of `{}` are: they are numbered as the "
                      "source `train` numbers them",
                      own.input)});
    }
    if (found == nullptr || !found->named || !own.named) {
      settled.push_back(found == nullptr ? own : *found);
      continue;
    }
    XRUN_ASSIGN(ClassTable table, settling.settle(own, runtime::renamed(*found, module.data.moved_classes)));
    settled.push_back(std::move(table));
  }
  XRUN_TRY(rows.number_by(settled));
  return settled;
}

}  // namespace xrun::cli
