# Ctests that read the sources instead of running them (label: repository).
add_test(NAME layers
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/check_layers.cmake)
add_test(NAME layers_test
  COMMAND ${CMAKE_COMMAND} -DSCRATCH=${PROJECT_BINARY_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/check_layers_test.cmake)
add_test(NAME format COMMAND ${CMAKE_CURRENT_LIST_DIR}/check_format.sh)
add_test(NAME file_sizes COMMAND ${CMAKE_CURRENT_LIST_DIR}/check_sizes.sh)
set_tests_properties(layers layers_test format file_sizes PROPERTIES LABELS repository TIMEOUT 60)
set_tests_properties(format PROPERTIES SKIP_RETURN_CODE 77)
