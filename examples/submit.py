"""The command line as a file for `spark-submit`; it takes the same arguments as `vertexsdk`."""

import sys

from vertexsdk.cli import main

if __name__ == "__main__":
    sys.exit(main())
