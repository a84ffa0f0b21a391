#include "sim/core/file_io.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

namespace fs = std::filesystem;
using parplan::HwError;
using parplan::InputError;
using parplan::read_text_file;
using parplan::write_file_atomically;

namespace {

/// A new empty directory, removed at the end.
class Directory {
 public:
  Directory() {
    std::string name = (fs::temp_directory_path() / "parplan-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  fs::path path_;
};

/// Lets no file of this process grow beyond `bytes`, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit old_{};
};

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

}  // namespace

TEST_CASE("a file is read back byte for byte", "[core]") {
  const Directory directory;
  std::string content(200001, '\0');  // several blocks, and every byte value
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 % 256);
  write_file_atomically(directory / "a", content);
  CHECK(read_text_file(directory / "a") == content);
  write_file_atomically(directory / "a", "");
  CHECK(read_text_file(directory / "a").empty());
  CHECK(directory.names() == std::vector<std::string>{"a"});
}

TEST_CASE("a file that cannot be read is named with the reason", "[core]") {
  const Directory directory;
  const fs::path missing = directory / "missing.json";
  CHECK_THROWS_WITH(read_text_file(missing),
                    "cannot read " + quoted(missing) + ": no such file or directory");
  CHECK_THROWS_AS(read_text_file(missing), InputError);
  CHECK_THROWS_WITH(
      read_text_file(directory.path()),
      "cannot read " + quoted(directory.path()) + ": it is a directory, a file is needed here");
  write_file_atomically(directory / "file", "x");
  const fs::path below_file = directory / "file/x.json";
  CHECK_THROWS_WITH(read_text_file(below_file),
                    "cannot read " + quoted(below_file) + ": Not a directory");
  if (::geteuid() != 0) {  // root may read everything
    REQUIRE(::chmod((directory / "file").c_str(), 0) == 0);
    CHECK_THROWS_WITH(read_text_file(directory / "file"),
                      "cannot read " + quoted(directory / "file") + ": Permission denied");
  }
}

TEST_CASE("a file beyond the limit is refused, one at the limit is read", "[core]") {
  const Directory directory;
  const fs::path file = directory / "a";
  write_file_atomically(file, "12345");
  CHECK(read_text_file(file, 5) == "12345");
  CHECK_THROWS_WITH(
      read_text_file(file, 4),
      "cannot read " + quoted(file) + ": it has 5 bytes, more than the limit of 4 bytes");
}

