"""The command line for `spark-submit`, which wants a file; the arguments are those of `vertexsdk`."""

import sys

from vertexsdk.cli import main

if __name__ == "__main__":
    sys.exit(main())
