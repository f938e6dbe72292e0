# A module and the program that loads it are used together only if both are of the same build. The digest of the files
# that both depend on says so: it changes with a file, the compiler, the kind of build and the sanitizer.
#
#   xrun_sources_digest(RESULT FILE...)     RESULT becomes 16 hexadecimal digits
function(xrun_sources_digest result)
  set(digests "${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${XRUN_SANITIZE}")
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(SHA256 ${file} digest)
    string(APPEND digests ${digest})
  endforeach()
  string(SHA256 digest "${digests}")
  string(SUBSTRING ${digest} 0 16 digest)
  set(${result} ${digest} PARENT_SCOPE)
endfunction()
