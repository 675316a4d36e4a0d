"""The Python of the build, for every workspace: one interpreter and one merged site-packages.

`python` is a module extension without tags. It makes three repositories:

* `@python`, a toolchain for an interpreter that the wheels of the lock serve;
* `@pypi`, the wheels of //tools/python:requirements_lock.txt (see pip_site.bzl).

The interpreter is, in this order:

1. the one that `--repo_env=BAZEL_PYTHON=/path/to/python3` names;
2. one of the wanted versions on this machine, on PATH or under pyenv; the oldest comes first;
3. a download: the build that rules_python 1.5.1 uses, and what `--repo_env=BAZEL_PYTHON=download`
   takes at once.

Other workspaces get both by depending on this module. Toolchains are taken in the order of the
module graph, so one that also depends on rules_python names this module before it.
"""

load(":pip_site.bzl", "pip_site")

# What the wheels in the lock serve.
_VERSIONS = ["3.12", "3.13", "3.14"]

# Pinned here, as rules_python's own table changes its form from release to release.
_DOWNLOAD_URL = "https://github.com/astral-sh/python-build-standalone/releases/download/20250702/cpython-3.12.11+20250702-{}-unknown-linux-gnu-install_only.tar.gz"
_DOWNLOAD_SHA256 = {
    "aarch64": "a63c9d7d712ca33e2fc57d9bf3ebf98c8f574f23b3eeeed44faf3b4b08d8a9b8",
    "x86_64": "0919f8b5311765b4cf1342371724d7bf2a6eaf51f15f5cb2b9ad5fd0ee54271c",
}

_PROBE = "import sys, venv; print('%d.%d' % sys.version_info[:2], sys.executable)"

_BUILD = """\
load("@rules_python//python:py_runtime.bzl", "py_runtime")
load("@rules_python//python:py_runtime_pair.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

exports_files(["python3"])

py_runtime(
    name = "runtime",
    python_version = "PY3",
{interpreter})

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@rules_python//python:toolchain_type",
)
"""

# By path, also for the launcher of a py_binary: the machine may have no other Python.
_LOCAL = """\
    interpreter_path = "{0}",
    stub_shebang = "#!{0}",
"""

# As files of the build, so that it also goes where actions run remotely; without what is installed
# beside it.
_DOWNLOADED = """\
    files = glob(
        ["dist/bin/**", "dist/lib/**"],
        exclude = ["**/__pycache__/**", "**/site-packages/**", "**/* *"],
    ),
    interpreter = "dist/bin/python3",
"""

def _probe(rctx, python):
    """Returns (version, path) of an interpreter, or None if it does not run."""

    # A pyenv shim can be on PATH and yet refuse, so only an answer counts.
    result = rctx.execute([python, "-c", _PROBE])
    if result.return_code:
        return None
    version, path = result.stdout.strip().split(" ", 1)
    return version, path

def _candidates(rctx, version):
    on_path = [rctx.which(name) for name in ["python" + version, "python3"]]
    home = rctx.os.environ.get("HOME", "/root")
    pyenv = rctx.path(rctx.os.environ.get("PYENV_ROOT", home + "/.pyenv") + "/versions")
    installed = [
        folder.get_child("bin", "python3")
        for folder in (pyenv.readdir() if pyenv.exists else [])
        if folder.basename.startswith(version + ".")
    ]
    return [python for python in on_path + installed if python and python.exists]

def _find_python(rctx):
    """Returns the path of an interpreter of a wanted version on this machine, or None."""
    for version in _VERSIONS:
        for python in _candidates(rctx, version):
            found = _probe(rctx, python)
            if found and found[0] == version:
                return found[1]
    return None

def _named_python(rctx, python):
    found = _probe(rctx, python)
    if not found:
        fail("BAZEL_PYTHON={} does not run or lacks the venv module".format(python))
    if found[0] not in _VERSIONS:
        fail("BAZEL_PYTHON={} is Python {}; wanted is one of {}".format(python, found[0], ", ".join(_VERSIONS)))
    return found[1]

def _download_python(rctx):
    """Downloads an interpreter and returns its path."""
    arch = {"amd64": "x86_64"}.get(rctx.os.arch, rctx.os.arch)
    if arch in _DOWNLOAD_SHA256:
        download = rctx.download_and_extract(
            allow_fail = True,
            output = "dist",
            sha256 = _DOWNLOAD_SHA256[arch],
            stripPrefix = "python",
            url = _DOWNLOAD_URL.format(arch),
        )
        if download.success:
            return str(rctx.path("dist/bin/python3"))
    fail((
        "no Python {} was found and none could be downloaded: " +
        "install one of them, or name one with --repo_env=BAZEL_PYTHON=/path/to/python3"
    ).format(" or ".join(_VERSIONS)))

def _python_toolchain_impl(rctx):
    choice = rctx.os.environ.get("BAZEL_PYTHON", "")
    if choice == "download":
        python = None
    elif choice:
        python = _named_python(rctx, choice)
    else:
        python = _find_python(rctx)
    if python:
        # A bare venv: the interpreter without the packages that happen to be installed beside it.
        result = rctx.execute([python, "-m", "venv", "--without-pip", "venv"])
        if result.return_code:
            fail("{} cannot make a venv: {}".format(python, result.stdout + result.stderr))
        interpreter = _LOCAL.format(rctx.path("venv/bin/python3"))
    else:
        python = _download_python(rctx)
        interpreter = _DOWNLOADED
    rctx.symlink(python, "python3")
    rctx.file("BUILD.bazel", _BUILD.format(interpreter = interpreter))

_python_toolchain = repository_rule(
    implementation = _python_toolchain_impl,
    doc = "A Python toolchain, and `:python3`: the interpreter behind it, with its own pip.",
    environ = ["BAZEL_PYTHON", "HOME", "PATH", "PYENV_ROOT"],
)

def _python_impl(_module_ctx):
    _python_toolchain(name = "python")
    pip_site(
        name = "pypi",
        extra_imports = {"nvidia-cutlass-dsl": ["nvidia_cutlass_dsl/dsl_packages"]},
        extras = {"nvidia-cutlass-dsl": ["cu13"]},
        python = "@python//:python3",
        requirements_lock = Label("//tools/python:requirements_lock.txt"),
    )
    pip_site(
        name = "plot_pypi",
        python = "@python//:python3",
        requirements_lock = Label("//tools/bench/plot:requirements_lock.txt"),
    )

python = module_extension(
    implementation = _python_impl,
    doc = "Makes `@python` (a toolchain), `@pypi` (the locked wheels) and `@plot_pypi` (those of one tool).",
)
