# The run path of a library in `folder` that reaches each of the other folders, which are absolute:
# relative to the library's own folder, so that all of them can move together.
function(haloconv_run_path result folder)
  file(REAL_PATH "${folder}" folder)
  set(entries "")
  foreach(run_folder IN LISTS ARGN)
    file(REAL_PATH "${run_folder}" run_folder)
    file(RELATIVE_PATH relative "${folder}" "${run_folder}")
    if(relative)  # the own folder needs no entry
      list(APPEND entries "\$ORIGIN/${relative}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES entries)
  list(JOIN entries ":" path)
  set(${result} "${path}" PARENT_SCOPE)
endfunction()
