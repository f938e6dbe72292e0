// Errors, and how functions return them: Result<T> holds a value or one Error; Status is a Result without a value.
// Faults in the user's text are Diagnostics (diagnostic.h); broken invariants are XRUN_CHECKs (check.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/base/check.h"
#include "graph/base/source.h"

namespace xrun {

// The kind of an error. It determines the exit code (docs/reference/command/overview.md, "Exit codes"). The kinds
// differ in who can act on the error.
enum class ErrorKind {
  kContent,      // 1: a named input is missing or its content is wrong
  kUsage,        // 2: wrong use of the command
  kInfeasible,   // 3: no plan fits
  kWorld,        // 4: permission, I/O, disk, memory, device, missing system package
  kNonFinite,    // 5: training failed
  kInterrupted,  // 75: stopped early, to be run again
};

struct Error {
  ErrorKind kind = ErrorKind::kContent;
  std::string code;     // "XG0402"; may be empty
  std::string message;  // the fault, lower case, no full stop; names the place if there is no span
  std::string help;     // how to fix it; may be empty
  Span span{};          // place in the model text, if known

  // Set mostly for errors with a span:
  std::string label;          // text next to the mark
  std::vector<Label> others;  // other places involved
  std::vector<std::string> notes;
  std::vector<Edit> edits;           // the edits that carry out `help`
  std::vector<std::string> choices;  // alternatives, shown below `help`
};

int exit_code(ErrorKind kind);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by intent
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    XRUN_CHECK(ok(), "value() of a failed Result: " + std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    XRUN_CHECK(ok(), "value() of a failed Result: " + std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  T&& value() && {
    XRUN_CHECK(ok(), "value() of a failed Result: " + std::get<1>(state_).message);
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    XRUN_CHECK(!ok(), "error() of a good Result");
    return std::get<1>(state_);
  }
  Error&& error() && {
    XRUN_CHECK(!ok(), "error() of a good Result");
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    XRUN_CHECK(!ok(), "error() of a good Status");
    return *error_;
  }
  Error&& error() && {
    XRUN_CHECK(!ok(), "error() of a good Status");
    return *std::move(error_);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace xrun

// Returns the error of a failed Status or Result from the function.
#define XRUN_TRY(...)                                          \
  do {                                                         \
    if (auto xrun_status = (__VA_ARGS__); !xrun_status.ok()) { \
      return std::move(xrun_status).error();                   \
    }                                                          \
  } while (false)

#define XRUN_CONCAT_INNER(a, b) a##b
#define XRUN_CONCAT(a, b) XRUN_CONCAT_INNER(a, b)

// XRUN_ASSIGN(auto plan, make_plan(...)): binds the value, or returns the error from the function.
#define XRUN_ASSIGN(declaration, ...) XRUN_ASSIGN_IMPL(XRUN_CONCAT(xrun_result_, __LINE__), declaration, __VA_ARGS__)
#define XRUN_ASSIGN_IMPL(result, declaration, ...) \
  auto result = (__VA_ARGS__);                     \
  if (!result.ok()) {                              \
    return std::move(result).error();              \
  }                                                \
  declaration = std::move(result).value()
