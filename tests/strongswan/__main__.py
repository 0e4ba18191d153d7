"""`python3 -m strongswan`."""

import sys

from .main import main

sys.exit(main())
