"""Noise of the operating system that is the same in every run: a test of a private release then cannot fail by chance.

Even a right audit fails once in a thousand runs, noise can leave no release, and digits can agree. What is patched is the module
that alone asks the operating system for noise; ids, tokens and everything else stay random.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

from gridveil.privacy.mechanisms import exact_sampling
from gridveil.privacy.mechanisms.exact_sampling import SeededEntropy


def seeded_system(name: str) -> SimpleNamespace:
    """What the samplers see of ``os``: noise that depends on a name, such as that of a test."""
    return SimpleNamespace(urandom=SeededEntropy(zlib.crc32(name.encode())).read)


def seed_noise(name: str) -> None:
    """Seed the noise of this process."""
    exact_sampling.os = seeded_system(name)


def command_with_noise(name: str) -> str:
    """Python code that is the command ``gridveil`` with the noise of a name."""
    return (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from seeded_noise import seed_noise; "
        f"sys.path.pop(0); seed_noise({name!r} + ' '.join(sys.argv[1:])); from gridveil.cli import main; main()"
    )


def install_command(folder: Path, name: str) -> Path:
    """Write the command ``gridveil`` with the noise of a name into a folder for PATH; give the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "gridveil"
    # Worker processes import the script that their parent runs.
    script.write_text(f'#!{sys.executable}\nif __name__ == "__main__":\n    {command_with_noise(name)}\n')
    script.chmod(0o755)
    return folder
