# cupola_folder(<name> [SOURCES ...] [DEPS ...] [LIBS ...])
# One CMake target per folder: cupola_<name>. DEPS are other folders of this tree, LIBS anything
# else. A folder without sources yet is an INTERFACE target: it still carries its dependency rule.
function(cupola_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND cupola_)
  if(ARG_SOURCES)
    add_library(cupola_${name} STATIC ${ARG_SOURCES})
    target_link_libraries(cupola_${name} PUBLIC ${ARG_DEPS} ${ARG_LIBS} cupola_options cupola_sanitized)
  else()
    add_library(cupola_${name} INTERFACE)
    target_link_libraries(cupola_${name} INTERFACE ${ARG_DEPS} ${ARG_LIBS} cupola_options cupola_sanitized)
  endif()
endfunction()
