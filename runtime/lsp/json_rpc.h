// JSON-RPC 2.0 as the Language Server Protocol frames it: headers with Content-Length, an empty line, JSON.
//
// Everything here is safe against a hostile peer: lengths, headers, nesting and the number of values are bounded, and a
// message that breaks a rule is a fault to answer, never an exception.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace xrun::lsp {

using Json = nlohmann::json;

// Error codes of JSON-RPC and of the protocol.
enum class Code : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kNotInitialized = -32002,
  kRequestFailed = -32803,
};

// The reason why a request cannot be answered. Handlers throw it; the server catches it and answers.
struct Failure {
  Code code = Code::kRequestFailed;
  std::string message;
};

// The longest message. A longer one is skipped and answered with an error. A text of 4 MiB fits, even in JSON's
// escapes.
inline constexpr size_t kMostContent = size_t{32} << 20;

// Cuts a stream of bytes into the contents of messages.
class FrameReader {
 public:
  // The content of a message, or the fault if the received bytes are not a message.
  struct Frame {
    std::string content;
    std::string fault;  // empty: `content` is valid
  };

  void feed(std::string_view bytes);
  // The next message or fault; nullopt until more bytes arrive. Faulty headers in a row are reported as one fault,
  // until a valid message ends the series.
  std::optional<Frame> next();

 private:
  // Reads the header, which is complete. Returns the fault if no content can be read after it, else an empty text.
  std::string read_header(std::string_view header);

  std::string buffer_;
  size_t at_ = 0;                 // the first unread byte of the buffer
  size_t skip_ = 0;               // number of bytes still to skip of a content that is too long
  std::optional<size_t> length_;  // length of the content that follows
  bool lost_ = false;             // a fault was reported, and no valid message has come since
};

// Parses the message. Returns nullopt and sets `why` if it is invalid, nested deeper than 128, or has more than 2^18
// values.
std::optional<Json> parse_message(std::string_view content, std::string& why);

// Puts the header before a message. Bytes that are not UTF-8 are replaced.
std::string frame(const Json& message);

Json response(const Json& id, Json result);
Json error_response(const Json& id, const Failure& failure);
Json notification(const char* method, Json params);

}  // namespace xrun::lsp
