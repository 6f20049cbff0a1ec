"""dashboard.py PROMETHEUS DASHBOARD.json: asks a Prometheus that scrapes an espalierd for each query of the dashboard. Fails
where a query does not parse, where it names a metric that Prometheus does not have, and where a panel that shows the present
state is empty."""
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

base, path = sys.argv[1:]


def get(place, **arguments):
    url = f"{base}/api/v1/{place}?" + urllib.parse.urlencode(arguments)
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{arguments}: {error.read().decode()}")


# Until the daemon was scraped a few times.
for _ in range(100):
    try:
        if len(get("query", query="espalier_slurm_up[1m]")["result"][0]["values"]) > 4:
            break
    except (OSError, LookupError):
        pass
    time.sleep(0.5)
else:
    raise SystemExit("Prometheus has not scraped espalierd")

known = set(get("label/__name__/values"))
problems, empty = [], []
queries = [(panel["title"], target["expr"]) for panel in json.load(open(path))["panels"] for target in panel["targets"]]
for title, query in queries:
    query = query.replace("$__rate_interval", "30s")
    for name in set(re.findall(r"\b(?:espalier|scrape)_\w+", query)) - known:
        problems.append(f"{title}: {name}: there is no such metric")
    if not get("query", query=query)["result"]:
        empty.append(title)
        if "> 0" not in query:
            problems.append(f"{title}: nothing comes of {query}")
unused = {name for name in known if name.startswith("espalier_")} - set(re.findall(r"\bespalier_\w+", " ".join(q for _, q in queries)))
print(f"{len(queries)} queries; nothing to show now: {sorted(set(empty))}; not on the dashboard: {sorted(unused)}")
raise SystemExit("\n".join(problems) or (0 if len(queries) > 20 else "too few queries"))
