"""A Hugging Face hub on localhost, for tests: the part of the protocol that the real client of huggingface_hub uses.

with HubServer() as hub:
    hub.add("klue/roberta-base", directory)       # HF_ENDPOINT=hub.url in the client
    hub.requests                                  # what the client asked for, e.g. "GET /klue/roberta-base/resolve/…"

Large files are in LFS as on the real hub: their metadata comes with a redirect to another host name, and their ETag is
a SHA-256. Branches and tags are names of commits; a pull request is the branch refs/pr/N with an author.
"""

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

LFS_SUFFIXES = (".bin", ".safetensors", ".model", ".onnx", ".h5", ".ot", ".msgpack")
CONVERSION_TITLE = "Adding `safetensors` variant of this model"
Files = dict[str, bytes]


@dataclass
class Repository:
    """The files of every commit, the names of commits, and the open pull requests (number, author)."""

    commits: dict[str, Files] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    pull_requests: list[tuple[int, str]] = field(default_factory=list)
    gated: bool = False

    def commit(self, revision: str) -> str | None:
        """Return the commit of a branch, a tag, a pull request or a commit."""
        return revision if revision in self.commits else self.refs.get(revision)


class HubServer:
    """Serves repositories in a thread, and records requests and connections."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[str] = []
        self.connections = 0
        self.broken: set[str] = set()
        """Files whose body ends in the middle, by `REPOSITORY/FILE`."""
        self.status: int | None = None
        """Answer everything with this status, such as 503."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hub = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        # Another host name, as the real hub's: the client does not follow such a redirect when it asks for metadata.
        self.lfs_url = f"http://localhost:{self._server.server_port}"

    def __enter__(self) -> "HubServer":
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, name: str, files: Path | Files, *, revision: str = "main", gated: bool = False) -> str:
        """Add a commit with these files, point `revision` to it, and return the commit."""
        if isinstance(files, Path):
            files = {
                path.relative_to(files).as_posix(): path.read_bytes() for path in files.rglob("*") if path.is_file()
            }
        digest = hashlib.sha1(f"{name}@{revision}".encode())
        for path in sorted(files):
            digest.update(path.encode() + files[path])
        repository = self.repositories.setdefault(name, Repository())
        repository.gated = gated
        repository.commits[digest.hexdigest()] = files
        repository.refs[revision] = digest.hexdigest()
        return digest.hexdigest()

    def add_pull_request(self, name: str, number: int, files: Files, *, author: str) -> str:
        """Add an open pull request with the title of the official conversion to safetensors."""
        self.repositories.setdefault(name, Repository()).pull_requests.append((number, author))
        return self.add(name, files, revision=f"refs/pr/{number}")

    def downloads(self, pattern: str = "") -> list[str]:
        """Return the files that were sent, as `REPOSITORY/FILE`, whose name matches a regular expression."""
        sent = [
            f"{match[1]}/{match[2]}"
            for line in self.requests
            if (match := re.fullmatch(r"GET /(?:lfs/)?([^/]+/[^/]+)/(?:resolve/.*|[0-9a-f]{40})/([^/]+)", line))
        ]
        return [file for file in sent if re.search(pattern, file)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: HubServer

    def get_request(self):
        self.hub.connections += 1
        return super().get_request()

    def handle_error(self, request, client_address):
        """Print nothing: clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url, hub = urlsplit(self.path), self.server.hub
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        hub.requests.append(f"{self.command} {unquote(url.path)}")
        if hub.status:
            return self._send(hub.status, b"", {"X-Error-Message": "out of order"})
        if url.path.startswith("/lfs/"):
            return self._send_lfs(url.path)
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(\w[\w-]*))?(?:/([^/]+))?(?:/(.*))?", url.path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path)
        match = api or file
        if not match or match[1] not in hub.repositories:
            return self._error(401, "RepoNotFound", "Invalid username or password.")
        name, repository = match[1], hub.repositories[match[1]]
        if file:
            return self._send_file(name, repository, unquote(file[2]), unquote(file[3]))
        return self._send_api(name, repository, api[2] or "", unquote(api[3] or "main"), parse_qs(url.query), body)

    def _send_api(
        self, name: str, repository: Repository, kind: str, revision: str, query: dict[str, list[str]], body: bytes
    ) -> None:
        if kind == "refs":
            groups: dict[str, list] = {"branches": [], "converts": [], "tags": [], "pullRequests": []}
            for ref, commit in repository.refs.items():
                group = "pullRequests" if ref.startswith("refs/pr/") else "branches" if ref == "main" else "tags"
                groups[group].append({"name": ref, "ref": ref, "targetCommit": commit})
            return self._send_json(groups)
        if kind == "discussions":
            author = query.get("author", [None])[0]
            numbers = [(number, by) for number, by in repository.pull_requests if author in (None, by)]
            discussions = [
                {"title": CONVERSION_TITLE, "num": number, "author": {"name": by}, "status": "open",
                 "isPullRequest": True, "createdAt": "2023-03-01T00:00:00.000Z",
                 "repo": {"name": name, "type": "model"}}
                for number, by in numbers
            ]  # fmt: skip
            return self._send_json({"discussions": discussions, "count": len(discussions), "start": 0})
        commit = repository.commit(revision)
        if commit is None:
            return self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        files = repository.commits[commit]
        if kind in ("", "revision"):
            siblings = [{"rfilename": path} for path in sorted(files)]
            gated = "manual" if repository.gated else False
            return self._send_json(
                {"_id": "0" * 24, "id": name, "modelId": name, "sha": commit, "private": False, "gated": gated,
                 "disabled": False, "downloads": 0, "likes": 0, "tags": [], "siblings": siblings}
            )  # fmt: skip
        if kind == "tree":
            return self._send_json([_entry(path, files[path]) for path in sorted(files)])
        if kind == "paths-info":
            wanted = json.loads(body)["paths"] if body.startswith(b"{") else parse_qs(body.decode())["paths"]
            return self._send_json([_entry(path, files[path]) for path in wanted if path in files])
        return self._error(404, "", f"{kind} is not part of this server")

    def _send_file(self, name: str, repository: Repository, revision: str, path: str) -> None:
        commit = repository.commit(revision)
        if commit is None:
            return self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if repository.gated:
            return self._error(401, "GatedRepo", "Access to this model is restricted.")
        content = repository.commits[commit].get(path)
        if content is None:
            return self._error(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
        headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if path.endswith(LFS_SUFFIXES):
            digest = hashlib.sha256(content).hexdigest()
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))}
            headers["Location"] = f"{self.server.hub.lfs_url}/lfs/{name}/{commit}/{path}"
            return self._send(302, b"", headers)
        return self._send_content(content, headers | {"ETag": f'"{_git_sha1(content)}"'}, f"{name}/{path}")

    def _send_lfs(self, url: str) -> None:
        _, _, owner, name, commit, path = unquote(url).split("/", 5)
        content = self.server.hub.repositories[f"{owner}/{name}"].commits[commit][path]
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "Accept-Ranges": "bytes"}
        self._send_content(content, headers, f"{owner}/{name}/{path}")

    def _send_content(self, content: bytes, headers: dict[str, str], file: str) -> None:
        start, status = 0, 200
        if requested := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start, status = int(requested[1]), 206
            headers |= {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        part = content[start:]
        if file in self.server.hub.broken and self.command == "GET":
            self._send(status, part[: max(0, len(content) // 2 - start)], headers, length=len(part))
            self.close_connection = True
        else:
            self._send(status, part, headers)

    def _send_json(self, document: object) -> None:
        self._send(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message} | (headers or {})
        self._send(status, json.dumps({"error": message}).encode(), headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, length: int | None = None) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _git_sha1(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def _entry(path: str, content: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"type": "file", "oid": _git_sha1(content), "size": len(content), "path": path}
    if path.endswith(LFS_SUFFIXES):
        entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return entry
