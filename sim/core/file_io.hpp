#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace parplan {

inline constexpr std::uintmax_t kTextFileLimitBytes = std::uintmax_t{1} << 30;

/// The whole content of `path`, byte for byte. Pipes and devices are read to their end.
/// Throws InputError that names the path when it is missing, a directory, not readable, or holds
/// more than `limit_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         std::uintmax_t limit_bytes = kTextFileLimitBytes);

/// Makes `content` the content of `path`: a reader sees the old file or the new one, never a part,
/// also after a crash (temporary file in the same directory, fsync, rename). Keeps the permission
/// bits of a file that is there and follows symbolic links. Pipes and devices (/dev/stdout) cannot
/// be replaced and are written in place.
/// Errors name the path; the old content stands then and no temporary is left. InputError where
/// another path would do (no such directory, not permitted), HwError where the machine is at fault
/// (disk full, quota, a limit of file sizes).
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Throws what write_file_atomically would throw now, and changes nothing: to be asked before hours
/// of work whose result is to go there.
void check_writable(const std::filesystem::path& path);

/// A file that a command reads, and the option or argument that named it.
struct InputFile {
  std::string name;
  std::filesystem::path path;
};

/// What a command asks before its work about the path that its option `name` sends a result to.
/// Throws InputError when the path is empty, leads to one of the command's own `inputs` (by
/// whatever way: the files are compared, not the paths), or cannot be written.
void check_output(std::string_view name, const std::filesystem::path& path,
                  std::span<const InputFile> inputs);

}  // namespace parplan
