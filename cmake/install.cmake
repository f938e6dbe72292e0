# `cmake --install` installs the programs, their modules, models, manual pages and shell completions. The programs
# search for their modules in ../lib/xrun, and xrun searches for xrun-bench in its own folder (graph/os/modules.h).
install(TARGETS xrun xrun-bench RUNTIME DESTINATION bin)
foreach(module xrun_jit xrun_mpi xrun_mpich xrun_onnx)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION lib/xrun)
  endif()
endforeach()
install(DIRECTORY models/ DESTINATION share/xrun/models FILES_MATCHING PATTERN "*.xgraph")
install(FILES README.md CHANGELOG.md DESTINATION share/doc/xrun)
install(FILES LICENSE NOTICE DESTINATION share/doc/xrun OPTIONAL)
# Debian names the file of the license `copyright`.
install(FILES LICENSE DESTINATION share/doc/xrun RENAME copyright OPTIONAL)

# The program prints its manual pages and shell completions. With sanitizers, leaks are not detected here but in tests.
set(run_xrun ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:xrun>)
set(manual ${CMAKE_BINARY_DIR}/manual)
set(completions ${CMAKE_BINARY_DIR}/completions)
add_custom_command(
  OUTPUT ${manual}/xrun.1 ${completions}/xrun ${completions}/_xrun ${completions}/xrun.fish
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual} ${completions}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}
  COMMAND ${run_xrun} man --write ${manual}
  COMMAND ${run_xrun} completions bash > ${completions}/xrun
  COMMAND ${run_xrun} completions zsh > ${completions}/_xrun
  COMMAND ${run_xrun} completions fish > ${completions}/xrun.fish
  DEPENDS xrun
  COMMENT "Writing the manual and the completions of shells"
  VERBATIM)
add_custom_target(xrun_manual ALL DEPENDS ${manual}/xrun.1)
install(DIRECTORY ${manual}/ DESTINATION share/man/man1)
install(FILES ${completions}/xrun DESTINATION share/bash-completion/completions)
install(FILES ${completions}/xrun.fish DESTINATION share/fish/vendor_completions.d)
# Debian's zsh reads the completions of packages in /usr from `vendor-completions`, and others from `site-functions`.
install(CODE "
  set(folder site-functions)
  if(CMAKE_INSTALL_PREFIX MATCHES \"/usr$\")
    set(folder vendor-completions)
  endif()
  file(INSTALL \"${completions}/_xrun\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/share/zsh/\${folder}\")
")

# `make package` makes a Debian package of the installed files. It depends on the libraries of the programs and modules.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME xrun)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The authors of xrun <xrun@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains classifiers with very many classes")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"xrun trains classifiers with up to millions of classes on CPUs from one
text file that describes the model. Its planner cuts the layers into
pipeline stages, shards the classifier head over devices, and predicts
time and memory; its executor runs exactly that plan, in one process or
in several over MPI. It needs a processor with AVX2.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# A run of several processes needs the launcher of an MPI implementation.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin | mpich, bash-completion")
include(CPack)
