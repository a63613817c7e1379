# Appends to CMAKE_PREFIX_PATH the torch of the Python that builds the wheel.
find_package(Python REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "from importlib.util import find_spec; print(find_spec('torch').origin)"
  OUTPUT_VARIABLE _torch OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
get_filename_component(_torch "${_torch}" DIRECTORY)
list(APPEND CMAKE_PREFIX_PATH "${_torch}/share/cmake")
