"""The model over HTTP: OpenAI's and text-embeddings-inference's endpoints, search, a page; many clients, one model.

from kosbert.serving.app import build_app
from kosbert.serving.service import Service
from kosbert.serving.settings import Settings
app = build_app(Service.open(Settings(model="builtin")))     # any ASGI server; `kosbert serve` is this with uvicorn

A request's way:  envelope ─► guard ─► an endpoint ─► gatherer ─► the model's own thread
"""
