# `cmake --install` gives what find_package(haloconv) needs, and runs from wherever it is put:
#
#   include/haloconv/                  the headers
#   lib/libhaloconv_kernels.so.0       the kernels, for every torch
#   lib/libhaloconv.so.0               for the torch that was found
#   bin/haloconv-rewrite               likewise
#   lib/cmake/haloconv/                haloconv-config.cmake, and a file for each torch that it has
#
# A wheel has the second and third of these in lib/torch2.11/ and its likes, one for each torch.
# Moved later, it must be moved together with torch, whose folder it finds by a relative path.
include(CMakePackageConfigHelpers)
set(kernels_dir "${CMAKE_INSTALL_LIBDIR}")
if(HALOCONV_WHEEL)
  set(library_dir "${CMAKE_INSTALL_LIBDIR}/torch${HALOCONV_TORCH_MINOR}")
  set(program_dir "${library_dir}")
  set(links NAMELINK_SKIP)  # a wheel holds no links: libhaloconv.so would be a second copy
else()
  set(library_dir "${CMAKE_INSTALL_LIBDIR}")
  set(program_dir "${CMAKE_INSTALL_BINDIR}")
  set(links "")
endif()
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/haloconv")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/haloconv-config.cmake.in"
                              haloconv-config.cmake INSTALL_DESTINATION "${package}"
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/haloconv-torch.cmake.in"
                              haloconv-torch${HALOCONV_TORCH_MINOR}.cmake
                              INSTALL_DESTINATION "${package}"
                              PATH_VARS library_dir NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(haloconv-config-version.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS haloconv LIBRARY DESTINATION "${library_dir}" ${links})
install(TARGETS haloconv_rewrite RUNTIME DESTINATION "${program_dir}")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/haloconv-torch${HALOCONV_TORCH_MINOR}.cmake"
        DESTINATION "${package}")
if(NOT HALOCONV_BINDING_ONLY)
  if(HALOCONV_KERNELS)
    install(FILES "${HALOCONV_KERNELS}" DESTINATION "${kernels_dir}")
  else()
    install(TARGETS haloconv_kernels LIBRARY DESTINATION "${kernels_dir}" NAMELINK_SKIP)
  endif()
  install(FILES ${public_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/haloconv")
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/haloconv-config.cmake"
                "${CMAKE_CURRENT_BINARY_DIR}/haloconv-config-version.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/FindHaloconvTorch.cmake"
          DESTINATION "${package}")
endif()

# Library and program find one another, the kernels and torch by relative run paths. A run path can be
# rewritten in place but not grow, and the folder of an installation is known only when it installs: the
# last entry, the own folder once more, leaves room for a longer one. The kernels need nothing.
include(RunPath.cmake)
if(HALOCONV_KERNELS)
  cmake_path(GET HALOCONV_KERNELS PARENT_PATH kernels_folder)
else()
  set(kernels_folder "${PROJECT_BINARY_DIR}/op")
endif()
haloconv_run_path(build_path "${CMAKE_CURRENT_BINARY_DIR}" "${kernels_folder}"
                  "${HALOCONV_TORCH_LIB_DIR}")
string(REPEAT "/." 400 room)
string(APPEND build_path ":\$ORIGIN${room}")
set_target_properties(haloconv haloconv_rewrite PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                                                           INSTALL_RPATH "${build_path}")
if(HALOCONV_WHEEL)  # it is put together in a temporary folder, and unpacked beside torch
  file(REAL_PATH "${HALOCONV_TORCH_LIB_DIR}" torch_lib)
  cmake_path(GET torch_lib PARENT_PATH torch_package)
  cmake_path(GET torch_package PARENT_PATH site_packages)
  set(run_prefix "${site_packages}/haloconv")
else()
  set(run_prefix "\${CMAKE_INSTALL_PREFIX}")
endif()
configure_file(InstallRunPath.cmake.in InstallRunPath.cmake @ONLY)
install(SCRIPT "${CMAKE_CURRENT_BINARY_DIR}/InstallRunPath.cmake")