TEST_CASE("a pipe is read to its end, within the limit", "[core]") {
  const Directory directory;
  const fs::path pipe = directory / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string content(100000, 'x');
  {
    std::thread writer([&] { write_file_atomically(pipe, content); });
    const std::string read = read_text_file(pipe);
    writer.join();
    CHECK(read == content);
  }
  std::thread writer([&] { write_file_atomically(pipe, "12345"); });
  std::string message;
  try {
    static_cast<void>(read_text_file(pipe, 4));
  } catch (const InputError& error) {
    message = error.what();
  }
  writer.join();
  CHECK(message == "cannot read " + quoted(pipe) + ": it holds more than the limit of 4 bytes");
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("a file that cannot be written is named and leaves nothing behind", "[core]") {
  const Directory directory;
  const fs::path no_parent = directory / "no/such/a.json";
  CHECK_THROWS_WITH(write_file_atomically(no_parent, "x"),
                    "cannot write " + quoted(no_parent) + ": no such file or directory");
  CHECK_THROWS_AS(write_file_atomically(no_parent, "x"), InputError);
  CHECK_THROWS_WITH(write_file_atomically(directory.path(), "x"),
                    "cannot write " + quoted(directory.path()) + ": it is a directory");
  CHECK_THROWS_WITH(write_file_atomically("", "x"), "cannot write '': no such file or directory");
  CHECK(directory.names().empty());
}

TEST_CASE("a write that fails half way keeps the old file and removes its own", "[core]") {
  const Directory directory;
  const fs::path file = directory / "a.json";
  write_file_atomically(file, "old");
  std::string message;
  {
    const FileSizeLimit limit(4096);
    try {
      write_file_atomically(file, std::string(10000, 'x'));
    } catch (const HwError& error) {
      message = error.what();
    }
  }
  CHECK(message == "cannot write " + quoted(file) + ": File too large");
  CHECK(directory.names() == std::vector<std::string>{"a.json"});
  CHECK(read_text_file(file) == "old");
}

TEST_CASE("a device is written in place, and its refusal is an error", "[core]") {
  if (!fs::exists("/dev/full")) return;
  CHECK_THROWS_WITH(write_file_atomically("/dev/full", "x"),
                    "cannot write '/dev/full': No space left on device");
  CHECK_THROWS_AS(write_file_atomically("/dev/full", "x"), HwError);
  CHECK_NOTHROW(write_file_atomically("/dev/null", "x"));
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("replacing a file keeps its permissions and follows links", "[core]") {
  const Directory directory;
  const fs::path file = directory / "a.json";
  write_file_atomically(file, "1");
  const mode_t mask = ::umask(0);
  ::umask(mask);
  CHECK(mode_of(file) == (0666U & ~mask));
  REQUIRE(::chmod(file.c_str(), 0640) == 0);
  fs::create_symlink("a.json", directory / "link");
  write_file_atomically(directory / "link", "2");
  CHECK(fs::is_symlink(directory / "link"));
  CHECK(read_text_file(file) == "2");
  CHECK(mode_of(file) == 0640U);
  CHECK(directory.names() == std::vector<std::string>{"a.json", "link"});
}

TEST_CASE("a link to nothing is followed, too", "[core]") {
  const Directory directory;
  fs::create_symlink("b.json", directory / "second");
  fs::create_symlink(directory / "second", directory / "first");
  write_file_atomically(directory / "first", "1");
  CHECK(fs::is_symlink(directory / "first"));
  CHECK(fs::is_symlink(directory / "second"));
  CHECK(read_text_file(directory / "b.json") == "1");
  fs::create_symlink("loop", directory / "loop");
  CHECK_THROWS_WITH(
      write_file_atomically(directory / "loop", "1"),
      "cannot write " + quoted(directory / "loop") + ": Too many levels of symbolic links");
}

TEST_CASE("a result does not take the place of what is read", "[core]") {
  const Directory directory;
  const fs::path input = directory / "in.json";
  const fs::path data = directory / "tokens.bin";
  write_file_atomically(input, "read me");
  write_file_atomically(data, "ids");
  fs::create_symlink(input, directory / "soft.json");
  fs::create_hard_link(input, directory / "hard.json");
  const std::vector<parplan::InputFile> inputs{{"--data", data}, {"the plan", input}};
  const auto refusal = [&](const fs::path& output) -> std::string {
    try {
      parplan::check_output("--trace", output, inputs);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string roundabout = directory.path().string() + "/./in.json";
  for (const fs::path& same :
       {input, fs::path(roundabout), directory / "soft.json", directory / "hard.json"}) {
    CHECK(refusal(same) == "--trace '" + same.string() +
                               "' is the file that is read as the plan; give the result another "
                               "name");
  }
  CHECK(refusal(data).find("--data") != std::string::npos);
  CHECK(refusal("") == "--trace needs the name of a file");
  CHECK(refusal(directory.path()).find("directory") != std::string::npos);
  CHECK(refusal(directory / "missing" / "out.json").find("cannot write") != std::string::npos);
  CHECK(refusal("/dev/null") == "accepted");
  CHECK(refusal(directory / "out.json") == "accepted");
  CHECK(directory.names() ==
        std::vector<std::string>{"hard.json", "in.json", "soft.json", "tokens.bin"});
  CHECK(read_text_file(input) == "read me");
}
