"""HTTP server: OpenAI's and text-embeddings-inference's endpoints, search and a web page, with dynamic batching.

from kosbert.serving.app import build_app
from kosbert.serving.service import Service
from kosbert.serving.settings import ServerSettings
app = build_app(Service.open(ServerSettings(model="builtin")))     # for any ASGI server; `kosbert serve` uses uvicorn

A request:  middleware ─► routes/ ─► Service.encode ─► DynamicBatcher ─► model thread
"""
