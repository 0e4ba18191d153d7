"""`python3 -m frr`."""

import sys

from .main import main

sys.exit(main())
