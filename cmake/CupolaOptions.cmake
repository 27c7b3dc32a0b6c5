# Language level, warnings, sanitizers and output folders, for every target of the tree.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

add_library(cupola_options INTERFACE)
target_compile_options(cupola_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow -Wno-missing-field-initializers>)
target_include_directories(cupola_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)

# cupola_compile_together(<target>): one run of the compiler takes several of the target's sources, because what they
# include, and instantiate of that, is most of the work: a quarter of them, but at least eight. Names in their unnamed
# namespaces must differ.
function(cupola_compile_together target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  math(EXPR batch "(${count} + 3) / 4")
  if(batch LESS 8)
    set(batch 8)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
endfunction()

# Objects that are preloaded into, or loaded by, a program that knows nothing of sanitizers
# link cupola_options only; everything else links cupola_sanitized as well. What is compiled without sanitizers and
# still linked with them has the property CUPOLA_NOT_INSTRUMENTED.
add_library(cupola_sanitized INTERFACE)
if(CUPOLA_SANITIZE)
  # Without the checks of each pointer before it is used, which take half of the compiler's time: the address sanitizer
  # finds a wrong pointer when it is used. Only that an address is aligned is seen by nothing else; the folders that
  # read files and shared memory in place check it (cupola_check_alignment).
  set(instrumentation -fsanitize=address,undefined -fno-sanitize=null,vptr,object-size,pointer-overflow
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:CUPOLA_CHECKS_ALIGNMENT>>>:-fno-sanitize=alignment>
    -fno-sanitize-recover=undefined)
  target_compile_options(cupola_sanitized INTERFACE -fno-omit-frame-pointer
    "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:CUPOLA_NOT_INSTRUMENTED>>>:${instrumentation}>")
  target_compile_definitions(cupola_sanitized INTERFACE
    $<$<BOOL:$<TARGET_PROPERTY:CUPOLA_NOT_INSTRUMENTED>>:_GLIBCXX_ASSERTIONS>)
  # At fixed addresses: the tests start programs by the thousand, and a third of a start was their
  # relocation.
  target_link_options(cupola_sanitized INTERFACE -fsanitize=address,undefined -no-pie)
endif()

# cupola_check_alignment(<target>): its sources also check that each address is aligned as its type demands.
function(cupola_check_alignment target)
  set_target_properties(${target} PROPERTIES CUPOLA_CHECKS_ALIGNMENT ON)
endfunction()
