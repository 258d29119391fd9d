# Installs what is missing: system packages, a virtual environment, ROS, our messages. Sourced by
# dev/run with ROOT set; leaves MODE, VENV, INSTALL and OVERLAY. Stamp files hold a hash of what a
# step read, so that it runs again only after its inputs changed. Where a ROS 2 installation is
# sourced, that one is used; elsewhere the wheels of dev/requirements-ros.txt are.

CACHE="$ROOT/.cache"
LOG="$CACHE/setup.log"

say() { echo "sparser_ros: $*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
logged() {
    "$@" >>"$LOG" 2>&1 && return
    tail -n 40 "$LOG" >&2
    die "failed: $* (whole output: $LOG)"
}
has_module() {
    python3 -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$1'))" 2>/dev/null
}

if [ -n "${ROS_DISTRO:-}" ] && has_module rclpy; then
    MODE="$ROS_DISTRO"
    VENV="$ROOT/.venv-$MODE"
    REQUIREMENTS=("$ROOT/dev/requirements.txt")
else
    MODE=wheels
    VENV="$ROOT/.venv"
    REQUIREMENTS=("$ROOT/dev/requirements.txt" "$ROOT/dev/requirements-ros.txt")
fi
INSTALL="$ROOT/install"
OVERLAY="$CACHE/overlay"

# ------------------------------------------------------------------------------ system packages

SUITESPARSE=/usr/include/suitesparse/SuiteSparse_config.h

# True for a Python that can make virtual environments and compile extensions.
usable_python() {
    have "$1" && "$1" -c "
import ensurepip, os, sys, sysconfig, venv
assert sys.version_info >= (3, 10) and ('$MODE' != 'wheels' or sys.version_info < (3, 14))
assert os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h'))" 2>/dev/null
}

# True where the system's BLAS is another than the reference one.
fast_blas() {
    local name
    for name in /usr/lib/*/libblas.so.3 /usr/lib/libblas.so.3 /usr/lib64/libblas.so.3; do
        [ -e "$name" ] || continue
        [[ "$(readlink -f "$name")" != */blas/libblas.so* ]] && return
    done
    return 1
}

find_python() {
    local name names=(python3)
    [ "$MODE" != wheels ] || names+=(python3.13 python3.12 python3.11 python3.10)
    for name in "${names[@]}"; do
        ! usable_python "$name" || { command -v "$name"; return; }
    done
    return 1
}

