"""Ranks documents with a Rankgrove service.

python rank.py http://127.0.0.1:8080 < request.json
"""

import json
import os
import sys
import urllib.error
import urllib.request


def rank(service, documents, **options):
    """The documents in the order of their scores, as dicts with id, rank and score.

    A document is {"id": …, "features": {name: number or None}}. Options are those of the
    service: top, explain, absent, unknown.
    """
    body = json.dumps({"documents": documents, **options}, allow_nan=False).encode()
    request = urllib.request.Request(f"{service}/rank", body, {"Content-Type": "application/json"})
    if token := os.environ.get("RANKGROVE_TOKEN"):
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)["documents"]
    except urllib.error.HTTPError as refusal:
        with refusal:
            raise ValueError(f"{refusal.code}: {json.load(refusal)['error']}") from None


if __name__ == "__main__":
    for document in rank(sys.argv[1], **json.load(sys.stdin)):
        print(document["rank"], document["id"], document["score"])
