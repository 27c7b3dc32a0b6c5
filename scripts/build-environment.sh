# Sourced by the scripts that build, in the project's folder: the CMake that scripts/bootstrap put there, if it had to, and ccache
# in front of the compilers where it is installed.
if [ -d .toolchain/cmake ]; then export PATH=$PWD/.toolchain/cmake/cmake/data/bin:$PATH; fi
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  # What one clone has compiled serves the next, in whatever folder that is.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi
