# Compile options shared by every target of the project; linked PRIVATE so that they do not leak.
add_library(parplan_flags INTERFACE)
target_compile_options(parplan_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                               -Wno-sign-conversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies inside std::string's operator+ (GCC bug 105651, repaired in 13).
  target_compile_options(parplan_flags INTERFACE -Wno-restrict)
endif()
if(PARPLAN_WARNINGS_AS_ERRORS)
  target_compile_options(parplan_flags INTERFACE -Werror)
endif()
if(PARPLAN_SANITIZE)
  # A finding ends the process, so that the test fails. Null checks are left to the address sanitizer, which reports the
  # access itself; asking twice makes every compilation half as long again.
  set(sanitize -fsanitize=${PARPLAN_SANITIZE} -fno-sanitize-recover=all)
  if(PARPLAN_SANITIZE MATCHES "undefined")
    list(APPEND sanitize -fno-sanitize=null)
  endif()
  target_compile_options(parplan_flags INTERFACE ${sanitize} -fno-omit-frame-pointer)
  target_link_options(parplan_flags INTERFACE ${sanitize})
endif()
