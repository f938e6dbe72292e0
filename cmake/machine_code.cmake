# Machine code of the kernels of GPUs, as part of the program.
#
#   xrun_embed_machine_code(LIST TEMPLATE PTX...)
#
# If ptxas of CUDA 12.8 or later is found, compiles each PTX text for compute_80 to sm_80, and each one for compute_90 to
# sm_90 and sm_100. Writes a source from TEMPLATE with the results, or without any, and appends it to the variable LIST.
function(xrun_embed_machine_code list_name template)
  set(XRUN_CODE_SECTIONS "")
  set(XRUN_CODE_TABLE "")
  set(XRUN_CODE_COUNT 0)
  set(codes "")
  find_program(XRUN_PTXAS ptxas HINTS /usr/local/cuda/bin)
  set(version 0)
  if(XRUN_PTXAS)
    execute_process(COMMAND ${XRUN_PTXAS} --version OUTPUT_VARIABLE text ERROR_QUIET)
    if(text MATCHES "release ([0-9.]+)")
      set(version ${CMAKE_MATCH_1})
    endif()
  endif()
  if(version VERSION_GREATER_EQUAL 12.8)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/machine_code)
    foreach(file ${ARGN})
      get_filename_component(text ${file} NAME_WE)
      string(REGEX REPLACE "_(80|90)$" "" module ${text})
      if(text MATCHES "_80$")
        set(architectures 80)
      else()
        set(architectures 90 100)
      endif()
      foreach(architecture ${architectures})
        set(code ${CMAKE_CURRENT_BINARY_DIR}/machine_code/${module}.sm_${architecture}.cubin)
        add_custom_command(OUTPUT ${code} COMMAND ${XRUN_PTXAS} -O3 --suppress-debug-info -arch=sm_${architecture} -o ${code} ${file}
                           DEPENDS ${file} ${packed_ptx} VERBATIM)
        list(APPEND codes ${code})
        set(symbol xrun_code_${module}_${architecture})
        string(APPEND XRUN_CODE_SECTIONS
               "asm(\".pushsection .rodata\\n.balign 16\\n${symbol}:\\n.incbin \\\"${code}\\\"\\n${symbol}_end:\\n\"\n"
               "    \".popsection\\n\");\n"
               "extern \"C\" const char ${symbol}[];\nextern \"C\" const char ${symbol}_end[];\n")
        string(APPEND XRUN_CODE_TABLE
               "    {\"${module}.sm_${architecture}\", ${symbol}, ${symbol}_end},\n")
        math(EXPR XRUN_CODE_COUNT "${XRUN_CODE_COUNT} + 1")
      endforeach()
    endforeach()
  endif()
  get_filename_component(source ${template} NAME_WLE)
  configure_file(${template} ${CMAKE_CURRENT_BINARY_DIR}/${source} @ONLY)
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/${source} PROPERTIES OBJECT_DEPENDS "${codes}")
  set(${list_name} ${${list_name}} ${CMAKE_CURRENT_BINARY_DIR}/${source} PARENT_SCOPE)
endfunction()
