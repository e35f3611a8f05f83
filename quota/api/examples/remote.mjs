// Asks a quotad on another host, again with the same id where an answer was lost: exit 75 if it is denied.
import { randomUUID } from "node:crypto";

async function acquire(operation) {
  const headers = { Authorization: `Bearer ${process.env.QUOTAD_TOKEN}` };
  const body = new URLSearchParams({ operation, request_id: randomUUID() });
  for (let tries = 1; ; tries++) {
    const signal = AbortSignal.timeout(3000);
    const answer = await fetch(process.env.QUOTAD_URL + "/v1/acquire", { method: "POST", headers, body, signal }).catch((lost) => lost);
    if (answer.status === 200) return true;
    if (answer.status === 429) return false;
    if (tries === 3 || (answer.status && answer.status !== 503)) throw new Error(`quotad: ${answer.status ?? answer}`);
    await new Promise((again) => setTimeout(again, 200)); // the answer was lost, or not decided: ask again, with the same id
  }
}
process.exit((await acquire("videos.list")) ? 0 : 75);
