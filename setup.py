"""Finds the packages; everything else is in pyproject.toml.

backends/ and algorithms/ stand at the top of the checkout and are imported under vertexsdk, so that
nothing called "backends" lands in a user's site-packages.
"""

from setuptools import find_packages, setup

directories = {
    "vertexsdk": "vertexsdk",
    "vertexsdk.backends": "backends",
    "vertexsdk.algorithms": "algorithms",
}
setup(
    package_dir=directories,
    packages=[
        ".".join((name, *inner))
        for name, directory in directories.items()
        for inner in [(), *((package,) for package in find_packages(directory))]
    ],
)
