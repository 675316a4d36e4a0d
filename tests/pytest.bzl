"""`pytest_test`: a file of pytest tests as a Bazel test."""

load("@rules_python//python:py_test.bzl", "py_test")

def pytest_test(name, srcs, args = [], deps = [], **kwargs):
    """A py_test that runs pytest on its sources.

    Args:
      name: of the target.
      srcs: files of tests; their names may be anything.
      args: further arguments for pytest.
      deps: what the tests import, beside pytest.
      **kwargs: passed on to py_test.
    """
    py_test(
        name = name,
        srcs = srcs + [Label("//tests:pytest_main.py")],
        args = ["$(rootpath {})".format(src) for src in srcs] + args,
        main = Label("//tests:pytest_main.py"),
        deps = deps + ["@pypi//pytest"],
        **kwargs
    )
