#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace parplan {

/// Anything that ends the command. `what()` is one complete sentence for the user.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Bad file, flag or request. The message says what is wrong, where, and what would work. Exit
/// code 2.
class InputError : public Error {
 public:
  using Error::Error;
};

/// A device, transport or system call failed; names the call, its code and the rank. Exit code 1.
class HwError : public Error {
 public:
  using Error::Error;
};

/// A promise of our own code is broken; never the user's fault. Exit code 1.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// Throws InternalError naming `promise`.
[[noreturn]] void fail_promise(std::string_view promise);

/// Throws InternalError naming `promise` unless `condition` holds.
inline void ensure(bool condition, std::string_view promise) {
  if (!condition) fail_promise(promise);
}

}  // namespace parplan
