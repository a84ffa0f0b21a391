# Checks the checker: a small tree with right includes passes, and each wrong include planted in it is found and named.
#
#   cmake -DSCRATCH=<folder to write in> -P cmake/check_layers_test.cmake
cmake_minimum_required(VERSION 3.25)

set(tree "${SCRATCH}/layers_test")
set(checker "${CMAKE_CURRENT_LIST_DIR}/check_layers.cmake")

function(plant_right_tree)
  file(REMOVE_RECURSE "${tree}")
  file(WRITE "${tree}/sim/core/units.hpp" "#include <vector>\n#include <nlohmann/json.hpp>\n")
  file(WRITE "${tree}/sim/core/file.cpp" "#include <fcntl.h>\n#include <sys/stat.h>\n#include <unistd.h>\n")
  file(WRITE "${tree}/sim/engine.hpp" "#include \"sim/core/units.hpp\"\n#include <queue>\n")
  file(WRITE "${tree}/planner/search.hpp" "#include \"sim/engine.hpp\"\n")
  file(WRITE "${tree}/traces/join.hpp" "#include \"sim/engine.hpp\"\n#include <simdjson.h>\n")
  file(WRITE "${tree}/hw/device.hpp" "#include <chrono>\n#include \"sim/core/units.hpp\"\n")
  file(WRITE "${tree}/hw/mpi/handle.hpp" "#include <mpi.h>\n")
  file(WRITE "${tree}/hw/mpi/ring.cpp" "#include \"hw/mpi/handle.hpp\"\n#include \"hw/device.hpp\"\n")
  file(WRITE "${tree}/hw/cuda/gemm.cu" "#include <cuda_runtime.h>\n#include <cublas_v2.h>\n")
  file(WRITE "${tree}/tools/main.cpp" "#include \"planner/search.hpp\"\n#include \"hw/device.hpp\"\n")
  file(WRITE "${tree}/tests/sim/engine_test.cpp" "#include \"tools/main.hpp\"\n#include \"tests/util.hpp\"\n")
endfunction()

function(run_checker result_variable output_variable)
  execute_process(COMMAND "${CMAKE_COMMAND}" -DROOT=${tree} -P "${checker}"
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE error)
  set(${result_variable} ${result} PARENT_SCOPE)
  set(${output_variable} "${output}${error}" PARENT_SCOPE)
endfunction()

plant_right_tree()
run_checker(result output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "a tree with right includes was refused:\n${output}")
endif()

# Each line: file, what it wrongly includes (with delimiters).
set(wrong_includes
  "sim/core/a.cpp|\"sim/engine.hpp\""
  "sim/core/b.cpp|<simdjson.h>"
  "sim/core/c.cpp|<sys/mman.h>"
  "sim/core/c.hpp|<unistd.h>"
  "sim/core/d.cpp|<chrono>"
  "sim/e.cpp|\"planner/search.hpp\""
  "sim/f.cpp|\"hw/device.hpp\""
  "sim/g.cpp|<ctime>"
  "sim/h.cpp|\"engine.hpp\""
  "planner/i.cpp|\"traces/join.hpp\""
  "planner/j.cpp|  \"hw/device.hpp\""
  "hw/k.cpp|\"sim/engine.hpp\""
  "hw/l.cpp|<sim/engine.hpp>"
  "hw/m.hpp|<mpi.h>"
  "hw/n.hpp|\"hw/mpi/handle.hpp\""
  "hw/o.cpp|<nccl.h>"
  "hw/cpu/p.hpp|<cuda_runtime.h>"
  "traces/q.cpp|\"planner/search.hpp\""
  "traces/r.cpp|\"hw/device.hpp\""
  "tools/s.cpp|\"tests/util.hpp\""
  "tools/t.cpp|<mpi.h>"
  "hw/cuda/u.cpp|<mpi.h>"
)
foreach(wrong IN LISTS wrong_includes)
  string(REPLACE "|" ";" parts "${wrong}")
  list(GET parts 0 file)
  list(GET parts 1 include)
  plant_right_tree()
  file(WRITE "${tree}/${file}" "#  include ${include}  // planted\n")
  run_checker(result output)
  if(result EQUAL 0)
    message(FATAL_ERROR "not found: ${file} includes ${include}")
  endif()
  if(NOT output MATCHES "${file}: includes")
    message(FATAL_ERROR "found, but ${file} is not named:\n${output}")
  endif()
endforeach()
file(REMOVE_RECURSE "${tree}")
list(LENGTH wrong_includes count)
message(STATUS "layers: all ${count} planted includes were found")
