# Images of this repository: `signoff` with the extras server, postgres and oidc, and `sample` with the examples.
#
#   docker build --tag signoff .
#   docker build --tag signoff-sample --target sample .
#
# Build an image of your own workers FROM the stage `base` (--target base), which has no health check for a server. COPY your
# code, pip install its requirements, and set CMD ["worker", ...].

FROM python:3.14-slim AS build
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /src
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY src ./src
COPY studio ./studio
RUN uv build --wheel --out-dir /wheels
# The locked versions of uv.lock, by their hashes; the wheel itself adds none.
RUN uv export --frozen --quiet --no-dev --extra server --extra postgres --extra oidc --no-emit-project --output-file /requirements.txt
RUN uv venv /opt/signoff
RUN uv pip install --python /opt/signoff --require-hashes --requirement /requirements.txt
RUN uv pip install --python /opt/signoff --no-deps /wheels/*.whl

FROM python:3.14-slim AS base
RUN useradd --system --uid 10001 --home-dir /app --create-home signoff && install --directory --owner signoff /data
COPY --from=build /opt/signoff /opt/signoff
ENV PATH=/opt/signoff/bin:$PATH PYTHONUNBUFFERED=1 SIGNOFF_STORE=sqlite:////data/signoff.db
VOLUME /data
WORKDIR /app
USER signoff
# Signoff handles SIGTERM itself, also as process 1.
ENTRYPOINT ["signoff"]
CMD ["server", "--host", "0.0.0.0"]
EXPOSE 8000

FROM base AS sample
COPY examples/refund ./examples/refund
CMD ["worker", "examples.refund.flow:app"]

FROM base AS signoff
# Checks only the server. /ready also checks the database, but its outage must not restart the container.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["python", "-c", "import http.client, sys; server = http.client.HTTPConnection('127.0.0.1', 8000, timeout=4); server.request('GET', '/health'); sys.exit(server.getresponse().status != 200)"]
