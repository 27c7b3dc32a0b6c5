# Run by the build with cmake -P. Writes OUT_STUBS, a weak definition of every export of the toolkit's
# libcudart, which a definition written by hand replaces at link time, and OUT_ERRORS, the names of the
# error codes in driver_types.h.
execute_process(COMMAND ${NM} -D --defined-only ${CUDART} OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
# The lines have the form "<address> T <name>@@<version>".
string(REGEX MATCHALL " [TW] _?_?cuda[A-Za-z0-9_]+" names "${symbols}")
list(TRANSFORM names REPLACE " [TW] " "")
list(REMOVE_DUPLICATES names)
set(text "int cupola_cudart_missing(const char* name, int* said);\n")
foreach(name IN LISTS names)
  string(APPEND text "__attribute__((weak)) int ${name}(void) "
         "{ static int said; return cupola_cudart_missing(\"${name}\", &said); }\n")
endforeach()
file(WRITE ${OUT_STUBS} "${text}")

file(STRINGS ${DRIVER_TYPES} lines REGEX "^ *cuda(Error[A-Za-z0-9]+|Success) *= *[0-9]+")
set(text "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^ *(cuda[A-Za-z0-9]+) *= *([0-9]+).*" "CUPOLA_CUDART_ERROR(\\2, \\1)\n" entry
         "${line}")
  string(APPEND text "${entry}")
endforeach()
file(WRITE ${OUT_ERRORS} "${text}")
