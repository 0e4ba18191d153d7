"""`python3 -m dpdk`."""

import sys

from .main import main

sys.exit(main())
