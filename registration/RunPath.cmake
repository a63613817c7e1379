# The run path of a library in `folder` that reaches each of the other folders, which are absolute:
# relative to the library's own folder, so that all of them can move together. Links are followed
# where the folders are there; those of a wheel or a package being made come to be elsewhere.
function(haloconv_run_path result folder)
  set(entries "")
  set(own "")
  foreach(run_folder IN LISTS folder ARGN)
    if(EXISTS "${run_folder}")
      file(REAL_PATH "${run_folder}" run_folder)
    else()
      cmake_path(NORMAL_PATH run_folder)
    endif()
    if(NOT own)
      set(own "${run_folder}")
    endif()
    file(RELATIVE_PATH relative "${own}" "${run_folder}")
    if(relative)  # the own folder needs no entry
      list(APPEND entries "\$ORIGIN/${relative}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES entries)
  list(JOIN entries ":" path)
  set(${result} "${path}" PARENT_SCOPE)
endfunction()
