import sys, json
from pathlib import Path
from lab.base import interruptible, sweep
from .scenario import Suite
from .local import Common, suite_folder
from .job import Job
import tempfile
def main():
    interruptible(); sweep()
    suite = Suite(suite_folder())
    with tempfile.TemporaryDirectory() as t:
        common = Common(suite, t).make()
        for n in sys.argv[1:]:
            r = Job(suite.scenario(n), common, Path("/tmp/s/out")/n).run()
            print(json.dumps(r, indent=1))
