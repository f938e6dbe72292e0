# Texts that are compiled into a program, such as the standard library of the language.
#
#   xrun_embed_texts(LIST TEMPLATE PREFIX FILE...)
#
# Writes a source from TEMPLATE, whose @XRUN_TEXTS@ becomes one line {"PREFIX + name", text} for each file; the name of
# `std/vision.xgraph` is `vision`. Appends the source to the variable LIST.
function(xrun_embed_texts list_name template prefix)
  set(XRUN_TEXTS "")
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND XRUN_TEXTS "    {\"${prefix}${name}\", R\"XGRAPH(${text})XGRAPH\"},\n")
  endforeach()
  get_filename_component(source ${template} NAME_WLE)
  configure_file(${template} ${CMAKE_CURRENT_BINARY_DIR}/${source} @ONLY)
  set(${list_name} ${${list_name}} ${CMAKE_CURRENT_BINARY_DIR}/${source} PARENT_SCOPE)
endfunction()
