"""Search and clustering over the index of the server.

POST /search {"query": "배송이 늦어요", "k": 5}
POST /cluster {"n_clusters": 8}
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from kosbert.serving.errors import ApiError
from kosbert.serving.json_io import RequestBody, json_response, openapi_body, read_json
from kosbert.serving.service import Service

if TYPE_CHECKING:
    from kosbert.serving.index_service import IndexService


class SearchRequest(RequestBody):
    """A search query."""

    query: str
    k: Annotated[int, Field(ge=1, le=100)] = 10
    filter: Annotated[str, Field(max_length=1_000)] = Field("", description="Such as source=news,year>=2020.")
    hybrid: bool = Field(False, description="Combine with BM25 keyword search.")


class Hit(BaseModel):
    """A search result."""

    id: str
    text: str
    score: float
    cosine: float
    metadata: dict[str, Any]


class SearchResponse(BaseModel):
    """Search results, best first."""

    hits: list[Hit]


class ClusterRequest(RequestBody):
    """How to cluster."""

    n_clusters: Annotated[int, Field(ge=0, le=100)] = Field(
        0, description="Number of k-means clusters; 0 chooses it from the number of texts."
    )
    method: Literal["kmeans", "agglomerative", "hdbscan"] = "kmeans"


class Cluster(BaseModel):
    """A cluster: its topic words and its most central sentences."""

    id: int
    size: int
    topic: list[str]
    representatives: list[str]


class Point(BaseModel):
    """A sentence on the map; cluster -1 is noise."""

    x: float
    y: float
    cluster: int
    text: str


class ClusterResponse(BaseModel):
    """The clusters, largest first, and a map of the sentences."""

    clusters: list[Cluster]
    points: list[Point]


def search_routes(service: Service) -> APIRouter:
    """Return the routes that need an index."""
    router = APIRouter(tags=["kosbert"])

    def require_index() -> "IndexService":
        if service.index is None:
            raise ApiError(404, "this server has no index: start it with --index DIR", code="no_index")
        return service.index

    @router.post("/search", response_model=SearchResponse, openapi_extra=openapi_body(SearchRequest))
    async def search(request: Request) -> Response:
        """The sentences of the index that are closest to a query in meaning."""
        index = require_index()
        body = await read_json(request, SearchRequest)
        encoded = await service.encode([body.query], request.state.context, param="query")
        hits = await index.search(body.query, encoded.vectors[0], body.k, body.filter, body.hybrid)
        fields = ("id", "text", "score", "cosine", "metadata")
        return json_response({"hits": [{name: getattr(hit, name) for name in fields} for hit in hits]}, encoded.headers)

    @router.post("/cluster", response_model=ClusterResponse, openapi_extra=openapi_body(ClusterRequest))
    async def cluster(request: Request) -> Response:
        """Clusters of a sample of the index, with topics and a map."""
        index = require_index()
        body = await read_json(request, ClusterRequest)
        return json_response(await index.cluster(body.method, body.n_clusters))

    return router
