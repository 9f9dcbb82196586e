// Ranks documents with a Rankgrove service: node rank.mjs http://127.0.0.1:8080 < request.json

import { readFileSync } from "node:fs";
import { argv, env } from "node:process";

// The documents in the order of their scores, as objects with id, rank and score.
// A document is {id, features: {name: number or null}}. Options are those of the service:
// top, explain, absent, unknown.
export async function rank(service, documents, options = {}) {
  const headers = { "Content-Type": "application/json" };
  if (env.RANKGROVE_TOKEN) headers.Authorization = `Bearer ${env.RANKGROVE_TOKEN}`;
  const answer = await fetch(`${service}/rank`, {
    method: "POST",
    headers,
    body: JSON.stringify({ documents, ...options }),
    signal: AbortSignal.timeout(5000),
  });
  const content = await answer.json();
  if (!answer.ok) throw new Error(`${answer.status}: ${content.error}`);
  return content.documents;
}

if (argv[1] && import.meta.url.endsWith("rank.mjs")) {
  const { documents, ...options } = JSON.parse(readFileSync(0, "utf8"));
  for (const document of await rank(argv[2], documents, options)) {
    console.log(document.rank, document.id, document.score);
  }
}
