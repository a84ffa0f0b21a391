#include "hw/executor/token_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

std::int64_t width_bytes(TokenWidth width) { return width == TokenWidth::kUint16 ? 2 : 4; }

/// Where one id is.
struct Place {
  const std::string& path;
  std::int64_t position = 0;
};

template <class Token>
[[noreturn]] void refuse_id(Token token, std::int64_t vocabulary, const Place& place) {
  throw InputError(
      "token file '" + place.path + "': token " + std::to_string(token) + " at position " +
      std::to_string(place.position) + " is outside the model's vocabulary of " +
      std::to_string(vocabulary) + "; is the file of another width than " +
      (sizeof(Token) == 2 ? "uint16" : "uint32") + "? 'parplan plan --data-width' says which");
}

template <class Token>
void copy_tokens(const std::byte* from, std::int64_t vocabulary, std::span<std::int32_t> out,
                 const std::string& path, std::int64_t position) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Token token;
    std::memcpy(&token, from + i * sizeof(Token), sizeof(Token));
    if (static_cast<std::int64_t>(token) >= vocabulary) {
      refuse_id(token, vocabulary, {path, position + static_cast<std::int64_t>(i)});
    }
    out[i] = static_cast<std::int32_t>(token);
  }
}

template <class Token>
void check_block(std::span<const std::byte> bytes, std::int64_t first, std::int64_t vocabulary,
                 const std::string& path) {
  const std::size_t count = bytes.size() / sizeof(Token);
  std::vector<Token> tokens(count);
  std::memcpy(tokens.data(), bytes.data(), count * sizeof(Token));
  if (count == 0) return;
  const auto largest = std::max_element(tokens.begin(), tokens.end());
  if (static_cast<std::int64_t>(*largest) < vocabulary) return;
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](Token token) {
    return static_cast<std::int64_t>(token) >= vocabulary;
  });
  refuse_id(*bad, vocabulary, {path, first + (bad - tokens.begin())});
}

/// Little-endian uint32 ids below 65536, seen as uint16.
void check_not_uint32(std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::size_t kLeast = 32;  // ids; fewer tell nothing
  std::vector<std::uint16_t> tokens(bytes.size() / sizeof(std::uint16_t));
  if (tokens.size() < kLeast) return;
  std::memcpy(tokens.data(), bytes.data(), tokens.size() * sizeof(std::uint16_t));
  bool others = false;
  for (std::size_t i = 0; i + 1 < tokens.size(); i += 2) {
    if (tokens[i + 1] != 0) return;
    others = others || tokens[i] != 0;
  }
  if (!others) return;
  throw InputError("token file '" + path +
                   "' has a 0 at every second position when it is read as uint16: its ids are "
                   "uint32; plan with --data-width uint32");
}

}  // namespace

/// An open file, closed at the end of the scope; a mapping outlives it.
class TokenFile::OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      // Not waiting, should it be a named pipe; that is refused like all but a regular file.
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) {
      throw InputError("token file '" + path + "' cannot be opened: " + std::strerror(errno));
    }
  }
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return descriptor_; }

  std::int64_t size_bytes() const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      throw InputError("token file '" + path_ + "' is not a regular file");
    }
    return static_cast<std::int64_t>(status.st_size);
  }

  /// As many bytes from `offset` on as there are and fit.
  std::size_t read_at(std::int64_t offset, std::span<std::byte> out) const {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t count = pread(descriptor_, out.data() + done, out.size() - done,
                                  offset + static_cast<std::int64_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        throw HwError("token file '" + path_ + "' cannot be read: " + std::strerror(errno));
      }
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

 private:
  std::string path_;
  int descriptor_;
};

std::int64_t count_tokens(const std::string& path, TokenWidth width, std::int64_t sequence) {
  ensure(sequence >= 1, "a sample has at least one position");
  const std::int64_t size = TokenFile::OpenFile(path).size_bytes();
  const std::int64_t token = width_bytes(width);
  if (size % token != 0) {
    throw InputError("token file '" + path + "' has " + std::to_string(size) +
                     " bytes, not a multiple of the " + std::to_string(token) +
                     " bytes of a token: is it cut short, or of another width (--data-width)?");
  }
  const std::int64_t tokens = size / token;
  if (tokens < sequence + 1) {
    throw InputError("token file '" + path + "' has " + std::to_string(tokens) +
                     " tokens; one sample of " + std::to_string(sequence) +
                     " positions and its targets need " + std::to_string(sequence + 1) +
                     "; give a longer file or a shorter --sequence");
  }
  return tokens;
}

void check_ids(const std::string& path, TokenWidth width, std::int64_t vocabulary) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 18;  // ids
  const TokenFile::OpenFile file(path);
  const std::int64_t token = width_bytes(width);
  std::vector<std::byte> block(static_cast<std::size_t>(kBlock * token));
  for (std::int64_t first = 0; first < kIdsChecked; first += kBlock) {
    const std::size_t size = file.read_at(first * token, block);
    const std::span<const std::byte> bytes(block.data(), size);
    if (width == TokenWidth::kUint16) {
      if (first == 0) check_not_uint32(bytes, path);
      check_block<std::uint16_t>(bytes, first, vocabulary, path);
    } else {
      check_block<std::uint32_t>(bytes, first, vocabulary, path);
    }
    if (size < block.size()) return;
  }
}

TokenFile::TokenFile(const std::string& path, TokenWidth width, std::int64_t sequence)
    : path_(path),
      width_(width),
      sequence_(sequence),
      tokens_(count_tokens(path, width, sequence)),
      file_(std::make_unique<OpenFile>(path)),
      mapped_bytes_(static_cast<std::size_t>(tokens_ * width_bytes(width))) {
  void* mapping = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file_->get(), 0);
  if (mapping == MAP_FAILED) {
    throw HwError("mmap of token file '" + path + "' failed: " + std::strerror(errno) +
                  "; put it on a local disk, and see that 'ulimit -v' leaves room for its " +
                  std::to_string(mapped_bytes_) + " bytes");
  }
  data_ = static_cast<const std::byte*>(mapping);
}

TokenFile::~TokenFile() { munmap(const_cast<std::byte*>(data_), mapped_bytes_); }

void TokenFile::read(std::int64_t sample, std::int64_t shift, std::int64_t vocabulary,
                     std::span<std::int32_t> out) const {
  const std::int64_t first = sample * sequence_ + shift;
  ensure(sample >= 0 && first + static_cast<std::int64_t>(out.size()) <= tokens_,
         "a sample lies inside its token file");
  // Pages behind the end of a file cannot be read: the process would end.
  if (file_->size_bytes() < static_cast<std::int64_t>(mapped_bytes_)) {
    throw InputError("token file '" + path_ + "' was cut short while it was in use: it had " +
                     std::to_string(tokens_) + " tokens, it has " +
                     std::to_string(file_->size_bytes() / width_bytes(width_)));
  }
  const std::byte* from = data_ + first * width_bytes(width_);
  if (width_ == TokenWidth::kUint16) {
    copy_tokens<std::uint16_t>(from, vocabulary, out, path_, first);
  } else {
    copy_tokens<std::uint32_t>(from, vocabulary, out, path_, first);
  }
}

}  // namespace parplan::hw
