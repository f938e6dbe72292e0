# All settings of compilers: C++20, warnings, linker, ccache and sanitizers.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

find_program(XRUN_CCACHE ccache)
if(XRUN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${XRUN_CCACHE})
endif()
find_program(XRUN_MOLD mold)
if(XRUN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# xrun needs at least AVX2. Kernels for wider vectors are functions or files that are compiled for other instruction
# sets and chosen at run time. Contraction is off, so that the compiler makes no fused multiply-add that the source does
# not contain: docs/internals/determinism.md, "Floating-point mode".
add_compile_options(-march=x86-64-v3 -ffp-contract=off -fno-math-errno)

function(xrun_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wconversion
                         -Wno-sign-conversion $<$<BOOL:${XRUN_WERROR}>:-Werror>)
  # At -O2, GCC 12 gives these warnings falsely for code of the standard library.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds
                           -Wno-missing-field-initializers)
  else()
    target_compile_options(${target} PRIVATE -Wno-missing-field-initializers -Wno-missing-designated-field-initializers
                           -Wno-unknown-warning-option)
  endif()
endfunction()

# Completes a module that programs load. Programs export no symbols, so the module has its own `check_failed`. A missing
# symbol is an error of the linker, except with sanitizers, whose symbols only the program has.
function(xrun_loaded_module target)
  target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/graph/base/check.cpp)
  if(NOT XRUN_SANITIZE AND NOT XRUN_FUZZ)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  xrun_warnings(${target})
endfunction()

if(XRUN_SANITIZE)
  add_compile_options(-fsanitize=${XRUN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${XRUN_SANITIZE})
endif()

# Adds the static library of a folder.
function(xrun_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  xrun_warnings(${name})
endfunction()
