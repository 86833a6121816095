#!/bin/sh
# Builds the C library and installs it: headers, shared and static library, pkg-config file, CMake package.
#
#   ./install.sh --prefix DIR [--libdir NAME] [--profile NAME]
#
#   --prefix DIR     where to; DESTDIR, if set, is put before it while copying
#   --libdir NAME    the library directory below the prefix (default: lib)
#   --profile NAME   the cargo profile that is built (default: release)
set -eu

prefix= libdir=lib profile=release
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit "$1"; }
while [ $# -gt 0 ]; do
    case $1 in
        --help) usage 0 ;;
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
cargo build --package penny --lib --profile "$profile"
version=$(cargo pkgid --package penny | sed 's/.*[#@]//')
major=${version%%.*}
target=${CARGO_TARGET_DIR:-target}/$built
to=${DESTDIR:-}$prefix
lib=$to/$libdir

mkdir -p "$to/include" "$lib/pkgconfig" "$lib/cmake/penny"
install -m 644 include/penny.h include/penny_mpi.h "$to/include"
install -m 644 "$target/libpenny.a" "$lib/libpenny.a"
install -m 755 "$target/libpenny.so" "$lib/libpenny.so.$version"
ln -sf "libpenny.so.$version" "$lib/libpenny.so.$major"
ln -sf "libpenny.so.$major" "$lib/libpenny.so"

cat >"$lib/pkgconfig/penny.pc" <<END
prefix=$prefix
libdir=\${prefix}/$libdir
includedir=\${prefix}/include

Name: penny
Description: Collective communication between processes over shared memory
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lpenny
Libs.private: -lutil -lrt -lpthread -lm -ldl
END

# The package lies in <prefix>/<libdir>/cmake/penny and finds its prefix from there, so a tree may be moved.
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
sed -i "s|@up@|$up|" "$lib/cmake/penny/pennyConfig.cmake"

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

echo "installed penny $version below $to"
