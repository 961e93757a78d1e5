# find_package(libmvbench) defines the target mvbench::mvbench. The folders follow from this file's place.
get_filename_component(_mvbench_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET mvbench::mvbench)
	add_library(mvbench::mvbench SHARED IMPORTED)
	set_target_properties(mvbench::mvbench PROPERTIES
		IMPORTED_LOCATION "${_mvbench_prefix}/lib/libmvbench.so"
		INTERFACE_INCLUDE_DIRECTORIES "${_mvbench_prefix}/include")
endif()
unset(_mvbench_prefix)
