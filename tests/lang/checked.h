// Checks a text and keeps the results of the check for tests.
#pragma once

#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

#include "lang/frontend.h"
#include "tests/lang/test_ops.h"

namespace xrun::lang {

struct Checked {
  SourceMap sources;
  Diagnostics diagnostics;
  std::optional<CheckedFile> file;

  explicit Checked(const std::string& text, FrontendOptions options = {}) {
    static const OpRegistry ops = test_ops::registry();
    options.ops = options.ops != nullptr ? options.ops : &ops;
    file = check_text("test.xgraph", "xgraph 1\n" + text, sources, diagnostics, options);
  }
  std::string rendered() const {
    std::string text;
    for (const Diagnostic& d : diagnostics.all()) {
      text += render(d, sources);
    }
    return text;
  }
  std::vector<std::string> codes() const {
    std::vector<std::string> codes;
    for (const Diagnostic& d : diagnostics.all()) {
      codes.push_back(d.code);
    }
    return codes;
  }
  const Module& module() const { return file->module; }
  std::vector<std::string> tensors() const {
    std::vector<std::string> names;
    for (const Parameter& p : file->module.graph.params) {
      if (p.trained) {
        names.push_back(p.name);
      }
    }
    return names;
  }
};

// Returns `text` with one occurrence of `from` replaced by `to`.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Returns the text of a small model with one head and its run. `settings` are further lines of `train`, and
// `declarations` are further declarations of the file.
inline std::string small_run(const std::string& settings = {}, const std::string& declarations = {}) {
  return std::string(R"(
option classes: int = 10 in 2 .. 1000

model net {
  input x: f32[N, 8]

  feature = x -> linear(4) as embed
  output feature

  head id = cosine_classifier(feature, classes)
}

data items {
  source train = synthetic([8], classes, samples=1000)
  source val   = synthetic([8], classes, samples=100, seed=2)

  x = pixels
}

train softmax {
  batch     = 128
  loss      = softmax_ce(id, label, scale=16)
  optimizer = sgd(momentum=0.9)
)") +
         (settings.find("epochs") == std::string::npos && settings.find("steps =") == std::string::npos
              ? "  epochs = 2\n"
              : "") +
         (settings.find("  lr =") == std::string::npos ? "  lr = 0.1\n" : "") + settings + "\n}\n" + declarations;
}

}  // namespace xrun::lang
