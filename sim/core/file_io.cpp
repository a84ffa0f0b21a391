#include "sim/core/file_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"

namespace parplan {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPermissionBits = 07777;
constexpr mode_t kNewFileMode = 0666;  // less the umask
constexpr int kMostNameCollisions = 100;
constexpr std::size_t kShownPathBytes = 1024;

std::string reason(int code) {
  if (code == ENOENT) return "no such file or directory";
  return std::generic_category().message(code);
}

[[noreturn]] void fail_read(const fs::path& path, const std::string& why) {
  throw InputError("cannot read '" + shortened(path.string(), kShownPathBytes) + "': " + why);
}

std::string write_failure(const fs::path& path, const std::string& why) {
  return "cannot write '" + shortened(path.string(), kShownPathBytes) + "': " + why;
}

/// The path is at fault: another one would do.
[[noreturn]] void refuse_path(const fs::path& path, const std::string& why) {
  throw InputError(write_failure(path, why));
}

/// Whether the machine, not the path, is at fault.
bool is_shortage(int code) {
  constexpr std::array kShortages = {ENOSPC, EDQUOT, EIO, EFBIG, ENOMEM, EMFILE, ENFILE};
  return std::find(kShortages.begin(), kShortages.end(), code) != kShortages.end();
}

/// A file could not be opened, made or put in place.
[[noreturn]] void fail_place(const fs::path& path, int code) {
  if (is_shortage(code)) throw HwError(write_failure(path, reason(code)));
  refuse_path(path, reason(code));
}

/// An open file did not take what was written.
[[noreturn]] void fail_write(const fs::path& path, int code) {
  throw HwError(write_failure(path, reason(code)));
}

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  void reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  [[nodiscard]] int get() const { return fd_; }
  /// 0 or the error: some file systems report a failed write only here.
  [[nodiscard]] int close() { return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

 private:
  int fd_;
};

void write_all(const Descriptor& file, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(path, errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// The file that a chain of symbolic links ends at, whether there is one or not.
fs::path resolve_links(const fs::path& path) {
  constexpr int kLongestChain = 40;  // as Linux follows
  fs::path target = path;
  std::error_code failed;
  for (int left = kLongestChain; fs::is_symlink(target, failed); --left) {
    if (left == 0) fail_place(path, ELOOP);
    target = target.parent_path() / fs::read_symlink(target, failed);
    if (failed) fail_place(path, failed.value());
  }
  return target;
}

/// A name in the directory of `target`; the process id keeps ranks on one file system apart.
fs::path temporary_name(const fs::path& target) {
  static std::atomic<unsigned> serial{0};
  return target.parent_path() /
         (".parplan-" + std::to_string(::getpid()) + "-" + std::to_string(serial++) + ".tmp");
}

/// A new file beside `target`, removed at the end unless it has taken its place.
class TemporaryFile {
 public:
  /// `path` is what the user calls the target.
  TemporaryFile(fs::path target, const fs::path& path)
      : target_(std::move(target)), name_(temporary_name(target_)), file_(create()) {
    for (int more = kMostNameCollisions; !file_.valid() && errno == EEXIST && more > 0; --more) {
      name_ = temporary_name(target_);
      file_.reset(create());
    }
    if (!file_.valid()) fail_place(path, errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!placed_) ::unlink(name_.c_str());
  }
  Descriptor& file() { return file_; }
  [[nodiscard]] int replace_target() {
    if (::rename(name_.c_str(), target_.c_str()) != 0) return errno;
    placed_ = true;
    return 0;
  }

 private:
  int create() const {
    return ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
  }

  fs::path target_;
  fs::path name_;
  Descriptor file_;
  bool placed_ = false;
};

void write_in_place(const fs::path& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) fail_place(path, errno);
  write_all(file, content, path);
  if (const int code = file.close(); code != 0) fail_write(path, code);
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

namespace {

/// What a path leads to: a regular file to be replaced, nothing yet, or something to write into.
struct Target {
  fs::path path;
  bool exists = false;
  struct stat status {};
  bool is_replaced() const { return !exists || S_ISREG(status.st_mode); }
};

/// Refuses directories.
Target find_target(const fs::path& path) {
  Target target;
  target.path = path;
  target.exists = ::stat(path.c_str(), &target.status) == 0;
  if (target.is_replaced()) {
    // What links to pipes say (/dev/stdout) is no path.
    target.path = resolve_links(path);
    target.exists = ::stat(target.path.c_str(), &target.status) == 0;
  }
  if (target.exists && S_ISDIR(target.status.st_mode)) refuse_path(path, "it is a directory");
  return target;
}

}  // namespace

void write_file_atomically(const fs::path& path, std::string_view content) {
  const Target target = find_target(path);
  if (!target.is_replaced()) {
    write_in_place(path, content);
    return;
  }
  TemporaryFile temporary(target.path, path);
  Descriptor& file = temporary.file();
  if (target.exists && ::fchmod(file.get(), target.status.st_mode & kPermissionBits) != 0) {
    fail_place(path, errno);
  }
  write_all(file, content, path);
  if (::fsync(file.get()) != 0) fail_write(path, errno);
  if (const int code = file.close(); code != 0) fail_write(path, code);
  if (const int code = temporary.replace_target(); code != 0) fail_place(path, code);
  sync_directory(target.path);
}

void check_writable(const fs::path& path) {
  const Target target = find_target(path);
  if (!target.is_replaced()) return;
  const TemporaryFile temporary(target.path, path);
}

void check_output(std::string_view name, const fs::path& path, std::span<const InputFile> inputs) {
  if (path.empty()) throw InputError(std::string(name) + " needs the name of a file");
  struct stat output {};
  if (::stat(path.c_str(), &output) == 0 && S_ISREG(output.st_mode)) {
    for (const InputFile& input : inputs) {
      struct stat status {};
      if (::stat(input.path.c_str(), &status) != 0) continue;
      if (status.st_dev != output.st_dev || status.st_ino != output.st_ino) continue;
      throw InputError(std::string(name) + " '" + path.string() + "' is the file that is read as " +
                       input.name + "; give the result another name");
    }
  }
  check_writable(path);
}

}  // namespace parplan
