"""Logs as JSON lines on standard error, one document an event. Neither keys nor, unless asked, texts are in them."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any


class JsonLines(logging.Formatter):
    """One line of JSON a record; what `extra={"fields": {…}}` holds stands beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)


def log_as_json() -> None:
    """Send everything that this process logs to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("kosbert.serving").setLevel(logging.INFO)
