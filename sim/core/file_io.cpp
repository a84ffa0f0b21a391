#include "sim/core/file_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "sim/core/error.hpp"

namespace parplan {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPermissionBits = 07777;
constexpr mode_t kNewFileMode = 0666;  // less the umask
constexpr int kMostNameCollisions = 100;

std::string reason(int code) {
  if (code == ENOENT) return "no such file or directory";
  return std::generic_category().message(code);
}

[[noreturn]] void fail_read(const fs::path& path, const std::string& why) {
  throw InputError("cannot read '" + path.string() + "': " + why);
}

[[noreturn]] void fail_write(const fs::path& path, const std::string& why) {
  throw InputError("cannot write '" + path.string() + "': " + why);
}

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }
  /// 0 or the error: some file systems report a failed write only here.
  [[nodiscard]] int close() { return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

 private:
  int fd_;
};

/// Removes a file unless told to keep it.
class Temporary {
 public:
  explicit Temporary(fs::path path) : path_(std::move(path)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!kept_) ::unlink(path_.c_str());
  }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool kept_ = false;
};

void write_all(const Descriptor& file, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(path, reason(errno));
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// The file that a chain of symbolic links ends at; a link to nothing is replaced itself.
fs::path resolve_links(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_symlink(path, ignored)) return path;
  fs::path target = fs::canonical(path, ignored);
  return target.empty() ? path : target;
}

/// A name beside `target` that is new; the process id keeps ranks on one file system apart.
std::pair<fs::path, Descriptor> open_temporary(const fs::path& target, const fs::path& path) {
  static std::atomic<unsigned> serial{0};
  for (int attempt = 0; attempt < kMostNameCollisions; ++attempt) {
    const std::string name =
        ".parplan-" + std::to_string(::getpid()) + "-" + std::to_string(serial++) + ".tmp";
    fs::path candidate = target.parent_path() / name;
    Descriptor file(
        ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode));
    if (file.valid()) return {std::move(candidate), std::move(file)};
    if (errno != EEXIST) fail_write(path, reason(errno));
  }
  fail_write(path, "no free name for a temporary file beside it");
}

void write_in_place(const fs::path& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) fail_write(path, reason(errno));
  write_all(file, content, path);
  if (const int code = file.close(); code != 0) fail_write(path, reason(code));
}

/// Makes the rename itself durable. The data is safe by then, so that a file system which cannot
/// sync directories is no error.
void sync_directory(const fs::path& target) {
  const fs::path parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const Descriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) static_cast<void>(::fsync(directory.get()));
}

}  // namespace

std::string read_text_file(const fs::path& path, std::uintmax_t limit_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) fail_read(path, reason(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_read(path, reason(errno));
  if (S_ISDIR(status.st_mode)) fail_read(path, "it is a directory, a file is needed here");
  const auto size = static_cast<std::uintmax_t>(status.st_size);
  const std::string limit = "more than the limit of " + std::to_string(limit_bytes) + " bytes";
  if (size > limit_bytes) fail_read(path, "it has " + std::to_string(size) + " bytes, " + limit);

  std::string content;
  content.reserve(static_cast<std::size_t>(size));
  // The size is only a hint: pipes have none, and a file may grow while it is read.
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_read(path, reason(errno));
    if (count == 0) return content;
    content.append(block.data(), static_cast<std::size_t>(count));
    if (content.size() > limit_bytes) fail_read(path, "it holds " + limit);
  }
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  const fs::path target = resolve_links(path);
  struct stat old {};
  const bool exists = ::stat(target.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) fail_write(path, "it is a directory");
  if (exists && !S_ISREG(old.st_mode)) {
    write_in_place(path, content);
    return;
  }
  auto [temporary_path, file] = open_temporary(target, path);
  Temporary temporary(temporary_path);
  if (exists && ::fchmod(file.get(), old.st_mode & kPermissionBits) != 0) {
    fail_write(path, reason(errno));
  }
  write_all(file, content, path);
  if (::fsync(file.get()) != 0) fail_write(path, reason(errno));
  if (const int code = file.close(); code != 0) fail_write(path, reason(code));
  if (::rename(temporary_path.c_str(), target.c_str()) != 0) fail_write(path, reason(errno));
  temporary.keep();
  sync_directory(target);
}

}  // namespace parplan
