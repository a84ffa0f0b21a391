#include "hw/executor/token_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

/// An open file, closed at the end of the scope; the mapping outlives it.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      throw InputError("token file '" + path + "' cannot be opened: " + std::strerror(errno));
    }
  }
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

std::int64_t width_bytes(TokenWidth width) { return width == TokenWidth::kUint16 ? 2 : 4; }

template <class Token>
void copy_tokens(const std::byte* from, std::int64_t vocabulary, std::span<std::int32_t> out,
                 const std::string& path, std::int64_t position) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Token token;
    std::memcpy(&token, from + i * sizeof(Token), sizeof(Token));
    if (static_cast<std::int64_t>(token) >= vocabulary) {
      throw InputError("token file '" + path + "': token " + std::to_string(token) +
                       " at position " + std::to_string(position + static_cast<std::int64_t>(i)) +
                       " is outside the model's vocabulary of " + std::to_string(vocabulary) +
                       "; is the file of another width than " +
                       (sizeof(Token) == 2 ? "uint16" : "uint32") +
                       "? 'parplan plan --data-width' says which");
    }
    out[i] = static_cast<std::int32_t>(token);
  }
}

}  // namespace

std::int64_t count_tokens(const std::string& path, TokenWidth width, std::int64_t sequence) {
  ensure(sequence >= 1, "a sample has at least one position");
  const OpenFile file(path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw InputError("token file '" + path + "' is not a regular file");
  }
  const auto size = static_cast<std::int64_t>(status.st_size);
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

TokenFile::TokenFile(const std::string& path, TokenWidth width, std::int64_t sequence)
    : path_(path),
      width_(width),
      sequence_(sequence),
      tokens_(count_tokens(path, width, sequence)),
      mapped_bytes_(static_cast<std::size_t>(tokens_ * width_bytes(width))) {
  const OpenFile file(path);
  void* mapping = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file.get(), 0);
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
  const std::byte* from = data_ + first * width_bytes(width_);
  if (width_ == TokenWidth::kUint16) {
    copy_tokens<std::uint16_t>(from, vocabulary, out, path_, first);
  } else {
    copy_tokens<std::uint32_t>(from, vocabulary, out, path_, first);
  }
}

}  // namespace parplan::hw
