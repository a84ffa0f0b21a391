#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sim/core/workload.hpp"

namespace parplan::hw {

/// How many tokens a file holds, without reading them. Throws the InputErrors of TokenFile's
/// constructor.
std::int64_t count_tokens(const std::string& path, TokenWidth width, std::int64_t sequence);

/// How many ids of a file `check_ids` looks at: a few hundredths of a second.
inline constexpr std::int64_t kIdsChecked = std::int64_t{1} << 24;

/// Throws InputError when one of the first kIdsChecked ids is outside the vocabulary (names its
/// position), or when every second id of a uint16 file is 0 and the others are not: those are the
/// upper halves of uint32 ids. Maps nothing, so that the pages do not count as this process's.
void check_ids(const std::string& path, TokenWidth width, std::int64_t vocabulary);

/// A file of token ids without header (uint16 or uint32, native byte order), memory-mapped. Sample
/// i is tokens [i S, i S + S) of S = `sequence` positions; its targets are the same shifted by one,
/// so the last target of a sample is the first token of the next.
///
/// InputError naming the file: missing or not a regular file, size not a multiple of the token, too
/// short for one sample and its targets; at `read` an id outside the vocabulary (names its position
/// in the file), or a file that was cut short meanwhile.
class TokenFile {
 public:
  class OpenFile;

  TokenFile(const std::string& path, TokenWidth width, std::int64_t sequence);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  std::int64_t tokens() const { return tokens_; }
  /// Samples whose targets are in the file too; tokens behind the last of them are not used.
  std::int64_t samples() const { return (tokens_ - 1) / sequence_; }

  /// The tokens of `sample` into `out` (`sequence` ids), `shift` = 0 for inputs, 1 for targets.
  void read(std::int64_t sample, std::int64_t shift, std::int64_t vocabulary,
            std::span<std::int32_t> out) const;

 private:
  std::string path_;
  TokenWidth width_;
  std::int64_t sequence_;
  std::int64_t tokens_ = 0;
  std::unique_ptr<OpenFile> file_;
  std::size_t mapped_bytes_ = 0;
  const std::byte* data_ = nullptr;
};

}  // namespace parplan::hw
