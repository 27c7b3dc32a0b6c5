# Libraries from the distribution. fmt, spdlog and toml++ are used header-only and the compression,
# ELF and terminal libraries are linked statically, so that a binary built here runs on another distribution.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_path(CUPOLA_TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)

# The interpreter itself: the python3 that is found may be a script which looks for it at each start (pyenv), and
# takes longer for that than most of what the tests run.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE cupola_python
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(Python3_EXECUTABLE ${cupola_python})

# cupola_fmt and cupola_spdlog: header-only, but in a build with sanitizers, which stays where it
# was built, the distribution's shared libraries: sanitized in every source that includes them, the
# headers take most of the compiler's time. cupola_fmt_loadable is header-only in every build.
add_library(cupola_fmt_loadable INTERFACE)
target_link_libraries(cupola_fmt_loadable INTERFACE fmt::fmt-header-only)
add_library(cupola_fmt INTERFACE)
add_library(cupola_spdlog INTERFACE)
if(CUPOLA_SANITIZE)
  target_link_libraries(cupola_fmt INTERFACE fmt::fmt)
  target_link_libraries(cupola_spdlog INTERFACE spdlog::spdlog)
else()
  target_link_libraries(cupola_fmt INTERFACE fmt::fmt-header-only)
  target_link_libraries(cupola_spdlog INTERFACE spdlog::spdlog_header_only)
endif()

# cupola_find_static(<target> <header> <archive> [<archive>...]): an INTERFACE target of that name.
function(cupola_find_static target header)
  find_path(${target}_INCLUDE_DIR ${header} REQUIRED)
  set(archives "")
  foreach(name IN LISTS ARGN)
    find_library(${target}_${name} NAMES lib${name}.a ${name} REQUIRED)
    list(APPEND archives ${${target}_${name}})
  endforeach()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE_DIR})
  target_link_libraries(${target} INTERFACE ${archives})
endfunction()

cupola_find_static(cupola_elf gelf.h elf z)
cupola_find_static(cupola_zstd zstd.h zstd)
cupola_find_static(cupola_lz4 lz4.h lz4)
cupola_find_static(cupola_ncurses ncurses.h ncursesw tinfo)

# The headers of the CUDA toolkit (cuda.h, cudaTypedefs.h, fatbinary_section.h): host code only
# reads declarations from them. nvcc and ptxas are needed by tests/apps and by `cupola build`.
find_program(CUPOLA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin
             ${PROJECT_SOURCE_DIR}/.toolchain/cuda/bin /usr/local/cuda/bin)
if(NOT CUPOLA_NVCC)
  message(FATAL_ERROR "no CUDA toolkit found: run scripts/bootstrap, or set CUDA_HOME to one")
endif()
# For commands with -c, also where that is followed by -ptx or -fatbin: with ccache in front of nvcc, if that is in front of
# the C++ compiler. It knows nvcc, but takes a command without -c for one that links.
set(CUPOLA_NVCC_COMPILE ${CMAKE_CXX_COMPILER_LAUNCHER} ${CUPOLA_NVCC} -c)
get_filename_component(CUPOLA_CUDA_BIN ${CUPOLA_NVCC} REALPATH)
get_filename_component(CUPOLA_CUDA_BIN ${CUPOLA_CUDA_BIN} DIRECTORY)
get_filename_component(CUPOLA_CUDA_HOME ${CUPOLA_CUDA_BIN} DIRECTORY)
find_path(CUPOLA_CUDA_INCLUDE_DIR cuda.h HINTS ${CUPOLA_CUDA_HOME}/include
          ${CUPOLA_CUDA_HOME}/targets/x86_64-linux/include REQUIRED)
# The simulated device has the runtime of CUDA 13, with its declarations.
file(STRINGS ${CUPOLA_CUDA_INCLUDE_DIR}/cuda.h cupola_cuda_13 REGEX "define CUDA_VERSION +13")
if(NOT cupola_cuda_13)
  message(FATAL_ERROR "Cupola is built with a CUDA 13 toolkit, and ${CUPOLA_CUDA_HOME} is none: "
          "set CUDA_HOME to one, or unset it and run scripts/bootstrap")
endif()
find_program(CUPOLA_PTXAS ptxas HINTS ${CUPOLA_CUDA_BIN})
add_library(cupola_cuda_headers INTERFACE)
target_include_directories(cupola_cuda_headers SYSTEM INTERFACE ${CUPOLA_CUDA_INCLUDE_DIR})
