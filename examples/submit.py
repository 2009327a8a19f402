"""The command line for `spark-submit`, which wants a file; same arguments as `vertexsdk`."""

import sys

from vertexsdk.cli import main

if __name__ == "__main__":
    sys.exit(main())
