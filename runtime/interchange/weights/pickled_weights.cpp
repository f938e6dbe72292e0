// Tests: tests/runtime/interchange/weights/pickle_file_test.cpp, tests/runtime/interchange/weights/torch_zip_test.cpp
#include "runtime/interchange/weights/pickled_weights.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/errors.h"
#include "runtime/formats/pickle/numpy_values.h"
#include "runtime/interchange/weights/paddle_parts.h"
#include "runtime/interchange/weights/torch_values.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kHelp =
    "no code of a file is run; where you trust it, load it in Python and save the tensors alone: "
    "torch.save(model.state_dict(), \"weights.pth\"), or paddle.save(model.state_dict(), \"weights.pdparams\")";

// The key under which paddle.save adds a table of names (python/paddle/framework/io.py of PaddlePaddle 3.3).
constexpr std::string_view kPaddleNames = "StructuredToParameterName@@";

constexpr int64_t kMostEntries = 250'000;
constexpr Bytes kMostNames = 256 * kMiB;  // limit for all names together

class Collector {
 public:
  Collector(const Pickle& pickle, const PickledSources& sources, WeightContents& to)
      : pickle_(pickle), sources_(sources), to_(to), has_tensors_(pickle.values(), kUnseen) {}

  Status visit(PickleId id, const std::string& name) {
    names_ += std::ssize(name);
    if (++entries_ > kMostEntries || names_ > kMostNames) {
      return pickle_.fault(
          id, fmt::format("more than {} entries, or names of more than {}", kMostEntries, format_bytes(kMostNames)));
    }
    const PickleValue& value = pickle_[id];
    if (is_tensor(pickle_, id)) {
      XRUN_ASSIGN(PickledTensor found, pickled_tensor(pickle_, id, sources_));
      if (found.tensor) {
        return to_.add(name.empty() ? "tensor" : name, std::move(*found.tensor));
      }
      to_.add_other(name, found.unread);
      return {};
    }
    if (value.kind == PickleKind::kReference) {
      to_.add_other(name, "a storage without a tensor");
      return {};
    }
    if (!has_tensors(id) && !name.empty()) {
      to_.add_other(name, is_dict(value) ? "a dict" : name_of(value.kind));
      return {};
    }
    return visit_parts(id, name);
  }

  // The value of kPaddleParts; kPickledNone without one.
  PickleId parts() const { return parts_; }

 private:
  static constexpr uint8_t kUnseen = 0;
  static constexpr uint8_t kNo = 1;
  static constexpr uint8_t kYes = 2;

  static bool is_dict(const PickleValue& value) {
    return value.kind == PickleKind::kDict || (value.kind == PickleKind::kCall && value.number == kOrderedDict);
  }
  static bool is_list(const PickleValue& value) {
    return value.kind == PickleKind::kList || value.kind == PickleKind::kTuple;
  }

  // The keys and values of a dict in turn. Python 2 writes OrderedDict([[key, value], ...]).
  Result<std::vector<PickleId>> items_of(PickleId id) const {
    const PickleValue& value = pickle_[id];
    std::vector<PickleId> items;
    if (value.kind == PickleKind::kCall && !pickle_[value.arguments].items.empty()) {
      for (const PickleId pair : pickle_[pickle_[value.arguments].items[0]].items) {
        if (!is_list(pickle_[pair]) || pickle_[pair].items.size() != 2) {
          return pickle_.fault(pair, "an OrderedDict whose items are not pairs");
        }
        items.insert(items.end(), pickle_[pair].items.begin(), pickle_[pair].items.end());
      }
    }
    items.insert(items.end(), value.items.begin(), value.items.end());
    return items;
  }

  // Looks at each value once, however often it is shared.
  bool has_tensors(PickleId id) {
    uint8_t& known = has_tensors_[id];
    if (known == kUnseen) {
      const PickleValue& value = pickle_[id];
      bool found = is_tensor(pickle_, id) || value.kind == PickleKind::kReference;
      if (!found && (is_dict(value) || is_list(value))) {
        found = std::ranges::any_of(value.items, [&](PickleId item) { return has_tensors(item); }) ||
                (value.arguments != kPickledNone && has_tensors(value.arguments));
      }
      known = found ? kYes : kNo;
    }
    return known == kYes;
  }

  Status visit_parts(PickleId id, const std::string& name) {
    const PickleValue& value = pickle_[id];
    const std::string prefix = name.empty() ? "" : name + ".";
    if (is_list(value)) {
      for (size_t i = 0; i < value.items.size(); ++i) {
        XRUN_TRY(visit(value.items[i], prefix + fmt::to_string(i)));
      }
      return {};
    }
    if (!is_dict(value)) {
      return {};
    }
    XRUN_ASSIGN(const auto items, items_of(id));
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      XRUN_ASSIGN(const std::string key, pickled_key(pickle_, items[i]));
      const bool is_paddle = name.empty() && !sources_.storage;
      if (is_paddle && key == kPaddleParts) {
        parts_ = items[i + 1];
      } else if (!is_paddle || key != kPaddleNames) {
        XRUN_TRY(visit(items[i + 1], prefix + key));
      }
    }
    return {};
  }

  const Pickle& pickle_;
  const PickledSources& sources_;
  WeightContents& to_;
  std::vector<uint8_t> has_tensors_;
  PickleId parts_ = kPickledNone;
  int64_t entries_ = 0;
  Bytes names_ = 0;
};

}  // namespace

PickleRules weight_pickle_rules() {
  const auto numpy = numpy_globals();
  PickleRules rules{.globals = {numpy.begin(), numpy.end()}, .references = true, .help = kHelp};
  add_torch_globals(rules.globals);
  return rules;
}

Status add_pickled_tensors(const Pickle& pickle, const PickledSources& sources, WeightContents& to) {
  Collector collector(pickle, sources, to);
  XRUN_TRY(collector.visit(pickle.root(), ""));
  if (collector.parts() != kPickledNone) {
    XRUN_TRY(join_paddle_parts(pickle, collector.parts(), to));
  }
  if (to.tensors.empty()) {
    return content_error("XG0412", {"{}: the pickle has no tensor of numbers", to.path},
                         "name a file of weights, such as one that torch.save(model.state_dict(), FILE) writes");
  }
  return {};
}

}  // namespace xrun::runtime
