"""Search and groups over the index that the server was started with.

POST /search {"query": "배송이 늦어요", "k": 5}
POST /cluster {"count": 8}
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from kosbert.serving.errors import ApiError
from kosbert.serving.json_io import Body, answer, read, takes
from kosbert.serving.service import Service

if TYPE_CHECKING:
    from kosbert.serving.index_service import IndexService


class SearchRequest(Body):
    """What to look for."""

    query: str
    k: Annotated[int, Field(ge=1, le=100)] = 10
    filter: Annotated[str, Field(max_length=1_000)] = Field("", description="Such as source=news,year>=2020.")
    hybrid: bool = Field(False, description="Also count common words.")


class Hit(BaseModel):
    """A sentence that was found; the best has the highest score."""

    id: str
    text: str
    score: float
    cosine: float
    metadata: dict[str, Any]


class SearchAnswer(BaseModel):
    """The hits, best first."""

    hits: list[Hit]


class ClusterRequest(Body):
    """How to group."""

    count: Annotated[int, Field(ge=0, le=100)] = Field(
        0, description="Groups of kmeans; 0 chooses by the number of texts."
    )
    method: Literal["kmeans", "agglomerative", "hdbscan"] = "kmeans"


class Group(BaseModel):
    """Sentences that belong together."""

    number: int
    size: int
    label: list[str]
    examples: list[str]


class Point(BaseModel):
    """A sentence on the map; group -1 is none."""

    x: float
    y: float
    group: int
    text: str


class ClusterAnswer(BaseModel):
    """The groups, largest first, and a map of the sentences."""

    groups: list[Group]
    points: list[Point]


def search_routes(service: Service) -> APIRouter:
    """The endpoints that need an index."""
    router = APIRouter(tags=["kosbert"])

    def index() -> "IndexService":
        if service.index is None:
            raise ApiError(404, "no index is mounted: start the server with --index DIR", code="no_index")
        return service.index

    @router.post("/search", response_model=SearchAnswer, openapi_extra=takes(SearchRequest))
    async def search(request: Request) -> Response:
        """The sentences of the index that are nearest to a query in meaning."""
        mounted = index()
        wanted = await read(request, SearchRequest)
        encoded = await service.encode([wanted.query], request.scope["account"], param="query")
        hits = await mounted.search(wanted.query, encoded.vectors[0], wanted.k, wanted.filter, wanted.hybrid)
        fields = ("id", "text", "score", "cosine", "metadata")
        return answer({"hits": [{name: getattr(hit, name) for name in fields} for hit in hits]}, encoded.headers)

    @router.post("/cluster", response_model=ClusterAnswer, openapi_extra=takes(ClusterRequest))
    async def cluster(request: Request) -> Response:
        """Groups of a sample of the index, with topics and a map."""
        mounted = index()
        wanted = await read(request, ClusterRequest)
        return answer(await mounted.grouped(wanted.method, wanted.count))

    return router
