// The outcome of a command or of a part of it: a value, or the failure that ends the command. Functions return failures
// and do not print them. The runners of commands (runtime/cli/job/run_command.h) print them and return the exit codes.
// Only a command that goes on after a failure, such as `check` with several files, and a thread that ends the process
// print failures themselves (Console::fail).
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "graph/base/check.h"
#include "graph/base/diagnostic.h"
#include "graph/base/result.h"
#include "graph/base/source.h"

namespace xrun::cli {

// A failure with everything that is printed about it.
struct Failure {
  // `of`: the sources in which the spans of the error are.
  Failure(Error cause, SourceMap of = {})  // NOLINT: implicit by intent
      : error(std::move(cause)), sources(std::move(of)), exit(exit_code(error.kind)) {}
  // Faults in the text of a model. Some may be warnings.
  Failure(Diagnostics found, SourceMap of)
      : diagnostics(std::move(found)), sources(std::move(of)), exit(exit_code(ErrorKind::kContent)) {}
  // A failure that another rank prints.
  static Failure silent(int exit) {
    Failure failure{Error()};
    failure.exit = exit;
    return failure;
  }

  std::string heading;      // first printed line, which names the rank that failed; may be empty
  Diagnostics diagnostics;  // printed in order, before the error
  Error error;              // not printed if its message is empty
  SourceMap sources;        // sources of the diagnostics and of the error
  bool is_plain = false;    // printed as uncoloured text in every format, since the flags themselves are wrong
  int exit = 0;             // the exit code of the command
};

template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}            // NOLINT: implicit by intent
  Outcome(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT
  Outcome(Error error) : state_(std::in_place_index<1>, std::move(error)) {}        // NOLINT

  bool ok() const { return state_.index() == 0; }

  T& value() & {
    XRUN_CHECK(ok(), "value() of a failed Outcome");
    return std::get<0>(state_);
  }
  const T& value() const& {
    XRUN_CHECK(ok(), "value() of a failed Outcome");
    return std::get<0>(state_);
  }
  T&& value() && {
    XRUN_CHECK(ok(), "value() of a failed Outcome");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // The functions are named as those of Result, for XRUN_TRY and XRUN_ASSIGN.
  const Failure& error() const& {
    XRUN_CHECK(!ok(), "error() of a good Outcome");
    return std::get<1>(state_);
  }
  Failure&& error() && {
    XRUN_CHECK(!ok(), "error() of a good Outcome");
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Outcome<void> {
 public:
  Outcome() = default;
  Outcome(Failure failure) : failure_(std::move(failure)) {}  // NOLINT: implicit by intent
  Outcome(Error error) : failure_(std::move(error)) {}        // NOLINT

  bool ok() const { return !failure_.has_value(); }
  const Failure& error() const& {
    XRUN_CHECK(!ok(), "error() of a good Outcome");
    return *failure_;
  }
  Failure&& error() && {
    XRUN_CHECK(!ok(), "error() of a good Outcome");
    return *std::move(failure_);
  }

 private:
  std::optional<Failure> failure_;
};

// Adds to an error the sources in which its spans are.
template <typename T>
Outcome<T> with_sources(Result<T> result, const SourceMap& sources) {
  if (!result.ok()) {
    return Failure(std::move(result).error(), sources);
  }
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(result).value();
  }
}

}  // namespace xrun::cli
