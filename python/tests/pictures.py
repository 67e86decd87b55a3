"""Pictures to make files of."""

import numpy as np
from PIL import Image


def picture(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """Smooth and noisy parts, in any mode."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 120 * np.sin(x / (5 + 3 * c) + seed) * np.cos(y / (7 + c)) for c in range(4)]
    noise = rng.integers(-20, 20, (height, width, 4))
    values = np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)
    if mode == "CMYK":
        return Image.fromarray(values, "CMYK")
    if mode in ("RGBA", "LA"):
        return Image.fromarray(values, "RGBA").convert(mode)
    return Image.fromarray(values[..., :3], "RGB").convert(mode)
