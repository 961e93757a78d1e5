# The version is the header's. As long as it begins with 0, the second number has to be the same.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../../../include/libmvbench.h" _mvbench_line REGEX "#define MVB_VERSION")
string(REGEX REPLACE ".*\"([0-9.]+)\".*" "\\1" PACKAGE_VERSION "${_mvbench_line}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" _mvbench_have "${PACKAGE_VERSION}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" _mvbench_want "${PACKAGE_FIND_VERSION}")
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
	set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION AND
		("${_mvbench_want}" STREQUAL "" OR "${_mvbench_have}" STREQUAL "${_mvbench_want}"))
	set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
