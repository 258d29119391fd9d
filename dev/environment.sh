# The environment of dev/run, after dev/setup.sh: the virtual environment, ROS, our messages, and
# the checkout first on Python's path.

# The installed copy of our Python tree would keep deleted modules importable: only what was
# generated from messages and services stays.
for tree in "$INSTALL"/sparser_ros/{lib,local/lib}/python3*/*-packages/sparser_ros; do
    [ ! -d "$tree/config" ] || find "$tree" -mindepth 1 -maxdepth 1 -type d ! -name msg ! -name srv -exec rm -rf {} +
done

path_add() { # VARIABLE DIRECTORY: puts the directory first
    export "$1=$2${!1:+:${!1}}"
}

if [ "$MODE" = wheels ]; then
    unset AMENT_PREFIX_PATH CMAKE_PREFIX_PATH
    for prefix in "$VENV" "$OVERLAY"/* "$INSTALL"/sparser_ros; do
        [ -d "$prefix/share" ] || continue
        path_add AMENT_PREFIX_PATH "$prefix"
        path_add CMAKE_PREFIX_PATH "$prefix"
        [ "$prefix" != "$VENV" ] || continue
        path_add LD_LIBRARY_PATH "$prefix/lib"
        for packages in "$prefix"/lib/python3*/site-packages; do path_add PYTHONPATH "$packages"; done
    done
else
    set +u
    [ ! -e "$OVERLAY/local_setup.bash" ] || source "$OVERLAY/local_setup.bash"
    source "$INSTALL/local_setup.bash"
    set -u
fi

export VIRTUAL_ENV="$VENV"
path_add PATH "$VENV/bin"
path_add PATH "$ROOT/scripts"
path_add PYTHONPATH "$ROOT"
# Compiled kernels outlive a change of checkout ownership, and stay out of the source tree. Numba's
# index names argument types by their modules: another layout of linalg/ must not find an old one.
if [ -z "${NUMBA_CACHE_DIR:-}" ] && [ -d "$ROOT/sparser_ros/linalg" ]; then
    layout="$(cd "$ROOT/sparser_ros/linalg" && { find . -name '*.py' | LC_ALL=C sort; cat compiled.py; } | sha256sum | cut -c 1-12)"
    export NUMBA_CACHE_DIR="$ROOT/.cache/numba/$layout"
    mkdir -p "$NUMBA_CACHE_DIR"
    find "$ROOT/.cache/numba" -mindepth 1 -maxdepth 1 ! -name "$layout" -exec rm -rf {} +
    # Kernels whose source changes later are compiled again when they are used.
    if [ ! -e "$NUMBA_CACHE_DIR/.compiled" ]; then
        (
            flock 9
            [ ! -e "$NUMBA_CACHE_DIR/.compiled" ] || exit 0
            echo 'sparser_ros: compiling kernels (a few minutes, once)' >&2
            python3 -m sparser_ros doctor --compile >"$ROOT/.cache/kernels.log" 2>&1 ||
                echo "sparser_ros: failed (see $ROOT/.cache/kernels.log); going on" >&2
            touch "$NUMBA_CACHE_DIR/.compiled"
        ) 9>"$ROOT/.cache/kernels.lock"
    fi
fi
