"""``python -m unpooled.cli``."""

import sys

from unpooled.cli import main

sys.exit(main())
