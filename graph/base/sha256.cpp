// These functions of OpenSSL work on a context of the caller. Their successors in OpenSSL 3 find an algorithm in tables
// that they allocate, and crash if an allocation has failed, because they do not check it.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "graph/base/sha256.h"

#include <fmt/format.h>
#include <openssl/sha.h>

namespace xrun {

Sha256 sha256(std::span<const std::byte> bytes) {
  SHA256_CTX context;
  Sha256 digest;
  static_assert(digest.size() == SHA256_DIGEST_LENGTH);
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context);
  return digest;
}

std::string sha256_hex(std::string_view text) {
  std::string hex;
  for (const std::byte byte : sha256(std::as_bytes(std::span(text)))) {
    hex += fmt::format("{:02x}", static_cast<unsigned>(byte));
  }
  return hex;
}

}  // namespace xrun
