# Compile options shared by every target of the project; linked PRIVATE so that they do not leak.
add_library(parplan_flags INTERFACE)
target_compile_options(parplan_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                               -Wno-sign-conversion)
if(PARPLAN_WARNINGS_AS_ERRORS)
  target_compile_options(parplan_flags INTERFACE -Werror)
endif()
if(PARPLAN_SANITIZE)
  target_compile_options(parplan_flags INTERFACE -fsanitize=${PARPLAN_SANITIZE}
                                                 -fno-omit-frame-pointer)
  target_link_options(parplan_flags INTERFACE -fsanitize=${PARPLAN_SANITIZE})
endif()
