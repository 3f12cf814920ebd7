"""Short tests of an installed wheel, in its own environment: python scripts/test_wheel.py

Needs pytest and ml_dtypes. The package must come from the wheel, not from this checkout.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("test_numpy.py", "test_testing.py")


def main() -> int:
    import isrlu
    import isrlu_lab

    package = Path(isrlu.__file__).resolve().parent
    if ROOT / "src" in package.parents:
        sys.exit(f"{package} is the checkout, not an installed wheel")
    results = sorted(path.parent.name for path in (Path(isrlu_lab.__file__).parent / "shipped").glob("*/result.json"))
    if "table4" not in results:
        sys.exit("the wheel has no shipped results")
    print(f"isrlu {isrlu.__version__} in {package}: {isrlu.simd()}; shipped: {', '.join(results)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "pytest.ini"
        config.write_text("[pytest]\nmarkers = slow\npythonpath = " + str(ROOT / "tests") + "\n")
        tests = [str(ROOT / "tests" / name) for name in TESTS]
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-c", str(config)]
        return subprocess.run([*command, "--import-mode=importlib", *tests], cwd=folder, env=os.environ).returncode


if __name__ == "__main__":
    sys.exit(main())
