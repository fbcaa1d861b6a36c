# `kosbert serve` on CPUs. Exported models run on ONNX Runtime, so the image has no torch.
#
#   docker build -t kosbert .
#   docker run -p 8080:8080 -e KOSBERT_API_KEYS=$(openssl rand -hex 24) --read-only --tmpfs /tmp kosbert
#   docker run -p 8080:8080 -v ./my-model:/model:ro kosbert serve /model --host 0.0.0.0

FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
# Only the packages needed to serve an exported model, in the tested versions; kosbert's other dependencies are for training.
RUN python -m venv /opt/kosbert \
 && /opt/kosbert/bin/pip install --no-cache-dir --constraint constraints.txt \
      fastapi uvicorn httptools orjson prometheus-client \
      numpy onnxruntime tokenizers pydantic platformdirs filelock packaging pyyaml rich typer scipy scikit-learn \
      pyarrow bm25s usearch kiwipiepy \
 && /opt/kosbert/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home kosbert
COPY --from=build /opt/kosbert /opt/kosbert
ENV PATH=/opt/kosbert/bin:$PATH PYTHONUTF8=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=/tmp
USER 10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/ready', timeout=2)"]
ENTRYPOINT ["kosbert"]
CMD ["serve", "builtin", "--host", "0.0.0.0"]
