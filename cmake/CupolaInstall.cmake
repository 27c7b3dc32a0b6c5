# What `cmake --install` puts where, and what `cpack` packs. The layout can be moved as a whole: the command finds its
# libraries by its own place.
#
#   bin/cupola                                   the command
#   lib/cupola/libcupola.so, libcupola/, ...     what is preloaded, and the library behind it
#   lib/cupola/sim/                              the simulated device
#   include/cupola/, lib/cupola/cmake/           for programs with tasks of their own: find_package(Cupola)
#   lib/systemd/user/cupola.service              the arbiter as a service of a user
#   share/bash-completion/completions/cupola
#   share/man/man1/                              pages made of the help texts
set(libraries lib/cupola)
set(headers include/cupola)

install(TARGETS cupola RUNTIME DESTINATION bin)
foreach(library libcupola.so libcupola_cupti.so libcupola/libcuda.so.1 sim/libcuda.so.1 sim/libcudart.so.13)
  get_filename_component(folder ${libraries}/${library} DIRECTORY)
  set(optional "")
  if(library STREQUAL libcupola_cupti.so)
    set(optional OPTIONAL)  # not built where the toolkit has no CUPTI
  endif()
  install(PROGRAMS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${library} DESTINATION ${folder} ${optional})
endforeach()
# Programs link the runtime by these names.
foreach(link libcuda.so=libcuda.so.1 libcudart.so=libcudart.so.13)
  string(REPLACE "=" ";" link ${link})
  list(GET link 0 name)
  list(GET link 1 target)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/install)
  file(CREATE_LINK ${target} ${PROJECT_BINARY_DIR}/install/${name} SYMBOLIC)
  install(FILES ${PROJECT_BINARY_DIR}/install/${name} DESTINATION ${libraries}/sim)
endforeach()

# The task API: headers, those of the runtime that they include, and the host's side of the task table.
add_library(cupola_tasks STATIC device/runtime/task_table.cpp)
set_target_properties(cupola_tasks PROPERTIES EXPORT_NAME tasks CXX_VISIBILITY_PRESET default)
target_compile_features(cupola_tasks PUBLIC cxx_std_20)
target_include_directories(cupola_tasks PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
  $<INSTALL_INTERFACE:${headers}/internal>)
install(TARGETS cupola_tasks EXPORT CupolaTargets ARCHIVE DESTINATION ${libraries})
file(GLOB api CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/cupola/*.h)
file(GLOB runtime CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/device/runtime/*.h ${PROJECT_SOURCE_DIR}/device/runtime/*.cuh)
list(FILTER runtime EXCLUDE REGEX "master_image\\.h$|preempt_control\\.h$")
install(FILES ${api} DESTINATION ${headers})
install(FILES ${runtime} DESTINATION ${headers}/internal/device/runtime)
install(EXPORT CupolaTargets NAMESPACE Cupola:: DESTINATION ${libraries}/cmake)
include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/CupolaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/install/CupolaConfig.cmake INSTALL_DESTINATION ${libraries}/cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/CupolaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/CupolaConfig.cmake ${PROJECT_BINARY_DIR}/install/CupolaConfigVersion.cmake
  DESTINATION ${libraries}/cmake)

install(FILES packaging/cupola.service DESTINATION lib/systemd/user)
install(FILES packaging/cupola.bash DESTINATION share/bash-completion/completions RENAME cupola)
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(man ${PROJECT_BINARY_DIR}/install/man)
add_custom_command(OUTPUT ${man}/cupola.1
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/packaging/man_pages.py $<TARGET_FILE:cupola> ${man}
  DEPENDS cupola ${PROJECT_SOURCE_DIR}/packaging/man_pages.py COMMENT "Man pages" VERBATIM)
add_custom_target(man_pages ALL DEPENDS ${man}/cupola.1)
install(DIRECTORY ${man}/ DESTINATION share/man/man1 FILES_MATCHING PATTERN *.1)

install(FILES README.md LICENSE DESTINATION share/doc/cupola)

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
          -P ${PROJECT_SOURCE_DIR}/packaging/uninstall.cmake VERBATIM)

set(CPACK_PACKAGE_NAME cupola)
set(CPACK_PACKAGE_VENDOR "The Cupola authors")
set(CPACK_PACKAGE_CONTACT "The Cupola authors <cupola@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME cupola-${PROJECT_VERSION}-linux-x86_64)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
find_program(CUPOLA_SHLIBDEPS dpkg-shlibdeps)
if(CUPOLA_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
include(CPack)