install_system_packages() {
    local missing=() sudo=()
    { have c++ && have make; } || missing+=(build-essential)
    have cmake || missing+=(cmake)
    [ -e "$SUITESPARSE" ] || missing+=(libsuitesparse-dev)
    # libsuitesparse-dev brings the reference BLAS, which numpy of apt would use: it is slow.
    fast_blas || missing+=(libopenblas0-serial)
    find_python >/dev/null || missing+=(python3 python3-dev python3-venv)
    [ ${#missing[@]} -gt 0 ] || return 0
    have apt-get || die "please install the equivalent of: ${missing[*]}"
    if [ "$(id -u)" != 0 ]; then
        have sudo || die "as root, please: apt-get install ${missing[*]}"
        sudo=(sudo)
    fi
    say "installing ${missing[*]} (apt)"
    # An update that fails for one foreign source still serves for ours.
    "${sudo[@]}" apt-get update >>"$LOG" 2>&1 || say "apt-get update had errors (see $LOG); going on"
    logged "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${missing[@]}"
}

# What the package.xml names, on a machine with ROS; what comes by pip goes into the environment.
install_ros_dependencies() {
    have rosdep || { say 'no rosdep here: taking the ROS dependencies as installed'; return; }
    say 'installing the dependencies in package.xml (rosdep)'
    rosdep install -y -r --from-paths "$ROOT" --ignore-src --skip-keys \
        'python3-numba python3-rich python3-rosbags-pip python3-scikit-sparse-pip' \
        >>"$LOG" 2>&1 || say "rosdep could not install everything (see $LOG); going on"
}

# ------------------------------------------------------------------------------ Python packages

# Beside NumPy 1 it must be old, else it goes by SuiteSparse.
scikit_sparse() {
    if [ "$(numpy_constraint)" = 'numpy<2' ]; then
        echo 'scikit-sparse>=0.4.16,<0.5'
        return
    fi
    (cd "$ROOT" && "$(find_python)" -c 'import setup; print(setup.scikit_sparse())')
}

# The message modules of a ROS installation were compiled against its NumPy: 1 or 2 must stay.
numpy_constraint() {
    [ "$MODE" = wheels ] || python3 -c '
import numpy
print("numpy<2" if numpy.__version__.startswith("1.") else "numpy>=2")'
}

install_python_packages() {
    local python options=() wanted=() list
    python="$(find_python)" || die 'no CPython 3.10 to 3.13 with venv and headers: please install one'
    if [ "$MODE" = wheels ]; then
        [ "$(uname -m)" = x86_64 ] || die 'the ROS wheels are for x86-64: please source a ROS 2 installation'
    else
        options=(--system-site-packages)
        wanted=("$(numpy_constraint)")
    fi
    if [ ! -x "$VENV/bin/python" ]; then
        say "making ${VENV#"$ROOT/"} with $python"
        logged "$python" -m venv "${options[@]}" "$VENV"
    fi
    for list in "${REQUIREMENTS[@]}"; do wanted+=(-r "$list"); done
    say 'installing Python packages (about two minutes the first time)'
    logged "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input \
        "${wanted[@]}" "$(scikit_sparse)"
    [ "$MODE" != wheels ] || logged "$VENV/bin/python" "$ROOT/dev/fix_wheels.py"
}

# ------------------------------------------------------------------------------------- messages

# colcon_build BUILD_NAME INSTALL_DIR PATH…
colcon_build() {
    local name="$1" install="$2"
    shift 2
    (
        [ "$MODE" != wheels ] || export AMENT_PREFIX_PATH="$VENV" CMAKE_PREFIX_PATH="$VENV" PATH="$VENV/bin:$PATH"
        cd "$ROOT"
        colcon --log-base "log/$name" build --paths "$@" --build-base "build/$name" \
            --install-base "$install" --cmake-args -DBUILD_TESTING=OFF -DCOMPILE_KERNELS=OFF \
            -DPython3_EXECUTABLE="$(command -v python3)"
    ) >>"$LOG" 2>&1
}

build_workspace() {
    local name missing=() overlay='' failed=''
    say 'building the messages and services (about half a minute)'
    rm -rf "$ROOT/build" "$INSTALL" "$ROOT/log" "$OVERLAY"
    # CMake refuses exported include directories below the source directory, and NumPy's lies in
    # our virtual environment; seen through this link it does not.
    mkdir -p "$CACHE/src"
    ln -sfn ../.. "$CACHE/src/sparser_ros"
    for name in tf2_msgs tf_transformations; do
        { [ "$MODE" != wheels ] && has_module "$name"; } || missing+=("test/overlay/$name")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        colcon_build overlay "$OVERLAY" "${missing[@]}" &
        overlay=$!
    fi
    colcon_build main "$INSTALL" .cache/src/sparser_ros || failed=1
    [ -z "$overlay" ] || wait "$overlay" || failed=1
    [ -z "$failed" ] || { tail -n 40 "$LOG" >&2; die "colcon build failed (whole output: $LOG)"; }
}

# --------------------------------------------------------------------------------------- set-up

hash_of() { { echo "$MODE"; cat "$@"; } | sha256sum | cut -d ' ' -f 1; }
stamped() { [ -e "$1" ] && [ "$(<"$1")" = "$2" ]; }

set_up() {
    local packages workspace sources
    packages="$(hash_of "${REQUIREMENTS[@]}" "$ROOT/dev/setup.sh" "$ROOT/dev/fix_wheels.py")"
    sources=("$ROOT"/{CMakeLists.txt,package.xml,msg,srv,test/overlay})
    # `ros2 launch` reads the installed copies of these.
    [ "$MODE" = wheels ] || sources+=("$ROOT"/{config,launch,scripts})
    workspace="$(find "${sources[@]}" -type f | LC_ALL=C sort)"
    # shellcheck disable=SC2086
    workspace="$(hash_of $workspace) $VENV"
    if stamped "$VENV/.stamp" "$packages" && stamped "$INSTALL/.stamp" "$workspace"; then return; fi
    mkdir -p "$CACHE"
    (
        flock 9
        if ! stamped "$VENV/.stamp" "$packages"; then
            : >"$LOG"
            install_system_packages
            [ "$MODE" = wheels ] || install_ros_dependencies
            install_python_packages
            echo "$packages" >"$VENV/.stamp"
        fi
        if ! stamped "$INSTALL/.stamp" "$workspace"; then
            build_workspace
            echo "$workspace" >"$INSTALL/.stamp"
        fi
    ) 9>"$CACHE/setup.lock"
}

set_up
