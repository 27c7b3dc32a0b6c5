// Result<T>: a value or an Error. It is the error channel of every Cupola library; none of them
// throws. Plain value types without a thread rule beyond that of T; a Result owns what it holds.
// Result and Status are [[nodiscard]], so that a failure is not overlooked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace cupola {

/// What kind of failure an Error is. Callers look at it where a kind has its own treatment: a file
/// that does not exist (kNotFound) may be no failure, and `cupola run` has an exit code for it.
enum class ErrorCode : uint8_t {
  kInvalidArgument,  ///< the caller asked for something that has no meaning
  kNotFound,         ///< a file, symbol or image does not exist
  kDamaged,          ///< the input breaks its format
  kUnsupported,      ///< the input is well-formed, but this version does not handle it
  kIo,               ///< the operating system refused or failed
  kExhausted,        ///< a limit was reached (memory, table, ring), or a file is not ready yet
  kInternal,         ///< an invariant of Cupola is broken
};

/// The lower-case words for a code ("damaged", "not found").
constexpr const char* ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kDamaged: return "damaged";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kIo: return "I/O";
    case ErrorCode::kExhausted: return "exhausted";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

/// Where in the input an error lies: either line and column (text) or a byte offset (binary). A
/// Location that has neither names the file only, or nothing.
struct Location {
  std::string file;                ///< empty when the input had no name
  uint32_t line = 0;               ///< 1-based; 0 = not a text location
  uint32_t column = 0;             ///< 1-based; 0 = unknown
  std::optional<uint64_t> offset;  ///< bytes from the start of the file; goes before `line`

  /// "file:3:14", "file:3", "file at offset 0x40" or "file". "input" stands for a file without a
  /// name. "" when nothing is known.
  std::string ToString() const;
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  ///< one sentence, lower case, no trailing full stop
  Location where;

  /// The location and the message, "file:3:14: message"; only the message where no location is
  /// known.
  std::string ToString() const;
};

/// A value or an Error. Test with ok() or `if (result)`. On an error, value(), * and -> are
/// undefined behaviour; so is error() on a value.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}        // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}    // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Error& error() & { return *std::get_if<1>(&state_); }
  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success or an Error, for functions that return no value. error() on success is undefined
/// behaviour.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

/// An Error of `code` with a message. `where` may be left out, and filled in by a caller that knows
/// the file.
inline Error MakeError(ErrorCode code, std::string message, Location where = {}) {
  return Error{code, std::move(message), std::move(where)};
}

inline std::string Location::ToString() const {
  if (offset) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    for (uint64_t rest = *offset; rest != 0 || hex.empty(); rest >>= 4) {
      hex.insert(hex.begin(), kDigits[rest & 15]);
    }
    return (file.empty() ? std::string("input") : file) + " at offset 0x" + hex;
  }
  if (line == 0) return file;
  std::string text = (file.empty() ? std::string("input") : file) + ":" + std::to_string(line);
  if (column != 0) text += ":" + std::to_string(column);
  return text;
}

inline std::string Error::ToString() const {
  const std::string place = where.ToString();
  return place.empty() ? message : place + ": " + message;
}

}  // namespace cupola
