# Fails when an include points the wrong way between the rooms.
#
#   cmake -DROOT=<repository> -P cmake/check_layers.cmake
#
# Who may include whom (a room may always include itself):
#   sim/core <- sim <- planner     sim/core <- hw     sim/core, sim <- traces     everything <- tools, tests
# Besides:
#   - sim/core includes the standard library and nlohmann_json, nothing else from outside, but that a source (no header)
#     may include the POSIX headers with which a file is written safely;
#   - sim/core, sim and planner read no clock;
#   - mpi.h is included under hw/mpi only, CUDA headers under hw/cuda and hw/nccl, nccl.h under hw/nccl and hw/cuda;
#     a header there that includes one of them, directly or through another, is not included outside its folder, so that
#     no public header of hw drags a backend in;
#   - our own headers are included by their path from the repository root.
cmake_minimum_required(VERSION 3.25)

if(NOT ROOT)
  message(FATAL_ERROR "usage: cmake -DROOT=<repository> -P check_layers.cmake")
endif()

set(rooms sim planner hw traces tools tests)
set(sees_core core)
set(sees_sim core sim)
set(sees_planner core sim planner)
set(sees_hw core hw)
set(sees_traces core sim traces)
set(sees_tools core sim planner hw traces tools)
set(sees_tests core sim planner hw traces tools tests)

set(posix_file_headers fcntl.h unistd.h sys/stat.h)
set(clock_headers chrono ctime time.h sys/time.h)
set(backend_folder_mpi "^hw/mpi/|^tests/")
set(backend_folder_cuda "^hw/(cuda|nccl)/|^tests/")
set(backend_folder_nccl "^hw/(cuda|nccl)/|^tests/")

function(room_of path result)
  if(path MATCHES "^sim/core/")
    set(${result} core PARENT_SCOPE)
  else()
    string(REGEX REPLACE "/.*" "" room "${path}")
    set(${result} ${room} PARENT_SCOPE)
  endif()
endfunction()

# The backend whose header this is, or empty.
function(backend_of header result)
  if(header MATCHES "(^|/)mpi\\.h$")
    set(${result} mpi PARENT_SCOPE)
  elseif(header MATCHES "(^|/)nccl[a-z_]*\\.h$")
    set(${result} nccl PARENT_SCOPE)
  elseif(header MATCHES "(^|/)(cuda|cublas|curand|nvtx|nvToolsExt)[A-Za-z0-9_]*\\.h(pp)?$")
    set(${result} cuda PARENT_SCOPE)
  else()
    set(${result} "" PARENT_SCOPE)
  endif()
endfunction()

set(failures "")
macro(report file include reason)
  string(APPEND failures "  ${file}: includes ${include}: ${reason}\n")
endmacro()

set(files "")
foreach(room IN LISTS rooms)
  foreach(extension cpp hpp h cu cuh)
    file(GLOB_RECURSE found RELATIVE "${ROOT}" "${ROOT}/${room}/*.${extension}")
    list(APPEND files ${found})
  endforeach()
endforeach()
list(LENGTH files file_count)
if(file_count EQUAL 0)
  message(FATAL_ERROR "no source file under ${ROOT}: wrong ROOT?")
endif()

# includes_<file>: what the file includes, each with its opening delimiter, such as "<vector" or "\"sim/core/error.hpp".
foreach(file IN LISTS files)
  file(STRINGS "${ROOT}/${file}" lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  set(includes_${file} "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]*)[>\"].*" "\\1\\2" include "${line}")
    list(APPEND includes_${file} "${include}")
  endforeach()
endforeach()

# carries_<backend>: headers that drag the backend's header in, directly or through another of ours.
foreach(backend mpi cuda nccl)
  set(carries_${backend} "")
  set(grown TRUE)
  while(grown)
    set(grown FALSE)
    foreach(file IN LISTS files)
      if(NOT file MATCHES "\\.(hpp|h|cuh)$" OR file IN_LIST carries_${backend})
        continue()
      endif()
      foreach(include IN LISTS includes_${file})
        string(SUBSTRING "${include}" 1 -1 header)
        backend_of("${header}" found_backend)
        if(found_backend STREQUAL backend OR header IN_LIST carries_${backend})
          list(APPEND carries_${backend} "${file}")
          set(grown TRUE)
          break()
        endif()
      endforeach()
    endforeach()
  endwhile()
endforeach()

foreach(file IN LISTS files)
  room_of("${file}" room)
  foreach(include IN LISTS includes_${file})
    string(SUBSTRING "${include}" 0 1 delimiter)
    string(SUBSTRING "${include}" 1 -1 header)
    string(REGEX REPLACE "/.*" "" first "${header}")

    backend_of("${header}" backend)
    if(backend AND NOT file MATCHES "${backend_folder_${backend}}")
      report("${file}" "${header}" "${backend} headers belong to their backend's folder under hw")
    endif()
    foreach(carried mpi cuda nccl)
      if(header IN_LIST carries_${carried} AND NOT file MATCHES "${backend_folder_${carried}}")
        report("${file}" "${header}" "that header drags ${carried} headers in; keep it inside its backend's folder")
      endif()
    endforeach()

    if(room MATCHES "^(core|sim|planner)$" AND header IN_LIST clock_headers)
      report("${file}" "${header}" "${room} reads no clock")
    endif()

    if(first IN_LIST rooms AND header MATCHES "/")
      room_of("${header}" target)
      if(NOT target IN_LIST sees_${room})
        string(REPLACE ";" ", " allowed "${sees_${room}}")
        report("${file}" "${header}" "${room} may include only ${allowed}")
      endif()
    elseif(delimiter STREQUAL "\"")
      report("${file}" "${header}" "our headers are included by their path from the repository root")
    elseif(room STREQUAL "core" AND NOT header MATCHES "^[a-z0-9_]+$" AND NOT header MATCHES "^nlohmann/"
           AND NOT (file MATCHES "\\.cpp$" AND header IN_LIST posix_file_headers))
      report("${file}" "${header}" "sim/core needs the standard library and nlohmann_json alone")
    endif()
  endforeach()
endforeach()

if(failures)
  message(FATAL_ERROR "includes against the direction of the rooms:\n${failures}")
endif()
message(STATUS "layers: ${file_count} files, all includes point the right way")
