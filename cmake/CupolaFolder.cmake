# cupola_folder(<name> [LOADABLE] [COMMAND] [TOGETHER] [WHOLE] [SOURCES ...] [ONCE ...] [DEPS ...] [LIBS ...])
# One CMake target per folder: cupola_<name>. DEPS are other folders of this tree, LIBS anything
# else. A folder without sources yet is an INTERFACE target: it still carries its dependency rule.
#
# LOADABLE adds cupola_<name>_loadable, for shared objects that load into programs which know nothing
# of sanitizers (libcupola.so, the simulated libcuda and libcudart): the same sources, never
# sanitized, and with cupola_fmt_loadable in place of cupola_fmt. In a build without sanitizers it
# is the same target.
#
# COMMAND adds, in a build with sanitizers, the objects cupola_<name>_unsanitized of the same sources: a part
# of the command without sanitizers (cli/). It links the folder's DEPS itself.
#
# ONCE, with COMMAND: sources whose data are in containers, JSON, TOML or command lines, and which read no memory by
# hand. Instrumentation takes half of the compiler's time for such code and finds little in it, so in a build with
# sanitizers they are compiled once, as the objects cupola_<name>_once without sanitizers, for both commands and the
# tests. What they do wrong on the heap with the C library's functions, and what they leak, is still found, and indices
# into their containers are checked by the C++ library (_GLIBCXX_ASSERTIONS). What reads files, messages or shared
# memory in place belongs in SOURCES.
#
# TOGETHER: see cupola_compile_together. For cupola_<name>_loadable only with WHOLE: a shared object
# takes of it the sources that it needs, and not the libraries of the others, unless it needs all.
function(cupola_folder name)
  cmake_parse_arguments(ARG "LOADABLE;COMMAND;TOGETHER;WHOLE" "" "SOURCES;ONCE;DEPS;LIBS" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND cupola_ OUTPUT_VARIABLE deps)
  set(sources ${ARG_SOURCES} ${ARG_ONCE})
  if(ARG_ONCE AND CUPOLA_SANITIZE)
    add_library(cupola_${name}_once OBJECT ${ARG_ONCE})
    target_link_libraries(cupola_${name}_once PUBLIC ${ARG_LIBS} cupola_fmt cupola_spdlog cupola_options)
    target_compile_definitions(cupola_${name}_once PRIVATE _GLIBCXX_ASSERTIONS)
    target_compile_options(cupola_${name}_once PRIVATE -fno-omit-frame-pointer)  # reports of leaks follow them
    cupola_compile_together(cupola_${name}_once)
    set(sources ${ARG_SOURCES} $<TARGET_OBJECTS:cupola_${name}_once>)
  endif()
  if(sources)
    add_library(cupola_${name} STATIC ${sources})
    target_link_libraries(cupola_${name} PUBLIC ${deps} ${ARG_LIBS} cupola_options cupola_sanitized)
    # Where nothing is sanitized this library is the loadable one too.
    if(ARG_TOGETHER AND (CUPOLA_SANITIZE OR ARG_WHOLE OR NOT ARG_LOADABLE))
      cupola_compile_together(cupola_${name})
    endif()
  else()
    add_library(cupola_${name} INTERFACE)
    target_link_libraries(cupola_${name} INTERFACE ${deps} ${ARG_LIBS} cupola_options cupola_sanitized)
  endif()
  if(ARG_COMMAND AND ARG_SOURCES AND CUPOLA_SANITIZE)
    add_library(cupola_${name}_unsanitized OBJECT EXCLUDE_FROM_ALL ${ARG_SOURCES})
    target_link_libraries(cupola_${name}_unsanitized PUBLIC ${ARG_LIBS} cupola_fmt cupola_spdlog cupola_options)
    cupola_compile_together(cupola_${name}_unsanitized)
  endif()
  if(NOT ARG_LOADABLE)
    return()
  endif()
  if(CUPOLA_SANITIZE AND ARG_SOURCES)
    list(TRANSFORM deps APPEND _loadable)
    list(TRANSFORM ARG_LIBS REPLACE "^cupola_fmt$" cupola_fmt_loadable)
    add_library(cupola_${name}_loadable STATIC ${ARG_SOURCES})
    target_link_libraries(cupola_${name}_loadable PUBLIC ${deps} ${ARG_LIBS} cupola_options)
    if(ARG_TOGETHER AND ARG_WHOLE)
      cupola_compile_together(cupola_${name}_loadable)
    endif()
  else()
    add_library(cupola_${name}_loadable ALIAS cupola_${name})
  endif()
endfunction()
