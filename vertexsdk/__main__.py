"""`python -m vertexsdk` and `spark-submit .../vertexsdk/__main__.py`."""

import sys

from vertexsdk.cli import main

sys.exit(main())
