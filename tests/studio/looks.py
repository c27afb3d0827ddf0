"""The browser windows for tests of Studio."""

from __future__ import annotations

from typing import Any

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}, "has_touch": True},
    "dark phone": {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}, "has_touch": True},
}
