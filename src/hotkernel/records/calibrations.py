"""Keeps what a card really reaches, per card, driver and power limit, and says why a kept one is not used."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotkernel.records import files
from hotkernel.schema.plain import from_plain, to_plain
from hotkernel.schema.roofline import CALIBRATION_SCHEMA, VALID_DAYS, Calibration

FOLDER = "calibrations"
CLOCKS_DIFFER_DAYS = 1.0  # so far may a shared folder's clocks lie apart before a date in the future means nothing


@dataclass(frozen=True)
class Kept:
    """A calibration that may be used, or none and the reason; a broken file is told of in either case."""

    calibration: Calibration | None
    reason: str | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.calibration is None) != (self.reason is not None):
            raise ValueError(f"a kept calibration with reason={self.reason!r} contradicts itself")


class _Broken(ValueError):
    """A file that holds no calibration of ours; its text says why."""


def save(state: Path, calibration: Calibration) -> Path:
    """Keep `calibration`, over an older one of the same card, driver and power limit; return the file.

    Raises ToolError where the disk refuses; the older one still stands then.
    """
    path = _path(state, calibration.gpu_uuid, calibration.driver, calibration.power_limit_w)
    files.write_whole(path, json.dumps(to_plain(calibration), indent=1) + "\n")
    return path


def load(
    state: Path,
    gpu_uuid: str | None,
    driver: str | None,
    power_limit_w: float | None,
    now: datetime.datetime | None = None,
) -> Kept:
    """The calibration kept for this card at this driver and power limit, unless it is older than 30 days."""
    if not gpu_uuid or not driver:
        return Kept(None, "the driver gives no uuid or no version for this card, so no calibration can be its own")
    path = _path(state, gpu_uuid, driver, power_limit_w)
    if not path.is_file():
        return Kept(None, _other(state, gpu_uuid) or "this card has not been calibrated: call calibrate")
    try:
        plain = files.read_object(path)
        if plain.get("schema") != CALIBRATION_SCHEMA:
            return Kept(None, f"this card's calibration is another hotkernel's (schema {plain.get('schema')!r:.20}): "
                              "call calibrate")
        calibration = _built(plain)
        if (calibration.gpu_uuid, calibration.driver, calibration.power_limit_w) != (gpu_uuid, driver, power_limit_w):
            raise _Broken("it is another card's, driver's or power limit's than its name says")
        age_days = _age_days(calibration, now)
    except (_Broken, files.NotJson) as broken:
        return Kept(None, "this card's calibration was unusable: call calibrate", (_set_aside(path, str(broken)),))
    except OSError as error:
        return Kept(None, f"this card's calibration cannot be read: {error.strerror or error} ({path})")
    if age_days > VALID_DAYS:
        return Kept(None, f"this card's calibration is {age_days:.0f} days old, and {VALID_DAYS} is the limit: "
                          "call calibrate")
    if age_days < -CLOCKS_DIFFER_DAYS:
        return Kept(None, f"this card's calibration is dated {calibration.made_at}, which is not yet: call calibrate")
    return Kept(calibration)


def _built(plain: dict[str, Any]) -> Calibration:
    try:
        return from_plain(Calibration, plain)
    except (ValueError, TypeError, KeyError) as error:
        raise _Broken(f"it holds no calibration: {error}"[:300]) from None


def _age_days(calibration: Calibration, now: datetime.datetime | None) -> float:
    try:
        made = datetime.datetime.fromisoformat(calibration.made_at)
    except ValueError:
        raise _Broken(f"its date is {calibration.made_at[:40]!r}") from None
    made = made if made.tzinfo else made.replace(tzinfo=datetime.UTC)
    return ((now or datetime.datetime.now(datetime.UTC)) - made) / datetime.timedelta(days=1)


def _set_aside(path: Path, why: str) -> str:
    """Move a broken file out of the way, and say so; where that is refused, the next `calibrate` writes over it."""
    aside = path.with_name(f"{path.name}.broken")
    with contextlib.suppress(OSError):
        path.replace(aside)
        return f"{path.name} was broken ({why}) and now lies beside as {aside.name}"
    return f"{path} is broken ({why}) and could not be moved away"


def _other(state: Path, gpu_uuid: str) -> str | None:
    """What to say when this card has calibrations, but at other drivers or power limits."""
    beginning = f"{_slug(gpu_uuid)}_"
    kept = sorted(path.name[len(beginning) : -len(".json")] for path in (state / FOLDER).glob(f"{beginning}*.json"))
    if not kept:
        return None
    settings = ", ".join(setting.replace("_", " at ") for setting in kept[:3])
    return f"this card was calibrated at another driver or power limit ({settings}): call calibrate"


def _path(state: Path, gpu_uuid: str, driver: str, power_limit_w: float | None) -> Path:
    power = "no-limit" if power_limit_w is None else f"{power_limit_w:g}W"
    return state / FOLDER / f"{_slug(gpu_uuid)}_{_slug(driver)}_{power}.json"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", text)[:80]
