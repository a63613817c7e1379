# Says at once where haloconv does not build.
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "haloconv: ${CMAKE_SYSTEM_NAME} is not supported, Linux is.")
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  message(WARNING "haloconv: ${CMAKE_SYSTEM_PROCESSOR} is not supported, x86_64 is: nothing is "
                  "known to stand against it, but nothing was built or tested there.")
endif()
