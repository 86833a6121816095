#!/bin/sh
# Builds the C library and the command penny and installs them: headers, shared and static library, pkg-config file, CMake package,
# manual pages, completions of shells.
#
#   ./install.sh --prefix DIR [--nccl] [--libdir NAME] [--profile NAME]
#
#   --nccl           also penny-nvcc, NCCL's library and CUDA's runtime on the host, in a folder that serves as CUDA_HOME and NCCL_HOME
#   --prefix DIR     where to; DESTDIR, if set, is put before it while copying
#   --libdir NAME    the library directory below the prefix (default: lib)
#   --profile NAME   the cargo profile that is built (default: release)
set -eu

prefix= libdir=lib profile=release nccl=
usage() { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit "$1"; }
while [ $# -gt 0 ]; do
    case $1 in
        --help) usage 0 ;;
        --nccl)
            nccl=yes
            shift ;;
        --prefix | --libdir | --profile)
            [ $# -ge 2 ] || usage 2 >&2
            eval "${1#--}=\$2"
            shift 2 ;;
        *) usage 2 >&2 ;;
    esac
done
case $prefix in
    /*) ;;
    '') usage 2 >&2 ;;
    *) prefix=$PWD/$prefix ;;
esac
case $profile in dev) built=debug ;; *) built=$profile ;; esac

cd "$(dirname "$0")"
targets=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
# Cargo names the files of a library that is also a shared one without a hash. In a target folder that several workspaces share, a crate
# that depends on penny would overwrite them, and they its own: what is built on the way lies apart (cargo 1.91).
[ "$targets" = "$(pwd -P)/target" ] || export CARGO_BUILD_BUILD_DIR="${CARGO_BUILD_BUILD_DIR:-$targets/penny}"
# The command is built with it, because cargo would build the library once more for the command alone.
cargo build --package penny --package penny-cli --profile "$profile"
version=$(cargo pkgid --package penny | sed 's/.*[#@]//')
major=${version%%.*}
# Cargo puts what it builds for a named platform into a folder of that name.
target=$targets/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}$built
to=${DESTDIR:-}$prefix
lib=$to/$libdir

mkdir -p "$to/bin" "$to/include/penny" "$lib/pkgconfig" "$lib/cmake/penny"
install -m 755 "$target/penny" "$to/bin"
# The command writes them itself; where it is built for another machine they are left out.
if "$target/penny" --version >/dev/null 2>&1; then
    share=$to/share
    mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
    "$target/penny" man -o "$share/man/man1"
    "$target/penny" completions bash >"$share/bash-completion/completions/penny"
    "$target/penny" completions zsh >"$share/zsh/site-functions/_penny"
    "$target/penny" completions fish >"$share/fish/vendor_completions.d/penny.fish"
fi
install -m 644 include/penny.h include/penny_mpi.h include/penny.hpp "$to/include"
install -m 644 include/penny/*.hpp "$to/include/penny"
install -m 644 "$target/libpenny.a" "$lib/libpenny.a"
install -m 755 "$target/libpenny.so" "$lib/libpenny.so.$version"
ln -sf "libpenny.so.$version" "$lib/libpenny.so.$major"
ln -sf "libpenny.so.$major" "$lib/libpenny.so"

cat >"$lib/pkgconfig/penny.pc" <<END
prefix=\${pcfiledir}/../@up@
libdir=\${prefix}/$libdir
includedir=\${prefix}/include

Name: penny
Description: Collective communication between processes, over shared memory, TCP and libfabric
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lpenny
Libs.private: -lutil -lrt -lpthread -lm -ldl
END

# This package and the file of pkg-config find the prefix from where they lie, so a tree may be moved.
cat >"$lib/cmake/penny/pennyConfig.cmake" <<END
if(NOT TARGET penny::penny)
    get_filename_component(_penny_lib "\${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
    add_library(penny::penny SHARED IMPORTED)
    set_target_properties(penny::penny PROPERTIES
        IMPORTED_LOCATION "\${_penny_lib}/libpenny.so.$version"
        IMPORTED_SONAME "libpenny.so.$major"
        INTERFACE_INCLUDE_DIRECTORIES "\${_penny_lib}/@up@/include")
    unset(_penny_lib)
endif()
END
# From the library directory back to the prefix: one step up for each part of --libdir.
up=$(printf %s "$libdir" | sed 's/[^/][^/]*/../g')
sed -i "s|@up@|$up|" "$lib/cmake/penny/pennyConfig.cmake" "$lib/pkgconfig/penny.pc"

# Before 1.0 a minor version may change the interface.
cat >"$lib/cmake/penny/pennyConfigVersion.cmake" <<END
set(PACKAGE_VERSION $version)
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION OR
        (PACKAGE_FIND_VERSION AND NOT "\${PACKAGE_FIND_VERSION_MAJOR}.\${PACKAGE_FIND_VERSION_MINOR}" STREQUAL "${version%.*}"))
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
    if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
        set(PACKAGE_VERSION_EXACT TRUE)
    endif()
endif()
END

# A folder of its own: in the directory of libraries they would take the place of NVIDIA's for all programs.
if [ -n "$nccl" ]; then
    cargo build --package penny-nccl --package penny-cudart --package penny-nvcc --package penny-time --profile "$profile"
    home=$lib/penny-cuda
    mkdir -p "$home/bin" "$home/include" "$home/lib64"
    install -m 755 "$target/penny-nvcc" "$home/bin/nvcc"
    ln -sf "../$libdir/penny-cuda/bin/nvcc" "$to/bin/penny-nvcc"
    install -m 644 compat/cudart/include/*.h compat/nccl/include/*.h "$home/include"
    for name in nccl:2 cudart:12; do
        install -m 755 "$target/lib${name%:*}.so" "$home/lib64/lib${name%:*}.so.${name#*:}"
        ln -sf "lib${name%:*}.so.${name#*:}" "$home/lib64/lib${name%:*}.so"
    done
    install -m 755 "$target/libpenny_time.so" "$home/lib64/libpenny_time.so"
    # Linkers read these as libraries that consist of the other.
    for name in cudart_static cudadevrt; do
        echo 'INPUT(-lcudart)' >"$home/lib64/lib$name.a"
    done
    ln -sf "../../libpenny.so.$major" "$home/lib64/libpenny.so.$major"
    ln -sfn lib64 "$home/lib"
    echo "installed penny-nvcc; CUDA_HOME and NCCL_HOME are $prefix/$libdir/penny-cuda"
fi

echo "installed penny $version below $to"
