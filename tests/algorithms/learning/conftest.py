"""scikit-learn counts processors by a program, unless this says how many there are."""

import os

os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")
