"""One merged site-packages from a hash-locked requirements file, one py_library per distribution.

rules_python's `pip.parse` gives every wheel a folder of its own. That fails for wheels that share a
package directory (nvidia-cutlass-dsl and its libs-* wheels, the nvidia-cuda-* wheels) and for those
that extend the path with a .pth file. Here all wheels are installed side by side, as on a plain
machine.

`@pypi//numpy` is the distribution with what it requires; `@pypi//numpy:files` are its files alone.
"""

def _run(rctx, what, command):
    result = rctx.execute(command, timeout = 1800)
    if result.return_code:
        fail("{} failed:\n{}{}".format(what, result.stdout, result.stderr))

def _pip(rctx, python):
    """Returns this interpreter if it has pip, else one in a venv that has."""
    if not rctx.execute([python, "-m", "pip", "--version"]).return_code:
        return python
    what = "{} has no pip (Debian and Ubuntu: apt-get install python3-pip); a venv with one".format(python)
    _run(rctx, what, [python, "-m", "venv", "pip"])
    return rctx.path("pip/bin/python3")

def _pip_site_impl(rctx):
    generator = rctx.path(rctx.attr._generator)
    lock = rctx.path(rctx.attr.requirements_lock)
    python = _pip(rctx, rctx.path(rctx.attr.python))
    rctx.report_progress("installing wheels")
    _run(rctx, "Installing the wheels of {}".format(rctx.attr.requirements_lock), [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--require-hashes",
        "--only-binary=:all:",
        "--target=site",
        "--requirement={}".format(lock),
    ])
    _run(rctx, "Describing the wheels", [
        python,
        generator,
        json.encode({"extra_imports": rctx.attr.extra_imports, "extras": rctx.attr.extras}),
    ])

pip_site = repository_rule(
    implementation = _pip_site_impl,
    attrs = {
        "extra_imports": attr.string_list_dict(
            doc = "Distribution to further folders, below site-packages, that it puts on the path.",
        ),
        "extras": attr.string_list_dict(
            doc = "Distribution to the extras it was locked with; what they require becomes part of it.",
        ),
        "python": attr.label(
            allow_single_file = True,
            mandatory = True,
        ),
        "requirements_lock": attr.label(
            allow_single_file = True,
            mandatory = True,
        ),
        "_generator": attr.label(default = Label("//tools/bazel:pip_site_build_files.py")),
    },
    doc = "Installs hash-locked wheels into one site-packages.",
)
